"""What goes wrong on clusters, without a cluster: no finished run is lost, and no half-written one is read.

Elements run as jobs do, by cluster/slurm/run.sh; `cluster/test_campaign.py` has Slurm.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from cluster.campaigns import NUM_EPOCHS, STUDY, surroundings
from debian import install
from projects import git, program

from cluster import campaigns
from pipeline.campaign.fan_out import campaign_seeds
from pipeline.comparison.finished_runs import read_epochs, read_predictions, read_record
from pipeline.study.schema import RunKey, load_study

project = campaigns.project
NOTHING_MISSING = (
    "from pathlib import Path; from pipeline.campaign.run_cache import *; "
    "from pipeline.study.schema import RunKey, load_study; "
    "print('missing', *missing_stages([k.stage for k in load_study().runs()], Path(), {remote}, restore=True))"
)


@pytest.fixture
def small(project, tmp_path) -> Path:
    """A clone with two runs of one seed, its cache in a folder of its own."""
    clone = tmp_path / "project"
    git(tmp_path, "clone", "--quiet", str(project), str(clone))
    (clone / "params.yaml").write_text(yaml.safe_dump(STUDY | {"seeds": [0]}))
    command(clone, "dvc", "cache", "dir", "--local", str(tmp_path / "cache"))
    git(clone, "commit", "--quiet", "--all", "-m", "one seed")
    (tmp_path / "tfds").symlink_to(project.parent / "tfds")
    return clone


def command(folder: Path, *arguments: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = surroundings(folder) | variables
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def prepare(clone: Path, *options: str) -> Path:
    """A campaign of `clone` made ready; its folder."""
    command(clone, sys.executable, "-m", "stages.campaign", "--campaign", "c", "--prepare", *options)
    return clone / ".campaigns" / "c"


def element(folder: Path, index: int, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
    script = folder / "collector" / "cluster" / "slurm" / "run.sh"
    variables["JOB_COMPLETION_INDEX"] = str(index)
    return command(folder.parent.parent, "bash", str(script), str(folder), check=check, **variables)


def missing(folder: Path, remote: bool = False) -> list[str]:
    """The runs that a collector would say are missing; the others are put in place, and must be whole."""
    collector = folder / "collector"
    done = command(collector, sys.executable, "-c", NOTHING_MISSING.format(remote=remote))
    lost = next(line for line in done.stdout.splitlines() if line.startswith("missing")).split()[1:]
    for key in load_study(collector / "params.yaml").runs():
        if key.stage not in lost:
            record = read_record(key, collector)
            assert len(read_epochs(record, collector)) == NUM_EPOCHS
            assert len(read_predictions(record, collector)) == 20
    return lost


(SEED,) = campaign_seeds("c", 1, [])
RUNS = [f"train@{SEED}-small_dense-float32", f"train@{SEED}-small_dense-mixed"]


def test_a_machine_that_vanishes_at_any_moment_leaves_a_whole_run_or_none(small):
    """An element is killed with all it started: in its start, once it has an epoch behind it, then later and later."""
    folder = prepare(small)
    assert missing(folder) == RUNS
    for seconds in (1.0, 4.0):
        process = start(folder, 0)
        time.sleep(seconds)
        kill(process)
        assert missing(folder) == RUNS
    process = start(folder, 0)
    wait_for_checkpoint(folder, process)
    kill(process)
    assert missing(folder) == RUNS
    element(folder, 0)
    assert missing(folder) == RUNS[1:]
    assert read_record(RunKey("small_dense", "float32", SEED), folder / "collector").resumed
    seconds = 7.0
    while True:
        process = start(folder, 1)
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            kill(process)
            assert missing(folder) in (RUNS[1:], [])
            seconds *= 1.25
        else:
            break
    assert process.returncode == 0
    assert missing(folder) == []


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_half_a_file_in_the_cache_is_not_read(small):
    """As a file system leaves it that acknowledged what it had not written: the run is missing, and made again."""
    folder = prepare(small)
    element(folder, 0)
    assert missing(folder) == RUNS[1:]
    cache = small.parent / "cache"
    records = holding(cache / "files", b'"schema_version"')
    for path in records:
        path.chmod(0o644)  # a file that was being written is not yet read-only
        path.write_bytes(path.read_bytes()[:100])
    shutil.rmtree(folder / "collector" / "runs")
    assert records
    assert missing(folder) == RUNS
    element(folder, 0)
    assert missing(folder) == RUNS[1:]


def holding(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_a_full_disk_loses_nothing_that_is_finished(small):
    """The campaign's disk is full from the middle of a run on. With room again, the run goes on from its checkpoint."""
    disk = small / ".campaigns"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(disk)], check=True)
    try:
        folder = prepare(small)
        element(folder, 0)
        process = start(folder, 1)
        wait_for_checkpoint(folder, process)
        # Unbuffered: a buffer would be written once more when the file is closed.
        with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(2**16))
        printed = process.communicate()[0]
        assert process.returncode != 0
        assert "error: No space left on device. Make room, then run the same command" in printed
        (disk / "ballast").unlink()
        assert missing(folder) == RUNS[1:]
        element(folder, 1)
        assert missing(folder) == []
        assert read_record(RunKey("small_dense", "mixed", SEED), folder / "collector").resumed
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def start(folder: Path, index: int, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(folder / "collector" / "cluster" / "slurm" / "run.sh"), str(folder)],
        env=surroundings(folder.parent.parent) | {"JOB_COMPLETION_INDEX": str(index)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[str]) -> None:
    while all(".partial" in path.name for path in (folder / "checkpoints").rglob("*.npz")):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def test_a_remote_that_is_gone_loses_nothing_that_is_finished(small, tmp_path):
    """It goes while an element trains. The next attempt pushes what the first one finished, and trains nothing."""
    remote = tmp_path / "remote"
    command(small, "dvc", "remote", "add", "--default", "meeting", str(remote))
    git(small, "commit", "--quiet", "--all", "-m", "a remote")
    folder = prepare(small, "--meeting-place", "remote")
    assert missing(folder, remote=True) == RUNS
    programs = tmp_path / "programs"
    program(programs / "sleep", "")  # the pauses between attempts
    path = f"{programs}{os.pathsep}{surroundings(small)['PATH']}"
    process = start(folder, 0, PATH=path)
    wait_for_checkpoint(folder, process)
    away = remote.rename(tmp_path / "away")
    remote.write_text("")  # neither a folder nor to be made one
    printed = process.communicate()[0]
    assert process.returncode != 0
    assert printed.count(f"epoch {NUM_EPOCHS}/{NUM_EPOCHS}") == 1

    remote.unlink()
    away.rename(remote)
    assert missing(folder, remote=True) == RUNS
    again = element(folder, 0)
    assert "epoch" not in again.stdout
    assert missing(folder, remote=True) == RUNS[1:]


def test_a_clock_that_is_off_by_a_day_changes_nothing(small):
    """An element whose clock is a day ahead finishes a run; one a day behind another. Both are found."""
    install("faketime", "faketime")
    library = next(Path("/usr/lib").rglob("libfaketimeMT.so.1"))
    folder = prepare(small)
    for index, offset in enumerate(("+1d", "-1d")):
        element(folder, index, LD_PRELOAD=str(library), FAKETIME=offset, FAKETIME_DONT_FAKE_MONOTONIC="1")
    assert missing(folder) == []
    days = [
        json.loads(path.read_text())["started_at"][:10] for path in (folder / "collector" / "runs").rglob("record.json")
    ]
    assert len(set(days)) == 2
