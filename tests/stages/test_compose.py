"""params.yaml is composed of a profile, or ported to what trains it here; what was there is kept."""

import json
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from conftest import REPOSITORY
from nvml import show
from projects import stage

from pipeline.files import yaml_files
from pipeline.machine import hardware
from pipeline.study.schema import Study, load_study
from stages import compose

QUICK = (REPOSITORY / "params.yaml").read_text()
H100, B200 = ("NVIDIA H100 80GB HBM3", "9.0"), ("NVIDIA B200", "10.0")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A folder with the profiles, on a machine without a TPU."""
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hardware, "has_tpu", lambda: False)
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("params*")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "profile=papier",
            "PROFILE is one of evening, float8, paper, paper_jax, quick, resnet9, seeds, tpu. ",
        ),
        ("seeds=[]", "params.partial.yaml: "),
        ("runtime=tpu", "params.partial.yaml: "),
        ("--runtime cuda", "error: params.yaml"),
    ],
)
def test_what_is_no_study_is_neither_composed_nor_ported(folder, words, message):
    (folder / "params.yaml").write_text("mine: 1\n")
    done = stage(folder, "compose", *words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr
    assert files(folder) == {"params.yaml": "mine: 1\n"}


def test_what_the_other_engine_cannot_run_stays(folder):
    stage(folder, "compose", "profile=tpu")
    values = yaml_files.load(folder / "params.yaml")
    turned = {"name": "random_translation", "height_factor": 0.1, "width_factor": 0.1}
    values["benchmarks"]["mnist_dense"]["augmentation"] = [turned]
    (folder / "params.yaml").write_text(yaml_files.dump(values))
    before = files(folder)
    done = stage(folder, "compose", "--runtime", "cuda")
    assert (done.returncode, done.stdout) == (2, "")
    assert "params.yaml with ENGINE=cuda: 1 fault, nothing was started." in done.stderr
    assert "augmentation: random_translation can't be compiled with XLA on TensorFlow" in done.stderr
    assert files(folder) == before


def test_what_was_there_is_kept(folder):
    (folder / "params.yaml").write_text("mine: 1\n")
    assert "what was there is in params.before.yaml" in stage(folder, "compose", "profile=paper", "seeds=[7]").stdout
    study = load_study()
    assert (study.name, study.seeds) == ("paper", [7])
    assert stage(folder, "compose", "profile=paper", "seeds=[7]").stdout == ""
    for _ in range(2):
        (folder / "params.yaml").write_text("mine: 2\n")
        assert "what was there is in params.before-2.yaml" in stage(folder, "compose", "profile=paper").stdout
    kept = files(folder)
    assert (kept["params.before.yaml"], kept["params.before-2.yaml"]) == ("mine: 1\n", "mine: 2\n")


def test_a_study_is_ported_in_words_without_any_profile(tmp_path):
    own = QUICK.replace("name: quick", "name: mine")
    (tmp_path / "params.yaml").write_text(own)
    assert stage(tmp_path, "compose", "--runtime", "cuda").stdout == (
        "params.yaml is for ENGINE=cuda; what was there is in params.before.yaml\n"
        "  runtime is cuda (was cpu), engine is tensorflow (was tensorflow).\n"
    )
    assert files(tmp_path)["params.before.yaml"] == own
    assert stage(tmp_path, "compose", "--runtime", "cuda").stdout == ""


def test_a_profile_is_composed_and_ported(folder):
    assert stage(folder, "compose", "profile=paper", "--runtime", "tpu").returncode == 0
    study = load_study()
    assert (study.name, study.engine, study.runtime) == ("paper", "jax", "tpu")


def ported(runtime: str, *settings: str) -> Study:
    compose.main(Namespace(settings=list(settings), runtime=runtime))
    return load_study()


@pytest.mark.parametrize(("gpu", "name", "full"), [(H100, "cuda", "paper"), (B200, "cuda-jax", "paper_jax")])
def test_on_an_accelerator_quick_takes_the_sizes_of_the_sources(monkeypatch, capsys, folder, gpu, name, full):
    show(monkeypatch, gpu)
    (folder / "params.yaml").write_text(QUICK)
    before, sources = load_study(), yaml_files.load(folder / "conf/base.yaml")["benchmarks"]
    study = ported(name)
    assert f"make repro PROFILE={full}" in capsys.readouterr().out
    assert (study.name, study.runtime) == ("quick", name)
    for benchmark, recipe in study.benchmarks.items():
        of_source = {field: sources[benchmark][field] for field in ("image_size", "batch_size", "num_epochs")}
        assert recipe.model_dump(include=of_source.keys()) == of_source
        for field in ("dataset", "split"):
            assert getattr(recipe, field) == getattr(before.benchmarks[benchmark], field)
    assert study.benchmarks["mnist_dense"].model.units == 4096
    assert study.benchmarks["cifar100_efficientnet_b0"].model.depth is None
    said = json.dumps(study.deviations, ensure_ascii=False)
    assert "64 units" not in said
    assert "32 × 32" not in said
    assert ported(name, "profile=quick") == study
    assert ported("cpu") == before  # who names another engine gets its size


def test_where_there_is_no_accelerator_and_in_a_study_that_was_edited_sizes_stay(monkeypatch, folder):
    show(monkeypatch)
    (folder / "params.yaml").write_text(QUICK)
    before = load_study().benchmarks
    assert ported("cuda").benchmarks == before
    show(monkeypatch, H100)
    edited = QUICK.replace("num_epochs: 5", "num_epochs: 7")
    (folder / "params.yaml").write_text(edited)
    recipe = ported("cuda").benchmarks["mnist_dense"]
    assert (recipe.num_epochs, recipe.model.units) == (7, 64)


def test_dvc_edits_one_value_of_the_study_that_is_there_and_cannot_exchange_its_profile(tmp_path):
    """`dvc exp run -S` once composed `quick` over a study written by hand, and no copy was kept."""
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    (tmp_path / ".dvc").mkdir()
    shutil.copy(REPOSITORY / ".dvc" / "config", tmp_path / ".dvc")
    own = QUICK.replace("name: quick", "name: mine # by hand")
    (tmp_path / "params.yaml").write_text(own)
    (tmp_path / "dvc.yaml").write_text("stages: {seeds: {cmd: 'true', params: [seeds]}}\n")
    (tmp_path / ".gitignore").write_text("/.dvc/tmp\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", tmp_path]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=a study by hand"]):
        subprocess.run([*git, *words], check=True)

    def experiment(setting: str) -> int:
        command = [sys.executable, "-m", "dvc", "exp", "run", "-S", setting]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode

    assert experiment("profile=paper") != 0
    assert (tmp_path / "params.yaml").read_text() == own
    assert experiment("seeds=[0]") == 0
    edited = (tmp_path / "params.yaml").read_text()
    assert "name: mine # by hand" in edited
    assert yaml_files.parse(edited, "edited") == yaml_files.parse(own, "own") | {"seeds": [0]}
