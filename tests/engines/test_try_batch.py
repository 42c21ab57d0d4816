"""A batch that fits into memory and one that does not, each in a process of its own."""

import resource
import subprocess
import sys

import yaml
from conftest import REPOSITORY, small_study


def try_batch(workspace, size, limit_bytes=None):
    def limit():
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))

    (workspace / "params.yaml").write_text(yaml.safe_dump(small_study().model_dump(mode="json")))
    command = [sys.executable, "-m", "stages.try_batch", "--benchmark", "wide", "--variant", "mixed"]
    return subprocess.run(
        [*command, "--batch-size", str(size)],
        cwd=workspace,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "", "HOME": str(workspace)},
        capture_output=True,
        preexec_fn=limit,
        check=False,
    )


def test_a_batch_that_fits_and_one_that_does_not(workspace):
    """The second process may hold 4 GB of data; its batch alone takes 16 GB as float32."""
    done = try_batch(workspace, 1000)
    assert done.returncode == 0, done.stderr
    done = try_batch(workspace, 2**26, limit_bytes=4 * 10**9)
    assert done.returncode == 3, done.stderr[-2000:]
