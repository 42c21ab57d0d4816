"""Archives and files of strangers: nothing in them runs, nothing forged passes, nothing damaged ends in a traceback."""

import json
import shutil
import subprocess
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import archives
import projects
import pytest
from archives import DAMAGED_ARCHIVES, DAMAGED_RUNS, DEEP, FORGED, PLACES, change, contents_of, pack, sign, within
from conftest import ENVIRONMENT

from pipeline.claims.evidence import read_evidence
from pipeline.claims.verdicts import judge_results
from pipeline.comparison.comparing import compare_runs
from pipeline.errors import InputError
from pipeline.numerics.facts import is_measured
from pipeline.publication.archive import RECOMPUTED, unpack
from pipeline.publication.crate import publish
from pipeline.publication.recomputing import first_difference, not_of_project, recompute, remake
from pipeline.report import rendering
from pipeline.report.results import load_results
from pipeline.study.schema import load_study
from stages import publish as stage


@pytest.fixture(scope="module")
def contents(crate) -> archives.Contents:
    return contents_of(crate)


def refused(call: Callable[[], object], pattern: str) -> str:
    with pytest.raises(InputError, match=pattern) as found:
        call()
    assert str(found.value).isprintable() or "\n" in str(found.value)
    return str(found.value)


@pytest.mark.parametrize("case", DAMAGED_ARCHIVES)
def test_a_damaged_archive_is_refused_before_anything_of_it_is_unpacked(contents, tmp_path, case):
    damage, pattern = DAMAGED_ARCHIVES[case]
    archive, folder = tmp_path / "study.zip", tmp_path / "unpacked"
    archive.write_bytes(damage(contents))
    message = refused(lambda: unpack(archive, folder), pattern)
    assert "study.zip" in message or "params.yaml" in message
    assert len(message) < 1500
    assert {path.name for path in tmp_path.rglob("*")} <= {"study.zip", "unpacked", "params.yaml"}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_archive_is_refused(tmp_path, place):
    PLACES[place](tmp_path / "study.zip")
    refused(lambda: unpack(tmp_path / "study.zip", tmp_path / "unpacked"), r"study\.zip is missing")


