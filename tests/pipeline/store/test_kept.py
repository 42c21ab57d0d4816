"""The store: a folder is made once for each identity, even if it is lost from its place, and never half."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import REPOSITORY

from pipeline.files.locks import alone
from pipeline.store import kept
from pipeline.store.kept import name_of, obtain, prune, set_aside

OF = {"seed": 0, "packages": {"keras": "3"}}
PLACE = Path("runs/wide/float32/seed-0")


pytestmark = pytest.mark.usefixtures("inside")


def make(folder: Path) -> None:
    (folder / "record.json").write_text('{"accuracy": 0.5}')


def test_finished_runs_stay_and_lost_ones_are_restored_from_the_store():
    assert [obtain(PLACE, OF, make) for _ in range(2)] == ["made", "there"]
    shutil.rmtree("runs")  # as DVC's checkout does
    assert obtain(PLACE, OF, make) == "kept"
    assert (PLACE / "record.json").read_text() == '{"accuracy": 0.5}'
    assert not list(Path(".cache/unfinished").iterdir()) + list(PLACE.parent.glob("*.partial*"))


def test_a_run_edited_by_hand_is_restored():
    obtain(PLACE, OF, make)
    (PLACE / "record.json").write_text("better")
    assert obtain(PLACE, OF, make) == "kept"
    assert (PLACE / "record.json").read_text() == '{"accuracy": 0.5}'
    (stored,) = Path(".cache/kept").iterdir()
    for folder in (PLACE, stored):
        (folder / "record.json").write_text("better")
    assert obtain(PLACE, OF, make) == "made"


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("{"), lambda _: None])
def test_a_folder_without_a_matching_identity_is_not_reused(damage):
    obtain(PLACE, OF | {"seed": 1}, make)
    damage(PLACE / "identity.json")
    assert obtain(PLACE, OF, make) == "made"
    assert json.loads((PLACE / "identity.json").read_text())["of"] == OF


def test_an_interrupted_attempt_leaves_nothing_finished_and_the_next_resumes_it():
    def interrupted(folder: Path) -> None:
        (folder / "checkpoint").write_text("epoch 3")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(PLACE, OF, interrupted)
    assert not PLACE.exists()
    assert not Path(".cache/kept").exists()

    def go_on(folder: Path) -> None:
        assert (folder / "checkpoint").read_text() == "epoch 3"
        (folder / "checkpoint").unlink()
        make(folder)

    assert obtain(PLACE, OF, go_on) == "made"


def test_a_disk_that_fills_up_during_copying_loses_no_finished_run(monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kept.shutil, "copyfile", full)
        with pytest.raises(OSError, match="No space left"):
            obtain(PLACE, OF, make)
    assert not PLACE.exists()
    assert obtain(PLACE, OF, make) == "kept"


def test_a_dvc_experiment_uses_the_store_of_its_study(tmp_path, monkeypatch):
    obtain(PLACE, OF, make)
    experiment = tmp_path / ".dvc" / "tmp" / "exps" / "tmpabc"
    experiment.mkdir(parents=True)
    monkeypatch.chdir(experiment)
    assert obtain(PLACE, OF, make) == "kept"
    assert (experiment / PLACE / "record.json").exists()


MAKES = """
import sys, time
from pathlib import Path
from pipeline.store.kept import obtain
def make(folder):
    time.sleep(1)
    with open("made", "a") as file:
        file.write("once\\n")
    (folder / "record.json").write_text("{}")
for seed in range(2):
    print(obtain(Path("runs", str(seed)), {"seed": seed}, make))
"""


def test_two_concurrent_commands_make_each_run_once(tmp_path):
    command = [sys.executable, "-c", MAKES]
    how = {"cwd": tmp_path, "env": {"PYTHONPATH": str(REPOSITORY)}, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **how) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert Path("made").read_text() == "once\n" * 2
    assert "waiting for another command" in "".join(said)


def test_prune_deletes_what_the_study_no_longer_uses():
    for seed in range(3):
        obtain(Path("runs", str(seed)), {"seed": seed}, make)
    assert prune([{"seed": 1}]) == 2
    assert obtain(Path("elsewhere"), {"seed": 1}, make) == "kept"
    assert obtain(Path("elsewhere"), {"seed": 2}, make) == "made"


def test_prune_keeps_what_another_command_is_making():
    for seed in range(2):
        obtain(Path("runs", str(seed)), {"seed": seed}, make)
    with alone(Path(".cache/locks", name_of({"seed": 1}))):
        assert prune([]) == 1
    assert obtain(Path("elsewhere"), {"seed": 1}, make) == "kept"


def test_a_run_pulled_from_elsewhere_is_kept_when_the_study_drops_it():
    obtain(PLACE, OF, make)
    shutil.rmtree(".cache")  # as in a clone, into which DVC has pulled the run
    set_aside(PLACE)
    assert not PLACE.exists()
    assert obtain(PLACE, OF, make) == "kept"
    (PLACE / "record.json").write_text("better")
    set_aside(PLACE)
    assert obtain(PLACE, OF, lambda _: None) == "kept"


def test_an_old_result_stays_until_its_replacement_is_finished():
    obtain(PLACE, OF, make)
    before = (PLACE / "record.json").read_text()

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(PLACE, OF, interrupted, again=True)
    assert (PLACE / "record.json").read_text() == before
    assert obtain(PLACE, OF, lambda folder: folder.joinpath("record.json").write_text("anew"), again=True) == "made"
    assert (PLACE / "record.json").read_text() == "anew"


def test_the_store_may_be_on_another_disk(tmp_path):
    """Skipped where there is no second file system to write on."""
    other = Path("/dev/shm")  # noqa: S108
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is only one file system here")
    with tempfile.TemporaryDirectory(dir=other) as folder:
        Path(".cache").symlink_to(folder)
        assert obtain(PLACE, OF, make) == "made"
        shutil.rmtree("runs")
        assert obtain(PLACE, OF, make) == "kept"
        shutil.rmtree(folder + "/kept")
        set_aside(PLACE)
        assert obtain(PLACE, OF, make) == "kept"
