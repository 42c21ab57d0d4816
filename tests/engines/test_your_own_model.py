"""The page docs/your-own-model.md, run as it is written except for the number of seeds.

Also a study that `make advise` makes.
"""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import projects
import pytest
import yaml
from conftest import REPOSITORY
from fake_datasets import write_fake_tfds
from projects import USER_ENVIRONMENT, copy_tree


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tfds")
    write_fake_tfds(folder, "cifar10", num_train=2500, num_test=100)
    return USER_ENVIRONMENT | {"TFDS_DATA_DIR": str(folder)}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, environment) -> Path:
    folder = tmp_path_factory.mktemp("own") / "project"
    copy_tree(folder)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    page = (REPOSITORY / "docs" / "your-own-model.md").read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        one_seed = block.replace("seeds: [0, 1, 2]", "seeds: [0]")
        packages_are_here = re.sub("^make repro$", "make --no-print-directory study", one_seed, flags=re.MULTILINE)
        packages_are_here = re.sub(
            "^make publish TO=", "python -m stages.publish --to ", packages_are_here, flags=re.MULTILINE
        )
        run(folder, environment | {"PYTHONPATH": str(folder)}, "bash", "-e", "-c", packages_are_here)
    return folder


def run(folder: Path, environment: dict[str, str], *command: str) -> str:
    done = projects.run(folder, *command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_run_is_made_and_the_report_is_published(finished):
    records = [json.loads(path.read_text()) for path in sorted(finished.glob("runs/*/*/*/record.json"))]
    assert len(records) == 4
    assert {record["outcome"] for record in records} == {"completed"}
    verdicts = json.loads((finished / "results" / "verdicts.json").read_text())["judgements"]
    assert [verdict["id"] for verdict in verdicts] == ["mixed-is-faster"]
    html = (finished / "results" / "report.html").read_text()
    for text in ("networks.rows:build", "What we expect"):
        assert text in html
    with zipfile.ZipFile(finished / "docs" / "reports" / "mine" / "study.zip") as archive:
        assert not [name for name in archive.namelist() if name.endswith(".py")]


MASKED = '''
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("masked")
class Attend(layers.Layer):
    """Attention between rows, the last of which is masked with -1e9: too much for float16."""

    def call(self, x):
        last = ops.arange(x.shape[1]) == x.shape[1] - 1
        scores = ops.matmul(x, ops.transpose(x, (0, 2, 1))) + ops.cast(last, x.dtype) * ops.cast(-1e9, x.dtype)
        return ops.matmul(ops.softmax(scores), x)


def build(spec):
    height, width, channels = spec.image_shape
    images = keras.Input(spec.image_shape)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(images)
    x = layers.Reshape((height, width * 8))(x)
    x = Attend(name="attend")(layers.Dense(spec.arguments["size"])(x))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(images, layers.Dense(spec.num_classes, activation="softmax", dtype="float32")(x))
'''


def test_advise_runs_an_edited_study_and_its_follow_ups_once(finished, environment):
    """The small model gains nothing from 16 bits and diverges in float16, so follow-ups are made."""
    (finished.parent / "masked.py").write_text(MASKED)
    environment = environment | {"PYTHONPATH": str(finished)}
    asked = ["--model", "masked:build", "--source", "../masked.py", "--arguments", '{"size": 8}']
    asked += ["--dataset", "cifar10", "--batch", "50", "--recipe", "{num_epochs: 1}"]
    compose = "from argparse import Namespace; from stages import advise; "  # the study, and no runs
    compose += "advise.compose_study(Namespace(model='masked:build', source='../masked.py', arguments={'size': 8}, "
    compose += "dataset='cifar10', batch=50, image_size=None, recipe={'num_epochs': 1}))"
    run(finished, environment, sys.executable, "-c", compose)
    study = yaml.safe_load((finished / "params.yaml").read_text())
    study["benchmarks"]["yours"]["split"] |= {"num_train_examples": 200, "num_validation_examples": 100}
    short = {"seeds": [0], "num_seeds_by_variant": {}, "speed": {"budget_seconds": 1, "target_half_width": 0.05}}
    short["variants"] = {name: study["variants"][name] for name in ("float32", "mixed_float16", "mixed_bfloat16")}
    short["comparison"] = study["comparison"] | {"must_differ": []}
    (finished / "params.yaml").write_text(yaml.safe_dump(study | short))
    further = finished / "pipeline/advice/proposal.py"
    further.write_text(further.read_text().replace("BUDGET_SECONDS = 100.0", "BUDGET_SECONDS = 1.0"))
    printed = run(finished, environment, sys.executable, "-m", "stages.advise", *asked)
    assert printed.endswith(f"Report: {finished / 'results' / 'report.html'}\n")
    assert "With attend in float32, the run of mixed_float16 at seed 0, which diverged, finishes." in printed
    assert re.search("Conv2D|Dense", printed.partition("Stay with float32")[2])
    assert "masked:build" in (finished / "results" / "report.html").read_text()
    made = yaml.safe_load((finished / "params.yaml").read_text())
    mixed = [name for name, variant in made["variants"].items() if "yours_layers" in variant.get("benchmarks", [])]
    blocks = (finished / "results/speed/yours_layers/blocks.csv").read_text()
    assert len(mixed) == 5  # float32, the policy, each of two kinds of layers in float32, and both
    assert all(f",{name}\n" in blocks for name in mixed)
    records = {path: path.stat().st_mtime for path in finished.glob("runs/*/*/*/record.json")}
    run(finished, environment, sys.executable, "-m", "stages.advise", *asked)
    assert {path: path.stat().st_mtime for path in records} == records
