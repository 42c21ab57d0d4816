"""The compilers of a TPU and of a GPU, for real: they need `.compilers`, 5 GB, and no accelerator."""

import json
import subprocess
import time

import pytest
from conftest import REPOSITORY

from pipeline.compiled.answers import memory_ratio, multiplied_in
from pipeline.compiled.schema import CompiledTarget, read_target

TARGETS = ("tpu-v5e", "h100")
PYTHON = REPOSITORY / ".compilers" / "bin" / "python"
MAX_SECONDS = 600  # installation and all


def compiled(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-m", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledTarget]:
    """The dense model, compiled from nothing for a TPU and for a GPU."""
    started = time.monotonic()
    subprocess.run(["make", ".compilers/ready"], cwd=REPOSITORY, check=True)
    folder = tmp_path_factory.mktemp("compiled")
    done = compiled("stages.compiled", *TARGETS, "--benchmark", "mnist_dense", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    seconds = time.monotonic() - started
    assert seconds < MAX_SECONDS
    print(f"{len(done.stdout.splitlines())} programs in {seconds:.0f} s, installation included")
    return {target: read_target(target, folder) for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_the_dense_model_compiles_to_what_is_committed(made, target):
    committed = read_target(target, REPOSITORY / "compiled").programs
    found = [program.model_dump(exclude={"seconds"}) for program in made[target].programs]
    dense = [program for program in committed if program.benchmark == "mnist_dense"]
    assert found == [program.model_dump(exclude={"seconds"}) for program in dense]


@pytest.mark.parametrize(("target", "precision"), [("tpu-v5e", "mixed_bfloat16"), ("h100", "mixed_float16")])
def test_a_mixed_policy_multiplies_in_16_bits_and_takes_less_memory(made, target, precision):
    program = made[target].find("mnist_dense", precision, 8192)
    assert multiplied_in(program, 16) == (8, 8)  # three layers: forward, weights, and inputs of all but the first
    assert multiplied_in(made[target].find("mnist_dense", "float32", 8192), 16) == (0, 8)
    assert memory_ratio(made[target], "mnist_dense", precision, 8192) < 0.75


def test_float8_multiplies_in_8_bits_and_saves_no_memory(made):
    program = made["h100"].find("mnist_dense", "float8", 8192)
    assert multiplied_in(program, 8) == (8, 8)
    assert {each.operands for each in program.operations} == {"f8e4m3fn", "f8e4m3fn × f8e5m2", "f8e5m2 × f8e4m3fn"}
    assert program.memory.total > made["h100"].find("mnist_dense", "mixed_bfloat16", 8192).memory.total


@pytest.mark.usefixtures("made")  # which has installed the compilers
def test_advice_for_a_target_says_what_fits(tmp_path):
    for name in ("pipeline", "stages", "requirements", "conf"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    asked = ["stages.advise_target", "--target", "h100", "--model", "dense", "--dataset", "mnist", "--batch", "1024"]
    done = subprocess.run(
        [PYTHON, "-m", *asked], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert "mixed_float16 at batch 1,024 fits" in done.stdout
    assert "8 of 8 products and convolutions are in 16 bits" in done.stdout
    noted = json.loads((tmp_path / "advice" / "mnist_dense.h100.json").read_text())
    assert {each["precision"] for each in noted["programs"]} >= {"float32", "mixed_float16"}


@pytest.mark.usefixtures("made")
def test_a_model_that_does_not_fit_is_a_result(tmp_path):
    for name in ("pipeline", "stages", "requirements", "conf"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    asked = ["--target", "v100-16gb", "--model", "dense", "--dataset", "mnist", "--batch", "1000000"]
    done = subprocess.run(
        [PYTHON, "-m", "stages.advise_target", *asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=MAX_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "strict float32 at batch 1,000,000 does not fit" in done.stdout


BRANCHING = """\
import keras

class Branching(keras.layers.Layer):
    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)

    def call(self, x):
        if float(keras.ops.mean(x)) > 0:
            raise RuntimeError
        return x

def build(spec):
    images = keras.Input(spec.image_shape)
    x = Branching()(keras.layers.Flatten()(images))
    return keras.Model(images, keras.layers.Dense(spec.num_classes, activation="softmax", dtype="float32")(x))
"""


@pytest.mark.usefixtures("made")
def test_a_model_that_jax_cannot_trace_is_told_of_with_the_reason(tmp_path):
    for name in ("pipeline", "stages", "requirements", "conf"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "branching.py").write_text(BRANCHING)
    model = ("--model", "branching:build", "--source", "branching.py", "--dataset", "mnist", "--batch", "64")
    done = subprocess.run(
        [PYTHON, "-m", "stages.advise_target", "--target", "h100", *model],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=MAX_SECONDS,
    )
    assert done.returncode == 2
    assert "error: NVIDIA H100, 80 GB: " in done.stderr
    assert "Exception encountered when calling Functional.call()" in done.stderr
    assert "JAX has removed" not in done.stderr


BUILT_TWICE = """\
from pipeline.compiled.lowering import training_step_of, open_compiler
from pipeline.compiled.programs import recipes, step_of
from pipeline.compiled.targets import TARGETS

open_compiler(TARGETS["h100"])
import keras

for precision in ("float32", "mixed_float16"):
    training_step_of(step_of("mnist_dense", recipes()["mnist_dense"], precision, 8))
    print(keras.layers.Dense(1).name)
"""


@pytest.mark.usefixtures("made")
def test_layers_have_the_same_names_whatever_was_built_before():
    done = subprocess.run(
        [PYTHON, "-c", BUILT_TWICE], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
    )
    assert done.stdout.splitlines() == ["dense_3", "dense_3"], done.stderr
