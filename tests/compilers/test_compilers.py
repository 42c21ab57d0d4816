"""The compilers of a TPU and of a GPU, for real: they need `.compilers`, 5 GB, and no accelerator."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from conftest import REPOSITORY

from pipeline.compiled.schema import CompiledTarget, read_target

TARGETS = ("tpu-v5e", "h100")
PYTHON = REPOSITORY / ".compilers" / "bin" / "python"
MAX_SECONDS = 600  # installation and all


def python(*words: str, folder: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=MAX_SECONDS
    )


def advise(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Ask a compiler for advice in a folder that holds nothing but the project's code."""
    for name in ("pipeline", "stages", "requirements", "conf"):
        (folder / name).symlink_to(REPOSITORY / name)
    return python("-m", "stages.advise_target", "--dataset", "mnist", *words, folder=folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledTarget]:
    """The dense model, compiled from nothing for a TPU and for a GPU."""
    started = time.monotonic()
    subprocess.run(["make", ".compilers/ready"], cwd=REPOSITORY, check=True)
    folder = tmp_path_factory.mktemp("compiled")
    done = python("-m", "stages.compiled", *TARGETS, "--benchmark", "mnist_dense", "--out", str(folder))
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


@pytest.mark.usefixtures("made")  # which has installed the compilers
def test_advice_for_a_target_says_what_fits(tmp_path):
    done = advise(tmp_path, "--target", "h100", "--model", "dense", "--batch", "1024")
    assert done.returncode == 0, done.stderr
    assert "mixed_float16 at batch 1,024 fits" in done.stdout
    assert "8 of 8 products and convolutions are in 16 bits" in done.stdout
    noted = json.loads((tmp_path / "advice" / "mnist_dense.h100.json").read_text())
    assert {each["precision"] for each in noted["programs"]} >= {"float32", "mixed_float16"}


@pytest.mark.usefixtures("made")
def test_a_model_that_does_not_fit_is_a_result(tmp_path):
    done = advise(tmp_path, "--target", "v100-16gb", "--model", "dense", "--batch", "1000000")
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
    (tmp_path / "branching.py").write_text(BRANCHING)
    model = ("--model", "branching:build", "--source", "branching.py", "--batch", "64")
    done = advise(tmp_path, "--target", "h100", *model)
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
    done = python("-c", BUILT_TWICE)
    assert done.stdout.splitlines() == ["dense_3", "dense_3"], done.stderr