@pytest.mark.parametrize("case", DAMAGED_RUNS)
def test_a_damaged_run_or_one_that_contradicts_itself_is_not_compared(copied, case):
    name, edit, pattern = DAMAGED_RUNS[case]
    (copied / name).write_bytes(edit((copied / name).read_bytes()))
    message = refused(lambda: compare_runs(copied), pattern)
    assert str((copied / name).parent) in message
    stage = "speed@wide" if name in (archives.BLOCKS, archives.CIRCUMSTANCES) else "train@wide"
    assert message.endswith(f"dvc repro {stage}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [archives.RECORD, archives.EPOCHS, archives.PREDICTIONS, archives.BLOCKS])
def test_what_is_no_file_of_a_run_is_refused(copied, name, place):
    (copied / name).unlink()
    PLACES[place](copied / name)
    assert "dvc repro" in refused(lambda: compare_runs(copied), Path(name).name + " is (missing|damaged)")


CONTENTS = [
    b"",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b"[NaN]",
    b"1" * 5000,
    DEEP,
    b'{"a":' * 5000,
    b"a,b\r\n",
    b'"',
    b"\x00",
]


def test_damaged_numerics_are_named_with_their_remedy(copied):
    """A stranger's archive has them as they were sent; every other result is made again from the records."""
    path = copied / "results" / "numerics.json"
    for content in CONTENTS:
        path.write_bytes(content)
        message = refused(lambda: load_results(copied), r"numerics\.json is damaged")
        assert message.endswith("dvc repro numerics")
    path.unlink()
    for place in PLACES.values():
        place(path)
        if path.exists():  # without numerics the rest is judged
            refused(lambda: judge_results(copied), r"numerics\.json is (missing|damaged)")
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def test_a_file_in_the_place_of_a_folder_is_refused(copied):
    shutil.rmtree(copied / "runs/wide/mixed/seed-1")
    (copied / "runs/wide/mixed/seed-1").write_text("not a folder")
    refused(lambda: compare_runs(copied), r"record\.json is missing")
    shutil.rmtree(copied / "results")
    (copied / "results").write_text("not a folder")
    refused(lambda: load_results(copied), r"runs\.csv is missing")


def recompute_by_command(archive: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return projects.stage(archive.parent, "report", "--from", archive.name, **environment)


def test_nothing_of_an_archive_is_imported(contents, tmp_path):
    """The folder of the results was the working directory once, and first on the path of imports."""
    marker = tmp_path / "it-ran"
    code = f"open({str(marker)!r}, 'w')\nraise SystemExit(0)\n".encode()
    names = ["yaml.py", "json.py", "numpy.py", "sitecustomize.py", "pipeline/__init__.py", "stages/__init__.py"]
    (tmp_path / "crate.zip").write_bytes(pack(sign(contents | dict.fromkeys(names, code))))
    done = recompute_by_command(tmp_path / "crate.zip")
    assert (done.returncode, done.stdout) == (2, "")
    assert "yaml.py" in done.stderr
    assert not marker.exists()


def test_code_that_lies_beside_the_results_is_not_imported(contents, copied, tmp_path):
    """Not even where someone has put it into the folder that is rendered, past the archive's own checks."""
    marker = tmp_path / "it-ran"
    for name in ("yaml.py", "results/numpy.py", "numpy.py", "jinja2.py", "IPython/__init__.py", "pipeline/__init__.py"):
        (copied / name).parent.mkdir(exist_ok=True)
        (copied / name).write_text(f"open({str(marker)!r}, 'w')\nraise SystemExit(0)\n")
    html = rendering.render(rendering.execute(copied))
    assert html.encode() == contents["results/report.html"]
    assert not marker.exists()


def test_a_command_imports_nothing_from_the_folder_it_is_run_in(tmp_path):
    """Someone unpacked an archive by hand, and runs our command there."""
    for name in ("yaml", "pydantic", "argparse", "errno", "pipeline", "papermill"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('it ran')\n")
    done = projects.stage(tmp_path, "report", "--from", "crate.zip")
    assert (done.returncode, "it ran" in done.stderr) == (2, False), done.stderr
    assert "crate.zip is missing" in done.stderr


def test_every_forged_result_is_named(contents, tmp_path):
    forged = contents | {name: edit(contents[name]) for name, edit in FORGED.items()}
    (tmp_path / "crate.zip").write_bytes(pack(sign(forged)))
    done = recompute_by_command(tmp_path / "crate.zip", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "recomputed, and as published: ro-crate-metadata.json" in done.stdout
    assert "taken as published: what the records" in done.stdout
    assert "claims.yaml (NOT as this project has it)" in done.stdout
    for name in RECOMPUTED:
        assert f"  {name}: " in done.stderr
    assert "10x faster" in done.stderr


def test_each_forged_or_missing_result_differs(contents, copied):
    made = remake(copied)
    made["results/report.html"] = contents["results/report.html"].decode()
    for name, edit in FORGED.items():
        assert first_difference(contents[name], made[name]) is None
        assert first_difference(None, made[name]) == "it is not in the archive"
        # Python takes the last three for the end of a line, and JSON does not.
        others = (made[name].replace("\n", separator).encode() for separator in ("\x1c", "\u2028", "\x0b"))
        for other in (edit(contents[name]), b"", b"\xff\xfe", *others):
            assert first_difference(other, made[name]), name


@pytest.mark.parametrize(
    ("recomputed", "published"),
    [
        ('{"driver": "550.10"}', '{"driver": "550.1"}'),
        ('{"550.10 of": 1}', '{"550.1 of": 1}'),
        ('{"driver": "a\\"1.5"}', '{"driver": "a\\"1.50"}'),
        ('{"a": 2}', '{"a": 2.0}'),
        ('{"a": 1.5}', '{"a": "1.5"}'),
        ('{"a": 1.5}', '{"a": ١.٥}'),
        ('{"a": 1.5, "b": 2.5}', '{"a": 1.5,  "b": 2.5}'),
        ("a,b\n1,550.10\n", "a,b\n1,550.1\n"),
        ('a,b\n1,"1.5,0"\n', 'a,b\n1,"1.50,0"\n'),
        ("a,b\n1,1.5\n", "a,b\n1,１.５\n"),
    ],
)
def test_identifiers_that_look_like_numbers_are_compared_as_they_stand(recomputed, published):
    assert first_difference(published.encode(), recomputed)


@pytest.mark.parametrize("line", ['"' * 10**6, '"' + '\\"' * 10**6, "," * 10**6, "1." * 10**6, '"\\' * 10**6])
def test_a_long_line_is_compared_at_once(line):
    started = time.process_time()
    for recomputed in ("{" + line, line):
        assert first_difference((recomputed[:-1] + "x").encode(), recomputed)
    assert time.process_time() - started < 10


def test_what_is_not_this_projects_is_named(contents, tmp_path):
    other = {name: content + b"\n# mine\n" for name, content in contents.items() if name in ("dvc.yaml", "LICENSE")}
    other |= {"requirements/cuda.txt": b"numpy", "requirements/mine.txt": b"torch"}
    fewer = {name: content for name, content in contents.items() if name != "CITATION.cff"}
    (tmp_path / "crate.zip").write_bytes(pack(sign(fewer | other)))
    unpack(tmp_path / "crate.zip", tmp_path / "study")
    assert not_of_project(tmp_path / "study") == sorted([*other, "claims.yaml", "CITATION.cff"])


def test_the_last_digit_of_a_number_is_no_forgery():
    recomputed = '{"ratio": 0.1234567890123456, "count": 3, "sha256": "12e5", "seconds": 1e-05}\n'
    other_processor = recomputed.replace("123456,", "123457,").replace("1e-05", "1.0000000000001e-05")
    assert first_difference(other_processor.encode(), recomputed) is None
    assert first_difference(b"a,b\n1,1.00000000000001\n", "a,b\n1,1.0\n") is None
    changes = {"0.12345678": "0.12345679", "3,": "4,", "12e5": "13e5", "count": "c0unt", "1e-05": "1e-06"}
    for old, new in changes.items():
        assert first_difference(recomputed.replace(old, new).encode(), recomputed)


def test_an_archive_of_a_forged_run_does_not_recompute(contents, tmp_path):
    name, edit, pattern = DAMAGED_RUNS["predictions all right"]
    (tmp_path / "crate.zip").write_bytes(change(name, edit)(contents))
    message = refused(lambda: recompute(tmp_path / "crate.zip"), pattern)
    assert message.startswith(f"{tmp_path}/crate.zip does not recompute: {name}")


def test_an_archive_has_the_runs_of_its_study_alone(copied, contents, tmp_path):
    shutil.copytree(copied / "runs/wide", copied / "runs/of_an_earlier_study")
    (copied / "runs/wide/mixed/seed-1/left_out.txt").write_text("of an earlier stage")
    (copied / "results/secret.key").write_text("not to be published")
    found = contents_of(publish(load_results(copied), copied, tmp_path / "crate.zip"))
    assert found.keys() == contents.keys()


def test_runs_that_were_not_compared_are_not_published(copied, monkeypatch):
    record = copied / archives.RECORD  # of a run that ended after the comparison
    record.write_bytes(within("memory", peak_bytes=2**19)(record.read_bytes()))
    monkeypatch.chdir(copied)
    message = refused(
        lambda: stage.main(Namespace(to=None, again=None)), "nothing is published: the runs under runs/ are not"
    )
    assert "results/runs.csv: line" in message
    assert not list((copied / "results").glob("*.zip"))


def test_numerics_of_another_study_are_refused_and_those_of_another_device_decide_nothing_measured(copied):
    path = copied / "results" / "numerics.json"
    study, found = load_study(copied / "params.yaml"), json.loads(path.read_text())
    recipes = {name: {"recipe": benchmark.model_dump(mode="json")} for name, benchmark in study.benchmarks.items()}
    found |= {"schema_version": 3, "identity": {"benchmarks": recipes}, "environment": ENVIRONMENT}
    path.write_text(json.dumps(found))
    facts = read_evidence(copied).numerics["facts"]
    assert any(map(is_measured, facts))
    gpu = {"kind": "gpu", "name": "NVIDIA H200", "compute_capability": "9.0"}
    path.write_text(json.dumps(found | {"environment": ENVIRONMENT | {"accelerators": [gpu]}}))
    left = read_evidence(copied).numerics["facts"]
    assert left == {name: value for name, value in facts.items() if not is_measured(name)}
    recipes["wide"]["recipe"]["num_epochs"] += 1
    path.write_text(json.dumps(found))
    refused(lambda: read_evidence(copied), r"numerics\.json is of another study than params\.yaml")
