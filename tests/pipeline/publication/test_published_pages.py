"""Pages show what the raw records give; whatever else a stranger sends is refused with a message."""

import re
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import DAMAGED_RUNS, Edit, contents_of, pack, swap, within
from conftest import small_study

from pipeline.errors import InputError
from pipeline.publication.archive import recompute
from pipeline.publication.crate import publish
from pipeline.publication.github_pages import decide, places
from pipeline.report.pages import markdown_environment
from pipeline.report.results import Results
from stages import pages


@pytest.fixture(scope="module")
def published(archive, tmp_path_factory) -> Path:
    """A folder of two published studies with their pages."""
    reports = tmp_path_factory.mktemp("published") / "reports"
    for name in ("a-machine", "b-machine"):
        (reports / name).mkdir(parents=True)
        shutil.copyfile(archive, reports / name / "study.zip")
    pages.main(Namespace(reports=reports, check=False))
    return reports


@pytest.fixture
def reports(published, tmp_path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "reports"))


def check(reports: Path) -> None:
    pages.main(Namespace(reports=reports, check=True))


def test_an_unaltered_folder_passes_as_does_a_study_without_a_page(reports, capsys):
    assert "b-machine/README.md" in (reports / "README.md").read_text()
    (reports / "c-machine").mkdir()
    shutil.copyfile(reports / "a-machine/study.zip", reports / "c-machine/study.zip")
    check(reports)
    assert capsys.readouterr().out.splitlines() == [
        "a-machine: its 18 runs agree with its page",
        "b-machine: its 18 runs agree with its page",
        "c-machine: its 18 runs agree, and no page shows them yet",
    ]


def edited(name: str, edit: Edit) -> Callable[[Path], None]:
    """A file of a study's folder, or of the folder of all, after an edit."""

    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(edit(path.read_bytes()))

    return damage


def in_archive(name: str, edit: Edit) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        contents = contents_of(folder / "study.zip")
        (folder / "study.zip").write_bytes(pack(contents | {name: edit(contents[name])}))

    return damage


def linked(folder: Path) -> None:
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("/etc/passwd")


# What a stranger does to a study's folder, and what the refusal says.
HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a better number on the page": (edited("README.md", swap(r"1\.00×", "3.00×")), r"README\.md disagrees with the records: line \d+ is '.*3\.00×.*, and its records give '.*1\.00×"),
    "another figure": (edited("answer.svg", swap("<svg", "<svg onload='alert(1)'")), r"answer\.svg disagrees with the records: line 1 is .*onload"),
    "a better number on the overview page": (edited("../README.md", swap(r"1\.00×", "3.00×")), r"reports/README\.md disagrees with the records"),
    "a record that contradicts itself": (in_archive(*DAMAGED_RUNS["a record with a better accuracy"][:2]), "accuracy differs from the 0.999"),
    "a text in place of a number": (in_archive("results/numerics.json", within("facts", **{"loss_scale.growth_factor": "abc"})), "README|is refused"),
    "a link in place of a page": (linked, "does not belong to a published study"),
    "an additional file": (lambda folder: (folder / "more.html").write_text("<script>"), r"more\.html does not belong to a published study"),
    "a name that is invalid in an address": (lambda folder: folder.rename(folder.with_name("a machine")), "its name becomes part of an address"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_forged_study_is_refused_and_the_others_are_still_checked(reports, case, capsys):
    damage, pattern = HOSTILE[case]
    damage(reports / "a-machine")
    with pytest.raises(InputError, match=pattern) as refused:
        check(reports)
    assert len(str(refused.value)) < 1500
    assert "b-machine: its 18 runs agree with its page" in capsys.readouterr().out


def test_a_strangers_text_is_escaped_in_markdown():
    hostile = "<script>alert(1)</script> [a](javascript:b) ![c](d) `e` *f* _g_ | h\n# i \\ mixed_float16 make repro [0.1, 0.2]"
    found = (
        markdown_environment({"mixed_float16": "mixed_float16"})
        .from_string("{{ a }}\n{{ a | prose }}\n")
        .render(a=hostile)
    )
    plain, prose = found.splitlines()
    for line in (plain, prose):
        assert not re.search(r"(?<!\\)[<|*#]|(?<!\\)\](?=\()", line)
    assert "`mixed_float16` `make repro` [0.1,\N{NO-BREAK SPACE}0.2]" in prose
    assert "mixed_float16 make repro" in plain


@pytest.fixture(scope="module")
def results(archive, tmp_path_factory) -> Results:
    return recompute(archive, tmp_path_factory.mktemp("results"))


def test_the_overview_page_has_a_row_for_each_batch_size(results):
    small, doubled = places("a-machine", results, "wide")
    batch = small_study().benchmarks["wide"].batch_size
    assert (small.batch_size, doubled.batch_size) == (batch, 2 * batch)
    assert small.device == "Example CPU, 2 cores, no 16-bit features"
    assert small.cells.keys() == {"float32", "mixed_bfloat16"}
    assert "1.00×" in small.cells["mixed_bfloat16"][1]  # beside float32, which has no speed
    assert not any("×" in line for line in small.cells["float32"])


def test_the_row_of_a_claim_lists_studies_by_their_verdicts(results):
    first = results.claims.all[0]

    def decided(verdict: str) -> Results:
        judged = results.verdicts[0].model_copy(update={"verdict": verdict, "evidence": "measured"})
        return results._replace(verdicts=[judged, *results.verdicts[1:]])

    studies = {"a": decided("reproduced"), "b": decided("not reproduced"), "c": decided("inconclusive")}
    found = next(row for row in decide(results.claims, studies) if row.claim.id == first.id)
    assert (found.found, found.tried) == ({"reproduced": ["a"], "not reproduced": ["b"]}, ["c"])
    assert not found.is_finding


def test_a_page_shows_notes_and_that_its_study_is_unfinished(copied, tmp_path):
    params = (copied / "params.yaml").read_text()
    (copied / "params.yaml").write_text(params.replace("notes: []", "notes: [The card was <hot>.]"))
    shutil.rmtree(copied / "runs/wide/mixed_2x/seed-2")
    publish(copied, tmp_path / "reports/mine/study.zip")
    pages.main(Namespace(reports=tmp_path / "reports", check=False))
    page = (tmp_path / "reports/mine/README.md").read_text()
    assert "- The card was \\<hot>." in page
    assert "- Runs: 17 completed of 18 planned." in page


def test_a_figure_is_readable_on_a_light_and_on_a_dark_page(published):
    figure = (published / "a-machine/answer.svg").read_text()
    assert "@media (prefers-color-scheme: dark)" in figure
    background, *others = re.findall(r'<path d="([^"]*)" style="fill: var\(--paper\)', figure)
    assert not others
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', figure).groups()
    assert background.split()[:12] == ["M", "0", height, "L", width, height, "L", width, "0", "L", "0", "0"]
