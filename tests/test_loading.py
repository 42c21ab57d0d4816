import subprocess
import sys

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
