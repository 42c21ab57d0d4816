"""Campaigns prepared by several processes at once: one folder, and seeds that no other campaign has."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, MakeOnce, benchmark, small_study

from pipeline.campaign import preparing
from pipeline.campaign.preparing import CAMPAIGNS, MAX_SEED, campaign_seeds, prepare_campaign
from pipeline.errors import InputError
from stages.collect import REPEAT_SUFFIX

AGAIN = ("", REPEAT_SUFFIX)


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A study of three seeds with a model of its own, and nothing else."""
    return make_checkout(tmp_path / "checkout")


def make_checkout(folder: Path) -> Path:
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "net.py").write_text("def build(spec):\n    return None\n")
    own = benchmark(units=8, dataset="images", model={"name": "mine.net:build", "source": "mine"})
    changes = {"datasets": {"images": {"bundled": "cifar100_quick"}}, "benchmarks": {"wide": own, "narrow": own}}
    (folder / "params.yaml").write_text(yaml.safe_dump(small_study(**changes).model_dump(mode="json")))
    return folder


@pytest.fixture(scope="session")
def prepared(made_once: MakeOnce) -> Path:
    """That study, with a campaign a, which two commands have prepared at once."""
    return made_once("checkout", lambda folder: prepare_twice(make_checkout(folder)))


@pytest.fixture
def copied(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "copy"))


def prepare_twice(checkout: Path) -> None:
    command = [sys.executable, "-m", "stages.campaign", "--prepare", "--campaign", "a"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    how = {"cwd": checkout, "env": environment, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **how) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted(text.count("images is ready") for text in said) == [0, 1]


def prepare(checkout: Path, name: str) -> Path:
    with contextlib.chdir(checkout):
        return prepare_campaign(name, CAMPAIGNS)


def folders(checkout: Path) -> list[str]:
    return sorted(path.name for path in (checkout / "campaigns").iterdir() if path.name != ".lock")


def test_concurrent_commands_prepare_a_campaign_once(prepared):
    assert folders(prepared) == ["a"]
    values = yaml.safe_load((prepared / "campaigns/a/params.yaml").read_text())
    assert (values["campaign"], values["seeds"]) == ("a", campaign_seeds("a", 3))


def test_editing_the_checkout_does_not_change_an_existing_campaign(copied):
    (copied / "mine" / "net.py").write_text("broken")
    folder = prepare(copied, "a")
    edit(copied, "batch_size: 16", "batch_size: 8")
    assert "def build" in (folder / "mine" / "net.py").read_text()
    assert "batch_size: 16" in (folder / "params.yaml").read_text()
    assert (folder / "data" / "images" / "dataset.json").exists()
    command = [sys.executable, "-m", "stages.element"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    first, *_ = campaign_seeds("a", 3)
    assert listed[0] == f"0 train narrow float32/{first}"
    assert [line.split(" ", 1)[1] for line in listed[-4:]] == ["numerics", "speed narrow", "speed wide", "collect"]
    assert not list(folder.rglob("__pycache__/*net*"))


def test_reusing_a_campaign_name_for_another_study_is_refused_with_the_difference(copied):
    params = copied / "campaigns/a/params.yaml"
    before = params.read_bytes()
    edit(copied, "num_epochs: 2", "num_epochs: 9")
    with pytest.raises(InputError, match=r"campaign a is of another study, which differs in benchmarks\.\w+\.num_ep"):
        prepare(copied, "a")
    assert params.read_bytes() == before


def edit(checkout: Path, old: str, new: str) -> None:
    text = (checkout / "params.yaml").read_text()
    (checkout / "params.yaml").write_text(text.replace(old, new))


@pytest.mark.parametrize("name", ["No Name", "..", "baseline", "ledger"])
def test_an_invalid_campaign_name_is_refused_and_creates_nothing(checkout, name):
    with pytest.raises(InputError, match="campaign"):
        prepare(checkout, name)
    assert not (checkout / "campaigns").exists()


def test_a_model_outside_the_project_is_refused(checkout):
    edit(checkout, "source: mine", "source: ../mine")
    with pytest.raises(InputError, match=r"\.\./mine is outside the project"):
        prepare(checkout, "a")
    assert folders(checkout) == []


def test_a_failed_data_preparation_leaves_no_campaign_folder(checkout, monkeypatch):
    monkeypatch.setattr(preparing.sys, "executable", "false")
    with pytest.raises(InputError, match="the data set images could not be prepared"):
        prepare(checkout, "a")
    assert folders(checkout) == []


def test_campaign_seeds_depend_only_on_the_name_and_do_not_collide():
    first = int(hashlib.sha256(b"2026-12-01").hexdigest()[:8], 16) % (MAX_SEED - 3)
    assert campaign_seeds("2026-12-01", 3) == [first, first + 1, first + 2]
    days = [f"{year}-{month:02}-01{again}" for year in range(2026, 2046) for month in range(1, 13) for again in AGAIN]
    seeds = [seed for day in days for seed in campaign_seeds(day, 5)]
    assert len(set(seeds)) == len(seeds)  # twenty years of monthly campaigns, each repeated
