"""What a stranger sends is merged as it stands or refused: each way to cheat that we know of is a line."""

import argparse
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import BLOCKS, RECORD, Contents, Edit, contents_of, pack, put, sign, whole, within
from conftest import REPOSITORY
from projects import stage

from pipeline.errors import InputError
from pipeline.publication.archive import FILES, MAX_REPORT_BYTES
from pipeline.publication.crate import publish
from pipeline.publication.recomputing import check_report, remake
from pipeline.report.rendering import execute, render
from pipeline.report.results import load_results
from stages import check_reports


@pytest.fixture(scope="module")
def published(rendered, tmp_path_factory) -> Path:
    root = Path(shutil.copytree(rendered, tmp_path_factory.mktemp("sent") / "study", symlinks=True))
    return sent_from(made_again(root), tmp_path_factory.mktemp("reports") / "a-machine")


def sent_from(root: Path, folder: Path) -> Path:
    """The finished study under `root`, as somebody sends it."""
    archive = publish(load_results(root), root, root / "results" / "crate.zip")
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(archive if name == "crate.zip" else root / FILES[name], folder / name)
    return folder


def made_again(root: Path) -> Path:
    """The study with every result made again from what lies there now."""
    remake(root)
    (root / "results/report.html").write_text(render(execute(root)), encoding="utf-8")
    return root


@pytest.fixture
def sent(published, tmp_path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "reports" / "a-machine"))


def rewrite(folder: Path, changes: dict[str, bytes]) -> Path:
    """The study with other files, in its folder and in an archive whose manifest fits them."""
    contents = contents_of(folder / "crate.zip") | changes
    (folder / "crate.zip").write_bytes(pack(sign(contents)))
    for name in FILES:
        if name != "crate.zip":
            (folder / name).write_bytes(contents[FILES[name]])
    return folder


def test_an_honest_study_with_a_claim_of_its_own_passes(sent):
    found, own_claims = check_report(sent)
    assert (found.num_runs, found.not_ours, own_claims) == (18, ["claims.yaml"], ["a"])


def edited(name: str, edit: Edit) -> Callable[[Contents], Contents]:
    return lambda contents: {name: edit(contents[name])}


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Contents], Contents]:
    return edited(name, lambda content: content.replace(old, new))


def slower_blocks(content: bytes) -> bytes:
    """Every block of the candidate takes twice as long."""
    return re.sub(
        rb"(?m)(completed,1,16,)([\d.]+)(,.*,mixed\r?)$", lambda m: m[1] + str(2 * float(m[2])).encode() + m[3], content
    )


def without_license(content: bytes) -> bytes:
    crate = json.loads(content)
    for entity in crate["@graph"]:
        entity.pop("license", None)
    return json.dumps(crate).encode()


STATUS, REPORT = "results/status.json", "results/report.html"
OTHER_RUN = RECORD.replace("seed-1", "seed-2")
# What a sender changes in the archive and beside it, with a manifest that fits, and what the refusal says.
CHEATS: dict[str, tuple[Callable[[Contents], Contents], str]] = {
    "a better verdict": (edited("results/verdicts.json", put(verdict="in direction only")), r"verdicts\.json: line"),
    "a number that is none": (edited("results/numerics.json", within("facts", **{"loss_scale.growth_factor": "abc"})), r"report\.html: it is another report"),
    "blocks that do not give the speedup": (edited(BLOCKS, slower_blocks), r"(?s)gives? other results.*pairs\.csv"),
    "predictions that do not give the accuracy": (edited(RECORD, within("scores", test_accuracy=0.99)), "accuracy is not the 0.99"),
    "the record of another run": (lambda contents: {RECORD: contents[OTHER_RUN]}, r"record\.json"),
    "an image that is none": (edited(RECORD, within("environment", image={"tag": "x"})), "crate.zip"),
    "a claim of no kind": (replaced("claims.yaml", b"kind: speedup", b"kind: faster"), "'faster' found using 'kind'"),
    "a crate without a license": (edited("ro-crate-metadata.json", without_license), r"ro-crate-metadata\.json: line"),
    "a crate of nothing": (edited("ro-crate-metadata.json", whole(b"[1]")), r"ro-crate-metadata\.json: line 1 is"),
    "a script in the name of a benchmark": (replaced("params.yaml", b"wide", b"<script>alert(1)</script>"), r"params\.yaml"),
    "another end": (edited(STATUS, put(finished_at="9998-01-01T00:00:00+00:00")), r"status\.json: line"),
    "a report that opens slowly": (edited(REPORT, lambda html: html.ljust(MAX_REPORT_BYTES + 1)), r"has 3\.0 MB, and opens slowly above 3 MB"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHEATS)
def test_a_study_that_somebody_made_better_is_refused(sent, case):
    change, pattern = CHEATS[case]
    before = contents_of(sent / "crate.zip")
    changes = change(before)
    assert changes.items() - before.items()
    refused(rewrite(sent, changes), pattern)


def refused(folder: Path, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        check_report(folder)


def rotten(folder: Path) -> None:
    content = bytearray((folder / "crate.zip").read_bytes())
    with zipfile.ZipFile(folder / "crate.zip") as file:
        content[file.getinfo("ro-crate-metadata.json").header_offset + 200] ^= 0xFF
    (folder / "crate.zip").write_bytes(content)


def linked(folder: Path) -> None:
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to("/etc/passwd")


def exchanged(folder: Path) -> None:
    with zipfile.ZipFile(folder / "crate.zip", "a") as file:
        file.writestr("more.txt", "x")


@pytest.mark.parametrize(
    ("damage", "pattern"),
    [
        (rotten, r"crate\.zip is damaged"),
        (linked, "no plain file"),
        (exchanged, "not as published: .*more.txt"),
        (lambda folder: (folder / "more.html").write_text("<script>"), "more.html is no part of a published study"),
    ],
)
def test_a_folder_that_is_not_as_it_was_published_is_refused(sent, damage, pattern):
    damage(sent)
    refused(sent, pattern)


def test_the_command_names_what_it_refuses_and_checks_the_others(sent, published):
    shutil.copytree(published, sent.parent / "b-machine")
    (sent / "verdicts.json").write_text("[]")
    done = stage(REPOSITORY, "check_reports", "--reports", str(sent.parent), **os.environ)
    assert done.returncode == 2
    assert "b-machine: 18 runs give every number, and the crate describes them" in done.stdout
    assert "'a-machine' is refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_the_check_itself_keeps_no_other_study_from_being_checked(sent, published, monkeypatch, capsys):
    def check_or_fail(folder: Path) -> object:
        return check_report(folder) if folder.name == "b-machine" else 1 // 0

    shutil.copytree(published, sent.parent / "b-machine")
    monkeypatch.setattr(check_reports, "check_report", check_or_fail)
    with pytest.raises(InputError, match=r"'a-machine' is refused: it can't be checked \(ZeroDivisionError"):
        check_reports.main(argparse.Namespace(reports=sent.parent))
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == [
        "b-machine: 18 runs give every number, and the crate describes them",
        "  claims.yaml (NOT as this project has it)",
        "  claims of its own: a",
    ]
