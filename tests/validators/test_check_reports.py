"""What a stranger sends is merged as it stands or refused: each way to cheat that we know of."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from archives import BLOCKS, RECORD, contents_of, pack, sign, swap, within
from conftest import REPOSITORY
from projects import commit, copy_tree, git

from pipeline.claims.results import load_results
from pipeline.compiled.programs import RECIPES
from pipeline.compiled.schema import COMPILED_FILES
from pipeline.errors import InputError
from pipeline.publication.checking import Checked, OtherSchemaError, check_report, judge_today
from pipeline.publication.published import FILES, MAX_REPORT_BYTES, in_archive
from pipeline.publication.publishing import publish
from pipeline.publication.recomputing import remake
from pipeline.publication.validation import VALIDATORS
from pipeline.report.rendering import execute, render
from stages import check_reports


@pytest.fixture(scope="module")
def published(rendered, tmp_path_factory) -> Path:
    root = with_project_files(rendered, tmp_path_factory.mktemp("sent") / "study")
    return sent_from(made_again(root), tmp_path_factory.mktemp("reports") / "a-machine")


def with_project_files(rendered: Path, root: Path) -> Path:
    """The small study with what compilers said of which recipes, which every study has from this project."""
    shutil.copytree(rendered, root, symlinks=True)
    shutil.copytree(REPOSITORY / COMPILED_FILES, root / COMPILED_FILES)
    (root / RECIPES).parent.mkdir()
    shutil.copy(REPOSITORY / RECIPES, root / RECIPES)
    return root


def sent_from(root: Path, folder: Path) -> Path:
    """The finished study under `root`, as somebody sends it."""
    archive = publish(load_results(root), root, root / "results" / "crate.zip")
    folder.mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(archive if name == "crate.zip" else root / in_archive(name), folder / name)
    return folder


def made_again(root: Path) -> Path:
    """The study with every result made again from what lies there now."""
    remake(root)
    (root / "results/report.html").write_text(render(execute(root)), encoding="utf-8")
    return root


def check(project: Path, reports: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stages.check_reports", "--reports", str(reports)],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )


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
    assert found.num_runs == 18
    assert [judgement.id for judgement in found.today] == [
        judgement.id for judgement in judge_today(sent / "crate.zip")
    ]
    # The study brought a claim of its own, "a"; those of this project are judged beside it.
    assert {name: then for name, then, today in found.changes if today is None}.keys() == {"a"}
    assert (found.own_claims, found.not_ours) == (["a"], ["claims.yaml"])
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
    """Every number is as published, and every block of the candidate takes twice as long."""

    def slower(match: re.Match[bytes]) -> bytes:
        return match[1] + str(2 * float(match[2])).encode() + match[3]

    blocks = contents_of(sent / "crate.zip")[BLOCKS]
    changed = re.sub(rb"(?m)(completed,1,16,)([\d.]+)(,.*,mixed\r?)$", slower, blocks)
    assert changed != blocks
    refused(rewrite(sent, {BLOCKS: changed}), r"(?s)gives? other results than were published.*comparison\.json: line")


def test_a_better_accuracy_that_its_predictions_do_not_give_is_refused(sent):
    record = contents_of(sent / "crate.zip")[RECORD]
    refused(rewrite(sent, {RECORD: within("scores", test_accuracy=0.99)(record)}), "accuracy is not the 0.99")


def test_what_no_compiler_said_is_refused(sent):
    """A V100 on which float32 does not fit, by a compiler that says what the sender likes, and verdicts that follow."""
    name = f"{COMPILED_FILES}/v100-16gb.json"
    made = json.loads(contents_of(sent / "crate.zip")[name])
    for program in made["programs"]:
        if (program["benchmark"], program["numbers"], program["batch_size"]) == (
            "cifar100_efficientnet_b0", "float32", 256,
        ):  # fmt: skip
            program["memory"]["temporaries"] = 20 * 10**9
    refused(rewrite(sent, {name: json.dumps(made).encode()}), r"^compiled/v100-16gb\.json: not this project's")


def test_other_recipes_are_refused(sent):
    recipes = contents_of(sent / "crate.zip")[str(RECIPES)]
    refused(rewrite(sent, {str(RECIPES): recipes + b"# mine\n"}), r"^conf/base\.yaml: not this project's")


def test_a_claim_of_ours_by_a_threshold_of_theirs_is_refused(sent):
    claims = contents_of(sent / "crate.zip")["claims.yaml"].replace(b"id: a\n", b"id: s2-slower-on-cpus\n")
    refused(
        rewrite(sent, {"claims.yaml": claims}), r"^claims\.yaml: claims\.s2-slower-on-cpus: not as this project has"
    )


@pytest.mark.parametrize("edit", [swap("Apache-2.0", "CC0-1.0"), swap('"sc:Float"', '"sc:Text"')])
def test_tables_described_otherwise_are_refused(sent, edit):
    content = contents_of(sent / "crate.zip")["croissant.json"]
    refused(rewrite(sent, {"croissant.json": edit(content)}), r"croissant\.json: line")


def test_one_rotten_byte_in_the_description_is_refused(sent):
    archive = sent / "crate.zip"
    with zipfile.ZipFile(archive) as file:
        start = file.getinfo("ro-crate-metadata.json").header_offset
    packed = bytearray(archive.read_bytes())
    packed[start + 200] ^= 0xFF
    archive.write_bytes(packed)
    refused(sent, r"crate\.zip is damaged")


def test_no_validator_sees_an_archive_that_is_refused(sent, monkeypatch):
    monkeypatch.setattr("pipeline.publication.checking.crate_faults", lambda _: pytest.fail("it was asked"))
    refused(rewrite(sent, {"../../escaped.txt": b"x"}), "which no archive of this study has")


def test_a_swapped_record_is_refused(sent):
    """The record of one seed in the place of another, whole and unchanged."""
    contents = contents_of(sent / "crate.zip")
    other = RECORD.replace("seed-1", "seed-2")
    assert other in contents
    refused(rewrite(sent, {RECORD: contents[other]}), "record.json")


def test_a_path_that_leaves_the_folder_is_refused(sent, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where it is unpacked
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


def test_a_report_that_opens_slowly_is_refused(sent):
    heavy = contents_of(sent / "crate.zip")["results/report.html"].ljust(MAX_REPORT_BYTES + 1)
    refused(rewrite(sent, {"results/report.html": heavy}), r"report\.html has 3\.0 MB, and opens slowly above 3 MB")


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("9998-01-01T00:00:00+00:00", "which is yet to come"),
        ("tomorrow", "no time"),
        ("0001-01-01T00:00:00+14:00", "no"),
    ],
)
def test_a_study_that_ended_in_the_future_is_refused(sent, said, what):
    status = json.loads(contents_of(sent / "crate.zip")["results/status.json"]) | {"finished_at": said}
    refused(rewrite(sent, {"results/status.json": json.dumps(status).encode()}), what)


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
    done = check(REPOSITORY, sent.parent)
    assert done.returncode == 2
    assert "b-machine: the crate is valid" in done.stdout
    assert "'a-machine' is refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_the_check_itself_keeps_no_other_study_from_being_checked(sent, published, monkeypatch, capsys):
    def check_or_fail(folder: Path) -> Checked:
        return check_report(folder) if folder.name == "b-machine" else 1 // 0

    shutil.copytree(published, sent.parent / "b-machine")
    monkeypatch.setattr(check_reports, "check_report", check_or_fail)
    with pytest.raises(InputError, match=r"'a-machine' is refused: it can't be checked \(ZeroDivisionError"):
        check_reports.main(argparse.Namespace(reports=sent.parent))
    printed = capsys.readouterr().out.splitlines()
    assert "b-machine: the crate is valid; 18 runs give every number, by today's rules" in printed
    assert printed[1:3] == ["  claims.yaml (NOT that of this project)", "  claims of its own: a"]


def test_a_value_that_makes_no_sense_is_refused_in_words(sent):
    of_no_target = within("environment", image={"tag": "x"})
    contents = contents_of(sent / "crate.zip")
    records = {name: of_no_target(content) for name, content in contents.items() if name.endswith("/record.json")}
    refused(rewrite(sent, records), r"crate\.zip is damaged \(KeyError: 'target'\)")
    numerics = json.loads(contents["results/numerics.json"])
    numerics["facts"]["loss_scale.growth_factor"] = "abc"
    rewrite(sent, {"results/numerics.json": json.dumps(numerics).encode()})
    with pytest.raises(OtherSchemaError, match="today's rules can't judge its results: ValueError"):
        judge_today(sent / "crate.zip")


def of_a_commit(rendered: Path, named: str | None, root: Path) -> Path:
    """The small study, as if made at the commit of this name."""
    with_project_files(rendered, root)
    for path in (root / "runs").rglob("record.json"):
        path.write_bytes(within("environment", git_commit=named)(path.read_bytes()))
    return made_again(root)


@pytest.mark.parametrize(
    ("named", "reason"), [(None, "It names no commit"), ("1" * 40, "Its commit, 111111111111, is not in the history")]
)
def test_rules_that_nobody_knows_any_more_are_named(rendered, tmp_path, named, reason):
    folder = sent_from(of_a_commit(rendered, named, tmp_path / "study"), tmp_path / "reports" / "a-machine")
    claims = contents_of(folder / "crate.zip")["claims.yaml"].replace(b"kind: speedup", b"kind: faster")
    with pytest.raises(InputError) as found:
        check_report(rewrite(folder, {"claims.yaml": claims}))
    assert "crate.zip does not recompute: claims.yaml: " in str(found.value)
    assert "'faster' found using 'kind' does not match" in str(found.value)
    assert reason in str(found.value)
    assert "the rules of its day are not known" in str(found.value)


def test_a_study_by_rules_that_are_gone_is_recomputed_by_those_of_its_day(rendered, tmp_path):
    """A kind of claim has another name today, and the claim another threshold: its commit's code knows the old ones."""
    project = tmp_path / "project"
    copy_tree(project)
    git(project, "init", "--quiet", "--initial-branch=main")
    shutil.copyfile(rendered / "claims.yaml", project / "claims.yaml")
    commit(project)
    day = git(project, "rev-parse", "HEAD")
    root = of_a_commit(rendered, day, tmp_path / "study")
    sent_from(root, tmp_path / "reports" / "a-machine")
    for path in (project / "pipeline/claims").glob("*.py"):
        path.write_text(path.read_text().replace('"speedup"', '"faster"'))
    today = (root / "claims.yaml").read_text().replace("kind: speedup", "kind: faster")
    assert "at_least: 1.0\n" in today
    (project / "claims.yaml").write_text(today.replace("at_least: 1.0\n", "at_least: 100.0\n"))
    (project / ".validators").symlink_to(VALIDATORS)
    done = check(project, tmp_path / "reports")
    assert done.returncode == 0, done.stderr
    assert f"runs give every number, by the rules of its day, commit {day[:12]}" in done.stdout
    then = json.loads((root / "results/verdicts.json").read_text())[0]["verdict"]  # of a speedup of about 1
    assert f"  a: {then} then, not reproduced by today's rules" in done.stdout.splitlines()
    forged = swap("Apache-2.0", "CC0-1.0")(contents_of(tmp_path / "reports/a-machine/crate.zip")["croissant.json"])
    rewrite(tmp_path / "reports/a-machine", {"croissant.json": forged})
    refusal = check(project, tmp_path / "reports").stderr
    assert f"Nor does it recompute with the code of its day, commit {day[:12]}" in refusal


def test_a_study_judged_by_later_code_than_trained_it_is_recomputed_by_the_code_that_came_with_it(rendered, tmp_path):
    """Its report has a sentence that is neither in the code of its runs nor in that of today."""
    project = tmp_path / "project"
    copy_tree(project)
    git(project, "init", "--quiet", "--initial-branch=main")
    shutil.copyfile(rendered / "claims.yaml", project / "claims.yaml")
    parts = project / "report/parts.html"
    text = parts.read_text()
    days = []
    for words in (" as when it ran.</p>", ".</p>", " as of today.</p>"):
        parts.write_text(text.replace(".</p>", words))
        assert words in parts.read_text()
        if words == ".</p>":
            sent_from(of_a_commit(rendered, days[0], tmp_path / "study"), project / "sent/a-machine")
        commit(project)
        days.append(git(project, "rev-parse", "HEAD"))
    (project / ".validators").symlink_to(VALIDATORS)
    done = check(project, project / "sent")
    assert done.returncode == 0, done.stderr
    assert f"runs give every number, by the rules of its day, commit {days[1][:12]}" in done.stdout
