"""The command that measures speed: what it does before it measures."""

import os
import shutil
import subprocess
import sys

from conftest import REPOSITORY


def test_it_runs_nothing_of_the_folder_that_it_works_in(tmp_path):
    """Say of an archive that was unpacked there: what multiprocessing starts would look there for Python's modules."""
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    (tmp_path / "signal.py").write_text("raise SystemExit('a stranger was here')")
    command = [sys.executable, "-m", "stages.speed", "--benchmark", "none"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --benchmark: must be one of")
    assert "stranger" not in done.stderr
