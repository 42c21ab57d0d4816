"""What `make repro` says of a study: how far it is, and whatever ends it, what failed and what to do."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from conftest import small_study
from projects import STUB_ENVIRONMENT, make_stub

from pipeline.reproduction.repro import remedy
from pipeline.reproduction.study_progress import QUIET_SECONDS, Forecast, StudyProgress
from pipeline.study.schema import RunKey
from stages.repro import BEFORE_TRAINING


def make(folder: Path, command: str = "mkdir runs") -> subprocess.CompletedProcess[str]:
    make_stub(folder, {"train": {"cmd": command, "outs": ["runs"]}})
    return study(folder)


def study(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "study"], cwd=folder, env=STUB_ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("exit 2", "Mend what its message above names"),
        ("kill -9 $$", "It was killed, probably because memory ran out"),
        ("true", "dvc repro --verbose train says more"),  # which makes nothing that DVC could keep
    ],
)
def test_a_stage_that_fails_is_named_with_its_words_and_a_remedy(tmp_path, command, words):
    done = make(tmp_path, command)
    assert done.returncode == 2  # of make
    assert "error: failed to reproduce 'train': " in done.stderr
    assert "what to do: " + words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-6, "The process broke down (Aborted). dvc repro --single-item train tries it by itself"),
        (143, "It was told to end (SIGTERM)"),
        (75, "`make repro` goes on after the last whole epoch"),
        (1, "Its message is above"),
    ],
)
def test_every_end_of_a_stage_has_a_remedy(status, words):
    assert remedy(f"failed to reproduce 'train': failed to run: it, exited with {status}", "train").startswith(words)


def test_what_a_stage_says_of_its_own_fault_comes_last(tmp_path):
    """A message ends in what to do. Lines before it are passed on as they come."""
    said = "going\\nerror: data/mnist is damaged: it ends early.\\n\\nwhat to do: prepare it again\\n"
    done = make(tmp_path, f"printf '{said}' >&2; exit 2")
    assert "going" in done.stdout.splitlines()
    of_dvc, goes_on, *own = (line for line in done.stderr.splitlines() if not line.startswith("make"))
    assert of_dvc.startswith("error: failed to reproduce 'train': ")
    assert "what is finished stays, and `make repro` goes on from there" in goes_on
    assert own == ["error: data/mnist is damaged: it ends early.", "what to do: prepare it again"]


def test_a_stage_that_is_killed_after_a_message_is_given_the_remedy_for_that(tmp_path):
    done = make(tmp_path, "echo 'error: this and that' >&2; kill -9 $$")
    *_, own, remedy = (line for line in done.stderr.splitlines() if not line.startswith("make"))
    assert own == "error: this and that"
    assert remedy.startswith("what to do: It was killed")


def test_a_lock_file_that_dvc_cannot_read_is_named(tmp_path):
    """As git leaves one that two branches changed."""
    (tmp_path / "dvc.lock").write_text("<<<<<<< HEAD\nschema: '2.0'\n=======\nstages: {}\n>>>>>>> other\n")
    done = make(tmp_path)
    assert done.returncode == 2
    assert "error: './dvc.lock' " in done.stderr
    assert "what to do: Remove dvc.lock: finished runs are found in DVC's cache" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_second_make_repro_in_the_folder_is_refused_and_disturbs_nothing(tmp_path):
    waits = "touch begun; while ! [ -e go ]; do sleep 0.1; done; mkdir runs"
    make_stub(tmp_path, {"train": {"cmd": waits, "outs": ["runs"]}})
    with subprocess.Popen(["make", "study"], cwd=tmp_path, env=STUB_ENVIRONMENT, stdout=subprocess.PIPE) as first:
        while not (tmp_path / "begun").exists():
            assert first.poll() is None
            time.sleep(0.05)
        second = study(tmp_path)
        assert second.returncode == 2
        assert "error: The study of this folder is being made by process " in second.stderr
        assert "Wait until it has ended, or end it." in second.stderr
        composed = [sys.executable, "-m", "stages.compose"]
        other = subprocess.run(
            composed, cwd=tmp_path, env=STUB_ENVIRONMENT, capture_output=True, text=True, check=False
        )
        assert (other.returncode, "The study of this folder" in other.stderr) == (2, True)
        (tmp_path / "go").touch()
        first.communicate()
    assert (tmp_path / "runs").exists()


def test_runs_are_made_in_the_order_of_the_study_and_what_it_leaves_out_by_no_process(tmp_path):
    """A seed's variants run one after the other, in the same state of the machine."""
    made = "runs/${item.benchmark}/${item.variant}/seed-${item.seed}"
    train = {
        "matrix": {"seed": "${seeds}", "benchmark": "${benchmarks}", "variant": "${variants}"},
        "cmd": "echo train@${item.seed}-${item.benchmark}-${item.variant} >> order && mkdir -p " + made,
        "outs": [made],
    }
    make_stub(tmp_path, {name: {"cmd": "true"} for name in BEFORE_TRAINING} | {"train": train})
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(STUDY.model_dump(mode="json"), sort_keys=False))
    done = study(tmp_path)
    assert (tmp_path / "order").exists(), done.stderr
    assert (tmp_path / "order").read_text().splitlines() == [key.stage for key in STUDY.runs()]
    left_out = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("runs/**/left_out.txt")}
    assert left_out == {str(key.directory) for key in ITEMS if key not in STUDY.runs()}
    before = (tmp_path / "dvc.lock").read_text()
    study(tmp_path)
    assert (tmp_path / "dvc.lock").read_text() == before
    assert len((tmp_path / "order").read_text().splitlines()) == len(STUDY.runs())


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


