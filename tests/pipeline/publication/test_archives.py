"""Archives and files of strangers: nothing in them runs, nothing forged passes, nothing damaged ends in a traceback."""

import json
import os
from collections.abc import Callable

import archives
import projects
import pytest
from archives import DAMAGED_ARCHIVES, DAMAGED_RUNS, DEEP, contents_of
from conftest import ENVIRONMENT

from pipeline.claims.verdicts import read_evidence
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.numerics.facts import is_measured
from pipeline.publication.archive import recompute
from pipeline.report import rendering
from pipeline.report.results import load_results
from pipeline.study.schema import load_study


@pytest.fixture(scope="module")
def contents(archive) -> archives.Contents:
    return contents_of(archive)


def refused(call: Callable[[], object], pattern: str) -> str:
    with pytest.raises(InputError, match=pattern) as found:
        call()
    assert str(found.value).isprintable() or "\n" in str(found.value)
    return str(found.value)


@pytest.mark.parametrize("case", DAMAGED_ARCHIVES)
def test_a_damaged_archive_is_refused_before_it_is_unpacked(contents, tmp_path, case):
    damage, pattern = DAMAGED_ARCHIVES[case]
    archive = tmp_path / "study.zip"
    archive.write_bytes(damage(contents))
    (tmp_path / "unpacked").mkdir()
    message = refused(lambda: recompute(archive, tmp_path / "unpacked"), pattern)
    assert "study.zip" in message
    assert len(message) < 1500
    assert {path.name for path in tmp_path.rglob("*")} <= {"study.zip", "unpacked", "params.yaml"}


@pytest.mark.parametrize("case", DAMAGED_RUNS)
def test_a_damaged_or_inconsistent_run_is_not_compared(copied, case):
    name, edit, pattern = DAMAGED_RUNS[case]
    (copied / name).write_bytes(edit((copied / name).read_bytes()))
    message = refused(lambda: compare_runs(copied), pattern)
    assert str((copied / name).parent) in message
    stage = "speed@wide" if name in (archives.BLOCKS, archives.CIRCUMSTANCES) else "train@wide"
    assert message.endswith(f"dvc repro {stage}")


@pytest.mark.parametrize("make", [os.mkfifo, lambda _: None], ids=["a pipe", "nothing"])
def test_anything_but_a_file_in_place_of_a_record_counts_as_missing(copied, make):
    (copied / archives.RECORD).unlink()
    make(copied / archives.RECORD)
    assert "dvc repro" in refused(lambda: compare_runs(copied), r"record\.json is missing")


CONTENTS = [b"", b"\xff\xfe\x00", b"[]", b"[NaN]", DEEP]


def test_damaged_numerics_are_reported_with_their_remedy(copied):
    """A stranger's archive has them as they were sent; every other result is made again from the records."""
    path = copied / "results" / "numerics.json"
    for content in CONTENTS:
        path.write_bytes(content)
        message = refused(lambda: load_results(copied), r"numerics\.json is damaged")
        assert message.endswith("dvc repro numerics")


def test_code_next_to_the_results_is_not_imported(copied, rendered):
    """Not even if it got past the archive's own checks into the folder that is rendered."""
    marker = copied / "it-ran"
    for name in ("yaml.py", "results/numpy.py", "numpy.py", "jinja2.py", "IPython/__init__.py", "pipeline/__init__.py"):
        (copied / name).parent.mkdir(exist_ok=True)
        (copied / name).write_text(f"open({str(marker)!r}, 'w')\nraise SystemExit(0)\n")
    html = rendering.render(rendering.execute(copied))
    assert html == (rendered / "results/report.html").read_text()
    assert not marker.exists()


def test_a_command_imports_nothing_from_the_folder_it_is_run_in(tmp_path):
    """Someone unpacked an archive by hand, and runs our command there."""
    for name in ("yaml", "pydantic", "argparse", "errno", "pipeline", "papermill"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('it ran')\n")
    done = projects.stage(tmp_path, "report", "--from", "study.zip")
    assert (done.returncode, "it ran" in done.stderr) == (2, False), done.stderr
    assert "study.zip is missing" in done.stderr


def test_numerics_of_another_study_are_refused_and_measured_facts_of_another_device_left_out(copied):
    path = copied / "results" / "numerics.json"
    study, found = load_study(copied / "params.yaml"), json.loads(path.read_text())
    recipes = {name: {"recipe": benchmark.recipe} for name, benchmark in study.benchmarks.items()}
    found |= {"identity": {"benchmarks": recipes}, "environment": ENVIRONMENT}
    path.write_text(json.dumps(found))
    facts = read_evidence(copied).numerics["facts"]
    assert any(map(is_measured, facts))
    gpu = {"kind": "gpu", "name": "NVIDIA H200", "compute_capability": "9.0"}
    path.write_text(json.dumps(found | {"environment": ENVIRONMENT | {"accelerators": [gpu]}}))
    left = read_evidence(copied).numerics["facts"]
    assert left == {name: value for name, value in facts.items() if not is_measured(name)}
    recipes["wide"]["recipe"]["num_epochs"] += 1
    path.write_text(json.dumps(found))
    refused(lambda: read_evidence(copied), r"numerics\.json belongs to a different study")
