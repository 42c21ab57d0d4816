"""params.yaml is composed of a profile; what was there is kept."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from nvml import show
from projects import commit, git, stage

from pipeline.files.locks import at_work
from pipeline.study.schema import load_study
from stages import compose

QUICK = (REPOSITORY / "params.yaml").read_text()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A folder with the profiles."""
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("params*")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("profile=papier", "Could not find 'profile/papier'\n\nAvailable options in 'profile':\n\tevening\n"),
        ("seeds=[]", "params.partial.yaml: "),
    ],
)
def test_an_invalid_study_is_not_composed(folder, words, message):
    (folder / "params.yaml").write_text("mine: 1\n")
    done = stage(folder, "compose", *words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr
    assert files(folder) == {"params.yaml": "mine: 1\n"}


def test_composing_keeps_a_copy_of_the_old_study(folder, capsys):
    def said(*settings: str) -> str:
        compose.main(argparse.Namespace(small=False, settings=["profile=paper", *settings]))
        return capsys.readouterr().out

    (folder / "params.yaml").write_text("mine: 1\n")
    assert "what was there is in params.before.yaml" in said("seeds=[7]")
    study = load_study()
    assert (study.name, study.seeds) == ("paper", [7])
    assert said("seeds=[7]") == ""
    for _ in range(2):
        (folder / "params.yaml").write_text("mine: 2\n")
        assert "what was there is in params.before-2.yaml" in said()
    kept = files(folder)
    assert (kept["params.before.yaml"], kept["params.before-2.yaml"]) == ("mine: 1\n", "mine: 2\n")


def test_dvc_cannot_replace_a_study_written_by_hand(folder):
    """`dvc exp run -S` once composed `quick` over a study written by hand, and no copy was kept."""
    (folder / ".dvc").mkdir()
    shutil.copy(REPOSITORY / ".dvc" / "config", folder / ".dvc")
    own = QUICK.replace("name: quick", "name: mine # by hand")
    (folder / "params.yaml").write_text(own)
    (folder / "dvc.yaml").write_text("stages: {seeds: {cmd: 'true', params: [seeds]}}\n")
    (folder / ".gitignore").write_text("/.dvc/tmp\n")
    git(folder, "init", "--quiet")
    commit(folder)
    command = [sys.executable, "-m", "dvc", "exp", "run", "-S", "profile=paper"]
    assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0
    assert (folder / "params.yaml").read_text() == own


@pytest.mark.parametrize(
    ("engine", "edit", "name"),
    [("cuda-jax", "", "gpu"), ("cuda-jax", "# mine\n", "quick"), ("cpu", "", "quick")],
)
def test_the_unedited_quick_study_becomes_the_gpu_study_for_a_gpu_engine(folder, monkeypatch, engine, edit, name):
    assert files(folder) == {}
    show(monkeypatch, ("NVIDIA H100", "9.0"))
    monkeypatch.setattr(compose, "installed_engine", lambda: engine)
    Path("params.yaml").write_text(QUICK + edit)
    compose.compose_for_this_machine()
    assert load_study().name == name


def test_a_study_in_use_by_another_command_is_not_replaced(folder):
    (folder / "params.yaml").write_text(QUICK)
    with at_work():
        done = stage(folder, "compose", "profile=paper")
        assert stage(folder, "compose", "profile=quick").returncode == 0, "it would change nothing"
    assert done.returncode == 2
    assert "another command works in this folder on the study in params.yaml" in done.stderr
    assert files(folder) == {"params.yaml": QUICK}
    assert stage(folder, "compose", "profile=paper").returncode == 0
