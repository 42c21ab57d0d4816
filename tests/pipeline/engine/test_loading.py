import subprocess
import sys

import pytest


@pytest.mark.parametrize("stage", ["compare", "judge", "report"])
def test_statistics_verdicts_and_the_report_wait_for_no_package_that_they_do_not_use(stage):
    """The notebook's tables and charts are made by its kernel, a process of its own."""
    spared = {"matplotlib", "pandas", "scipy.optimize", "scipy.stats"}
    code = f"import sys, stages.{stage}; print(*{spared} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
