"""The real compilers of a TPU v5e and an H100 take the project's own training step, and multiply in 16 bits.

They need 5 GB of packages and no accelerator. So the paths of devices that are not here can't rot.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import run

HERE = Path(__file__).parent
COMPILERS = REPOSITORY / ".compilers"


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python with the compilers."""
    uv = REPOSITORY / ".venv" / "bin" / "uv"
    subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, COMPILERS], check=True)
    locked = [HERE / "requirements.txt", "--quiet", "--require-hashes", "--python", COMPILERS]
    subprocess.run([uv, "pip", "sync", *locked], check=True)
    return COMPILERS / "bin" / "python"


@pytest.mark.parametrize(
    ("target", "policy", "dtype"),
    [("tpu-v5e", "mixed_bfloat16", "bf16"), ("h100", "mixed_float16", "f16"), ("h100", "float32", "f32")],
)
def test_a_compiled_training_step_multiplies_in_the_dtype_of_its_policy(python, target, policy, dtype):
    done = run(REPOSITORY, python, HERE / "lower.py", target, policy)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) >= 8  # three layers forward, three gradients of weights, two of what enters a layer
    assert {each for operands in found for each in operands} == {dtype}
