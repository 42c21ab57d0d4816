"""Campaigns made ready by several processes at once: one clone, seeds that nobody else has. Real git, and no DVC."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, planned_record, small_study
from projects import commit, git, make_checkout, with_programs

from pipeline.campaign.fan_out import MAX_SEED, Cluster, campaign_seeds, shared_stages, write_stages
from pipeline.campaign.ledger import append, entry, pin
from pipeline.errors import InputError
from pipeline.study.configuration import read
from stages import collect

CLUSTER = REPOSITORY / "cluster" / "slurm" / "cluster.yaml"
AGAIN = ("", collect.REPEAT_SUFFIX)
DVC = """\
echo "$*" >> "$PWD/.dvc/called"
case "$1 $2" in
  "cache dir") echo .dvc/cache ;;
  repro*) sleep 0.3; mkdir -p data; echo made > data/made ;;
esac
"""


@pytest.fixture
def run(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a checkout, with a small program in place of DVC."""
    environment = with_programs(tmp_path / "bin", {"dvc": DVC})

    def run_python(checkout: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command, surroundings = [sys.executable, *words], environment | variables
        return subprocess.run(command, cwd=checkout, env=surroundings, capture_output=True, text=True, check=False)

    return run_python


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A repository with a study of three seeds and nothing else."""
    return make_checkout(tmp_path / "checkout", "/.dvc/called", "/data/")


@pytest.fixture
def prepare(run):
    """Makes a campaign ready in a process of its own; returns its seeds."""

    def prepare_one(checkout: Path, name: str, remote: bool = False, **variables: str) -> list[int]:
        program = "from pipeline.campaign.fan_out import prepare_campaign; "
        done = run(checkout, "-c", f"{program}print(prepare_campaign({name!r}, {remote}))", **variables)
        if done.returncode:
            raise InputError(done.stderr)
        collector = Path(done.stdout.strip()) / "collector"
        values = yaml.safe_load((collector / "params.yaml").read_text())
        assert values["campaign"] == name
        assert git(collector, "branch", "--show-current") == f"campaign/{name}"
        return values["seeds"]

    return prepare_one


def test_campaigns_of_different_names_at_once_have_different_seeds(checkout, prepare):
    names = ["a", "b", "c", "d"]
    with ThreadPoolExecutor() as pool:
        seeds = list(pool.map(lambda name: prepare(checkout, name), names))
    assert seeds == [campaign_seeds(name, 3, []) for name in names]
    assert len({seed for found in seeds for seed in found}) == 12
    assert sorted(git(checkout, "branch", "--format=%(refname:short)").split()) == [
        *(f"campaign/{name}" for name in names),
        "main",
    ]


def test_the_same_campaign_at_once_is_made_once(checkout, prepare):
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda _: prepare(checkout, "a"), range(4))) == [campaign_seeds("a", 3, [])] * 4
    called = (checkout / ".campaigns" / "a" / "collector" / ".dvc" / "called").read_text().splitlines()
    assert called.count("repro --quiet download inputs") == 1
    head = git(checkout, "rev-parse", "campaign/a")
    assert git(checkout / ".campaigns" / "a" / "collector", "rev-parse", "HEAD") == head


def test_the_same_campaign_at_once_where_files_are_not_locked(checkout, prepare, tmp_path):
    """Without locks, both make it; who renames second discards what it made."""
    (tmp_path / "sitecustomize.py").write_text(
        "import fcntl\ndef flock(*_):\n    raise OSError(95, 'not supported')\nfcntl.flock = flock\n"
    )
    path = f"{REPOSITORY}{os.pathsep}{tmp_path}"
    with ThreadPoolExecutor() as pool:
        seeds = list(pool.map(lambda _: prepare(checkout, "a", PYTHONPATH=path), range(3)))
    assert seeds == [campaign_seeds("a", 3, [])] * 3
    assert [path.name for path in (checkout / ".campaigns" / "a").iterdir()] == ["collector"]


def test_clones_without_a_common_file_system_meet_at_their_origin(checkout, prepare, tmp_path):
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(checkout), str(origin))
    clones = [tmp_path / name for name in ("one", "two", "three", "four")]
    for clone in clones:
        git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    with ThreadPoolExecutor() as pool:
        seeds = list(pool.map(lambda clone, name: prepare(clone, name, True), clones, ["a", "a", "b", "b"]))
    assert seeds == [campaign_seeds(name, 3, []) for name in ("a", "a", "b", "b")]
    assert (clones[0] / ".campaigns" / "a" / "remote").exists()
    heads = [git(clone / ".campaigns" / "a" / "collector", "rev-parse", "HEAD") for clone in clones[:2]]
    assert heads == [git(origin, "rev-parse", "campaign/a")] * 2  # who came second took that commit


def test_without_an_origin_the_checkout_is_the_origin(checkout, prepare):
    assert prepare(checkout, "a", True) == campaign_seeds("a", 3, [])
    assert git(checkout, "show", "campaign/a:params.yaml")


def ledger_entry(name: str, seeds: list[int]):
    study = small_study(campaign=name, seeds=seeds)
    records = {key: planned_record(key, campaign=name) for key in study.runs()}
    return entry(study, records, {})


def test_seeds_follow_from_the_name_alone():
    first = int(hashlib.sha256(b"2026-12-01/0").hexdigest()[:8], 16) % (MAX_SEED - 3)
    assert campaign_seeds("2026-12-01", 3, []) == [first, first + 1, first + 2]
    days = [f"{year}-{month:02}-01{again}" for year in range(2026, 2046) for month in range(1, 13) for again in AGAIN]
    seeds = [seed for day in days for seed in campaign_seeds(day, 5, [])]
    assert len(set(seeds)) == len(seeds) == 20 * 12 * 2 * 5  # twenty years of monthly campaigns, each repeated
    assert 0 <= min(seeds) <= max(seeds) < MAX_SEED


def test_seeds_of_an_earlier_campaign_are_not_taken_again_and_a_campaign_keeps_its_own():
    first = campaign_seeds("new", 3, [])
    earlier = ledger_entry("old", [first[2], first[2] + 1])
    second = campaign_seeds("new", 3, [earlier])
    assert not set(second) & earlier.seeds
    assert campaign_seeds("new", 3, [earlier]) == second
    assert campaign_seeds("new", 3, [earlier, ledger_entry("new", second)]) == second


def test_of_earlier_branches_the_seeds_are_not_taken_again_and_what_is_pinned_is_left(checkout, prepare):
    """A branch of an earlier campaign has what was pinned when it was made, or what nobody has reviewed."""
    taken = campaign_seeds("new", 3, [])
    git(checkout, "switch", "--quiet", "--create", "campaign/old")
    append(ledger_entry("old", taken), checkout / "history")
    pin(["old"], checkout / "history")
    commit(checkout)
    git(checkout, "switch", "--quiet", "main")
    assert not set(prepare(checkout, "new")) & set(taken)
    ledger = checkout / ".campaigns" / "new" / "collector" / "history"
    assert [path.name for path in ledger.iterdir()] == ["old.json"]


def test_a_push_that_is_refused_is_told_and_leaves_nothing(checkout, prepare):
    hook = checkout / ".git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no campaigns here >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(InputError, match="no campaigns here"):
        prepare(checkout, "a")
    assert [path.name for path in (checkout / ".campaigns" / "a").iterdir()] == []
    hook.unlink()
    assert prepare(checkout, "a") == campaign_seeds("a", 3, [])


PREPARE = ("-m", "stages.campaign", "--prepare", "--meeting-place", "remote", "--cluster", str(CLUSTER), "--campaign")


def test_the_command_lists_every_stage_and_may_be_repeated(checkout, run):
    folder, num_stages = checkout / ".campaigns" / "c1", len(shared_stages(small_study()))
    for _ in range(2):
        done = run(checkout, *PREPARE, "c1")
        assert done.stdout == f"{num_stages} stages: {folder / 'stages.txt'}\n", done.stderr
    assert len((folder / "stages.txt").read_text().splitlines()) == num_stages
    subject = git(checkout, "log", "--format=%s", "campaign/c1").splitlines()[0]
    assert subject == f"Campaign c1: seeds {campaign_seeds('c1', 3, [])}"


def test_a_name_that_is_none_is_refused_before_anything_is_pushed(checkout, run):
    done = run(checkout, *PREPARE, "No Name")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "campaign" in done.stderr
    assert git(checkout, "branch", "--list", "campaign/*") == ""


@pytest.mark.parametrize("variable", ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"])
def test_an_element_beyond_the_list_is_a_fault_of_the_input(tmp_path, variable):
    write_stages(tmp_path, ["one", "two"])
    command = ["bash", str(REPOSITORY / "cluster" / "slurm" / "run.sh"), str(tmp_path)]
    environment = {"PATH": os.environ["PATH"], variable: "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: {tmp_path}/stages.txt has no line 3\n")


def test_the_collector_waits_for_what_is_missing_and_no_longer_than_it_may(tmp_path, monkeypatch):
    answers = [["one", "two"], ["two"], []]
    monkeypatch.setattr(collect, "missing_stages", lambda *_, **__: answers.pop(0))
    monkeypatch.setattr(collect, "POLL_SECONDS", 0.01)
    assert collect._still_missing(small_study(), tmp_path, 60.0) == []
    monkeypatch.setattr(collect, "missing_stages", lambda *_, **__: ["two"])
    started = time.monotonic()
    assert collect._still_missing(small_study(), tmp_path, 0.1) == ["two"]
    assert 0.1 <= time.monotonic() - started < 5
    assert collect._still_missing(small_study(), tmp_path, -60.0) == ["two"]  # the scheduled time is long over


@pytest.mark.parametrize("runtime", ["cuda", "cuda-jax"])
def test_a_study_for_gpus_needs_a_site_that_asks_for_them(runtime):
    cluster = read(Cluster, CLUSTER)
    cluster.check(small_study())
    study = small_study().model_copy(update={"runtime": runtime, "devices": 2})
    with pytest.raises(InputError, match="gpus: 0 a job, and the study"):
        cluster.check(study)
    cluster.model_copy(update={"gpus": 2}).check(study)