STUDY = small_study()
ITEMS = [RunKey(b, v, s) for s in STUDY.seeds for b in STUDY.benchmarks for v in STUDY.variants]


def told(capsys: pytest.CaptureFixture[str], *lines: str | float) -> list[str]:
    """What is printed of these lines of DVC; a number is a pause in seconds."""
    clock = Time()
    with StudyProgress(Forecast(STUDY.runs(), {}, {}), clock) as progress:
        for line in lines:
            if isinstance(line, str):
                progress.take(line + "\n")
            else:
                clock.now += line
    return capsys.readouterr().out.splitlines()


def a_run(key: RunKey, left_out: bool) -> list[str | float]:
    if left_out:
        outcome = f"variants.{key.variant}.benchmarks does not name {key.benchmark}: nothing to run."
    else:
        outcome = f"{key.directory}: completed, test accuracy 0.9000"
    epoch = "epoch 1/2 · 20.00 s · 68 images/s · loss 2.4646 · validation accuracy 0.1000 · at most 20 s left"
    return [
        f"Running stage '{key.stage}':",
        f"> python -m stages.train --benchmark {key.benchmark} --variant {key.variant} --seed {key.seed}",
        *([] if left_out else [25, f"{key.benchmark} {key.variant} seed {key.seed} · {epoch}", 25]),
        outcome,
        "Updating lock file 'dvc.lock'",
        "",
    ]


def test_a_log_has_a_line_a_run_with_the_time_left_after_the_first_seed(capsys):
    lines = [line for key in ITEMS for line in a_run(key, key not in STUDY.runs())]
    printed = told(capsys, *lines, "Use `dvc push` to send your updates to remote storage.")
    assert printed.pop(0) == "step 3 of 5: training, 18 runs"
    assert len(printed) == len(STUDY.runs()) == 18
    assert printed[0] == "run 1 of 18 · wide float32 seed 0 · 50 s · completed, test accuracy 0.9000"
    assert [number for number, line in enumerate(printed, 1) if " left · " not in line] == [1, 2, 3, 4, 5]
    assert printed[8].startswith("run 9 of 18 · about 8 min left · ")  # 9 runs of 50 s
    assert printed[-1].startswith("run 18 of 18 · less than a minute left · narrow float32_2x seed 2 · ")


def test_a_long_run_tells_of_itself_in_a_log_now_and_then(capsys):
    epochs = [
        line
        for number in range(1, 10)
        for line in (QUIET_SECONDS / 2, f"wide float32 seed 0 · epoch {number}/9 · 30.00 s · 68 images/s · at most 9 s")
    ]
    printed = told(capsys, "Running stage 'train@0-wide-float32':", *epochs)
    assert [line.split(" · ")[2] for line in printed[1:]] == ["epoch 2/9", "epoch 4/9", "epoch 6/9", "epoch 8/9"]


def test_what_is_there_is_counted_and_what_others_print_is_passed_on(capsys):
    printed = told(
        capsys,
        "Running stage 'download@mnist':",
        "> python -m stages.download --dataset mnist",
        "Generating train examples...: 0 examples [00:00, ? examples/s]\x1b[A",
        "data/mnist is ready",
        "Stage 'train@0-wide-float32' didn't change, skipping",
        "Stage 'train@0-wide-float32_2x' is cached - skipping run, checking out outputs",
        "Running stage 'train@0-wide-mixed':",
        "a warning of the engine",
        "runs/wide/mixed/seed-0: diverged, test accuracy unknown",
        "Stage 'train@0-wide-mixed' didn't change, skipping",  # of DVC's second look, at all of the study
        "Running stage 'speed@wide':",
        "ERROR: it is for the end",
    )
    assert printed == [
        "step 1 of 5: data and models",
        "data/mnist is ready",
        "2 runs are there already",
        "step 3 of 5: training, 18 runs",
        "a warning of the engine",
        "run 3 of 18 · wide mixed seed 0 · 0 s · diverged, test accuracy unknown",
        "step 4 of 5: speed in turns, about 0 s",
    ]
