"""What can't be trained is refused by the stage before training, in one message."""

import json
import sys
from argparse import Namespace

import pytest
import yaml
from conftest import REPOSITORY, benchmark, small_study

from pipeline.errors import InputError
from stages import inputs

BUILD = """
import keras
{imports}

def build(spec):
    return keras.Sequential([
        keras.Input(spec.image_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(spec.num_classes),
        keras.layers.Activation("softmax", dtype="float32"),
    ])
"""
GOOD = BUILD.format(imports="")
OWN = {"model": {"name": "{module}:build", "source": "{module}.py"}}
ADAM = {"optimizer": {"name": "adam", "learning_rate": 0.1, "arguments": {"momentumm": 1}}}


@pytest.fixture
def say(workspace, monkeypatch):
    """Runs the stage on a benchmark with these changes, and code of one's own in a module of a name never used."""
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(module: str, changes: dict, code: str = GOOD, **files: str) -> dict:
        for name, text in {module: code, **files}.items():
            (workspace / f"{name}.py").write_text(text)
        values = json.loads(json.dumps(benchmark(units=8) | changes).replace("{module}", module))
        study = small_study().model_dump(mode="json", exclude_defaults=True)
        (workspace / "params.yaml").write_text(
            yaml.safe_dump(study | {"benchmarks": study["benchmarks"] | {"wide": values}})
        )
        for name in ("Dockerfile", "pipeline", "requirements", "stages"):
            if not (workspace / name).exists():
                (workspace / name).symlink_to(REPOSITORY / name)
        inputs.main(Namespace(benchmark="wide"))
        return json.loads((workspace / "inputs" / "benchmarks" / "wide.json").read_text())

    return run


@pytest.mark.parametrize(
    ("module", "changes", "code", "words"),
    [
        ("fit_exit", OWN, "raise SystemExit(0)", "fit_exit:build ends the process when it is imported or called"),
        ("fit_alone", ADAM, GOOD, "adam takes no momentumm"),
    ],
)
def test_what_cannot_be_trained_is_named(say, module, changes, code, words):
    with pytest.raises(InputError, match=words):
        say(module, changes, code)


def test_a_module_beside_the_source_is_refused(say):
    code = BUILD.format(imports="import fit_blocks")
    with pytest.raises(InputError, match=r"imports fit_blocks.py, beside fit_net.py"):
        say("fit_net", OWN, code, fit_blocks="")


def test_a_good_model_passes_and_the_features_of_its_data_are_named(say):
    found = say("fit_good", OWN)
    assert found["recipe"]["model"]["name"] == "fit_good:build"
    assert found["data"]["source"] == {}


def test_a_model_is_built_again_only_where_a_run_changes(say):
    """A margin runs the stage, in a second, not in those that an engine and a model take."""
    say("fit_once", OWN)
    sys.modules.pop("fit_once")
    say("fit_once", OWN)
    assert "fit_once" not in sys.modules
    say("fit_once", OWN | {"num_epochs": 3})
    assert "fit_once" in sys.modules
