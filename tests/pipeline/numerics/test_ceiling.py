import resource
import subprocess
import sys

import pytest
import yaml
from conftest import REPOSITORY, small_study

from pipeline.numerics.ceiling import HIGHEST, largest_batch


@pytest.mark.parametrize("limit", [1, 2, 7, 31, 32, 33, 100, 1000, 4097])
@pytest.mark.parametrize("start", [1, 32, 5000])
def test_bisection_finds_the_limit_to_a_thirty_second(limit, start):
    asked = []

    def fits(size):
        asked.append(size)
        return size <= limit

    found = largest_batch(fits, start)
    assert found <= limit
    assert limit - found <= max(1, found / 32)
    assert len(asked) == len(set(asked)) <= 30


def test_nothing_fits_or_everything_does():
    assert largest_batch(lambda _: False, 64) is None
    assert largest_batch(lambda _: True, 64) == HIGHEST


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
