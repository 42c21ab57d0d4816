"""What a stranger sends is merged as it stands or refused: each way to cheat that we know of."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from archives import RECORD, contents_of, pack, sign, within
from conftest import REPOSITORY

from pipeline.claims.results import load_results
from pipeline.errors import InputError
from pipeline.publication.checking import check_report, judge_today
from pipeline.publication.publishing import publish
from pipeline.publication.site import FILES, in_archive


@pytest.fixture(scope="module")
def published(rendered, tmp_path_factory) -> Path:
    root = Path(shutil.copytree(rendered, tmp_path_factory.mktemp("sent") / "study", symlinks=True))
    archive = publish(load_results(root), root, root / "results" / "crate.zip")
    folder = tmp_path_factory.mktemp("reports") / "a-machine"
    folder.mkdir()
    for name in FILES:
        source = archive if name == "crate.zip" else root / in_archive(name)
        shutil.copyfile(source, folder / name)
    return folder


@pytest.fixture
def sent(published, tmp_path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "reports" / "a-machine"))


def rewrite(folder: Path, changes: dict[str, bytes]) -> Path:
    """The study with other files, in its folder and in an archive whose manifest fits them."""
    contents = contents_of(folder / "crate.zip") | changes
    (folder / "crate.zip").write_bytes(pack(sign(contents)))
    for name in FILES:
        if name != "crate.zip":
            (folder / name).write_bytes(contents[in_archive(name)])
    return folder


def refused(folder: Path, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        check_report(folder)


def test_an_honest_study_passes_and_is_judged_by_todays_claims(sent):
    found = check_report(sent)
    assert found.rules == "today's rules"
    assert found.num_runs == len(found.study.study.runs())
    assert [judgement.id for judgement in found.today] == [
        judgement.id for judgement in judge_today(sent / "crate.zip")
    ]
    # The study brought a claim of its own, "a"; those of this project are judged beside it.
    assert {name: then for name, then, today in found.changes if today is None}.keys() == {"a"}
    assert len(found.today) > 40


def test_tampered_numbers_are_refused(sent):
    """A better speedup, in every file that shows it, with a manifest that fits."""
    contents = contents_of(sent / "crate.zip")
    comparison = json.loads(contents["results/comparison.json"])
    comparison["pairs"][0]["speedup"]["ratio"] = 3.0
    refused(rewrite(sent, {"results/comparison.json": json.dumps(comparison).encode()}), "comparison.json: ")


def test_a_tampered_verdict_is_refused(sent):
    verdicts = json.loads((sent / "verdicts.json").read_text())
    verdicts[0]["verdict"] = "reproduced" if verdicts[0]["verdict"] != "reproduced" else "not reproduced"
    refused(rewrite(sent, {"results/verdicts.json": json.dumps(verdicts, indent=2).encode()}), "verdicts.json: ")


def test_a_better_measurement_that_its_blocks_do_not_give_is_refused(sent):
    record = contents_of(sent / "crate.zip")[RECORD]
    refused(
        rewrite(sent, {RECORD: within("scores", test_accuracy=0.99)(record)}), "does not recompute|contradict|accura"
    )


def test_a_swapped_record_is_refused(sent):
    """The record of one seed in the place of another, whole and unchanged."""
    contents = contents_of(sent / "crate.zip")
    other = RECORD.replace("seed-1", "seed-2")
    assert other in contents
    refused(rewrite(sent, {RECORD: contents[other]}), "record.json")


def test_a_path_that_leaves_the_folder_is_refused(sent, tmp_path):
    refused(rewrite(sent, {"../../escaped.txt": b"x"}), "which no archive of this study has")
    assert not list(tmp_path.rglob("escaped.txt"))


def test_a_link_that_leaves_the_folder_is_refused(sent):
    (sent / "report.html").unlink()
    (sent / "report.html").symlink_to("/etc/passwd")
    refused(sent, "no plain file")


def test_a_file_that_nobody_asked_for_is_refused(sent):
    (sent / "more.html").write_text("<script>alert(1)</script>")
    refused(sent, "more.html is no part of a published study")


@pytest.mark.parametrize("name", ["<script>alert(1)<", "a b", "index.html", "claims", ".."])
def test_a_script_in_the_name_of_the_folder_is_refused(sent, name):
    folder = sent.parent / ".." if name == ".." else sent.rename(sent.parent / name)
    refused(folder, "Rename the folder")


def test_a_script_in_the_name_of_a_file_is_refused(sent):
    refused(rewrite(sent, {"runs/<script>alert(1)</script>.json": b"{}"}), "which no archive of this study has")


def test_a_script_in_the_name_of_a_benchmark_is_refused(sent):
    params = contents_of(sent / "crate.zip")["params.yaml"].replace(b"wide", b"<script>alert(1)</script>")
    refused(rewrite(sent, {"params.yaml": params}), "params.yaml")


def test_a_crate_that_says_less_than_it_should_is_refused(sent):
    crate = json.loads(contents_of(sent / "crate.zip")["ro-crate-metadata.json"])
    for entity in crate["@graph"]:
        entity.pop("license", None)
    refused(rewrite(sent, {"ro-crate-metadata.json": json.dumps(crate).encode()}), "no valid crate")


def test_an_archive_that_was_exchanged_is_refused(sent):
    with zipfile.ZipFile(sent / "crate.zip", "a") as file:
        file.writestr("more.txt", "x")
    refused(sent, "not as published: more.txt")


def test_the_command_names_what_it_refuses_and_checks_the_others(sent, published):
    shutil.copytree(published, sent.parent / "b-machine")
    (sent / "verdicts.json").write_text("[]")
    command = [sys.executable, "-m", "stages.check_reports", "--reports", str(sent.parent)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "b-machine: the crate is valid" in done.stdout
    assert "'a-machine' is refused" in done.stderr
    assert "Traceback" not in done.stderr
