import subprocess
import sys

import pytest

CODE = """
import sys
import pipeline.engine
spared = {"IPython", "jax", "matplotlib", "pandas", "pyarrow"}
assert not spared & sys.modules.keys(), spared & sys.modules.keys()
import keras, pandas
assert keras.ops.convert_to_numpy(keras.ops.add(1, 1)) == pandas.Series([1, 1]).sum()
"""


def test_tensorflow_is_loaded_without_what_no_run_needs_and_the_rest_can_still_be_imported():
    subprocess.run([sys.executable, "-c", CODE], check=True)


@pytest.mark.parametrize("stage", ["compare", "judge", "report"])
def test_statistics_verdicts_and_the_report_wait_for_no_package_that_they_do_not_use(stage):
    """The notebook's tables and charts are made by its kernel, a process of its own."""
    spared = {"matplotlib", "pandas", "rfc3987_syntax.syntax_helpers", "scipy.optimize", "scipy.stats"}
    code = f"import sys, stages.{stage}; print(*{spared} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
