"""The report in a real browser: no error, no request, and nothing that axe-core objects to.

Needs Chromium on the path. `.ci/run` installs it; elsewhere these tests are not part of `make test`.
"""

import shutil
from pathlib import Path

import pytest
from browser.chromium import DARK, FRAME, OBJECTIONS, chromium, evaluate, layout
from conftest import REPOSITORY, planned_record, small_study, write_small_run, write_speeds
from projects import stage

from pipeline.publication.archive import remake


@pytest.fixture(scope="module")
def small(rendered, tmp_path_factory) -> Path:
    """The report on the small study of the tests, one variant of which runs out of memory and one diverges once."""
    folder = Path(shutil.copytree(rendered, tmp_path_factory.mktemp("small") / "study", symlinks=True))
    for key in small_study().runs():
        if key.variant == "mixed_2x" or key[1:] == ("mixed", 2):
            outcome = "out_of_memory" if key.variant == "mixed_2x" else "diverged"
            write_small_run(folder, planned_record(key, outcome=outcome))
    write_speeds(folder, small_study(), spread=0.02, failed={"mixed_2x": "out_of_memory"})
    remake(folder)
    done = stage(folder, "report")
    assert done.returncode == 0, done.stderr
    return folder / "results" / "report.html"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> dict[str, Path]:
    """The reports on the project's own records: of an H200, and of a CPU."""
    folder = tmp_path_factory.mktemp("published")
    made = {}
    for name, study in (("h200", "docs/reports/h200/study.zip"), ("cpu", "docs/reports/evening-2-cores/study.zip")):
        done = stage(folder, "report", "--from", str(REPOSITORY / study))
        assert done.returncode == 0, done.stderr
        made[name] = (folder / "recomputed.html").rename(folder / f"{name}.html")
    return made


@pytest.fixture(params=["small", "h200", "cpu"])
def page(small, published, request) -> Path:
    return small if request.param == "small" else published[request.param]


def test_the_report_opens_without_errors_and_loads_nothing_else(page, tmp_path):
    done = chromium(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr  # where a blocked script or request would show
    assert "<h1>" in done.stdout


def test_texts_do_not_overlap_and_only_tables_are_wider_than_the_page(page, tmp_path):
    for width, found in layout(tmp_path, page).items():
        assert found["boxes"] > 100  # it is seen at all
        assert (found["overlaps"], found["wide"]) == ([], []), width
        assert found["page"] <= width


@pytest.mark.parametrize(("width", "lowest"), [(1280, 1100), (420, 2700)])
@pytest.mark.parametrize(("name", "num_tables"), [("h200", 3), ("cpu", 2)])
def test_the_results_of_every_benchmark_come_first(published, tmp_path, name, num_tables, width, lowest):
    """Within one screen of a laptop and three of a phone; the whole report takes about five screens of a laptop."""
    script = f"""
        const width = {width};
        {FRAME}
        const tables = [...inside.querySelectorAll(".results")].filter((table) => table.checkVisibility());
        const height = inside.documentElement.scrollHeight;
        return {{height, tables: tables.map((table) => [table.getBoundingClientRect().bottom, table.innerText])}};
    """
    found = evaluate(tmp_path, published[name], script, "--window-size=1300,1000")
    assert len(found["tables"]) == num_tables
    for bottom, text in found["tables"]:
        assert bottom < lowest
        assert {"float32", "mixed_float16"} <= set(text.split())
    assert width < 1280 or found["height"] <= 5000


def test_a_link_to_a_collapsed_claim_shows_it(published, tmp_path):
    script = """
        const claim = [...document.querySelectorAll(".more .claim")].at(-1);
        const before = claim.checkVisibility();
        location.hash = claim.id;
        await new Promise((done) => setTimeout(done, 100));
        return {before, after: claim.checkVisibility()};
    """
    assert evaluate(tmp_path, published["cpu"], script) == {"before": False, "after": True}


def test_tables_fit_the_page_when_the_report_is_printed(page, tmp_path):
    """Under the rules for print, 690 pixels wide: A4 without its margins."""
    script = """
        for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]))
            if (rule.media?.mediaText === "print") rule.media.mediaText = "screen";
        const wide = [...document.querySelectorAll("table")].filter((t) => t.offsetWidth > 0 && t.scrollWidth > 690);
        return {wide: wide.map((table) => table.textContent.trim().slice(0, 60))};
    """
    assert evaluate(tmp_path, page, script, "--window-size=690,900") == {"wide": []}


@pytest.mark.parametrize("scheme", [[], [DARK]], ids=["light", "dark"])
def test_axe_core_finds_no_violations(page, tmp_path, scheme):
    assert evaluate(tmp_path, page, OBJECTIONS, *scheme) == {"dark": bool(scheme), "violations": []}
