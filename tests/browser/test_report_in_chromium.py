"""The report in a real browser: no error, no request, tables that sort, and nothing that axe-core objects to.

Needs Chromium on the path. `.ci/run` installs it; elsewhere these tests are not part of `make test`.
"""

import re
import shutil
from pathlib import Path

import pytest
from browser.chromium import DARK, OBJECTIONS, chromium, evaluate, layout
from conftest import REPOSITORY
from projects import stage

from pipeline.report.rendering import execute, render
from pipeline.study.schema import load_study

PUBLISHED = sorted((REPOSITORY / "docs" / "reports").glob("*/report.html"))


@pytest.fixture(scope="module")
def small(rendered, tmp_path_factory) -> Path:
    """The report on the small study of the tests."""
    folder = Path(shutil.copytree(rendered, tmp_path_factory.mktemp("small") / "study", symlinks=True))
    done = stage(folder, "report")
    assert done.returncode == 0, done.stderr
    return folder / "results" / "report.html"


@pytest.fixture(params=[None, *PUBLISHED], ids=lambda path: path.parent.name if path else "small")
def page(small, request) -> Path:
    """The report on the small study of the tests, and those that are published with the project."""
    return request.param or small


def test_it_opens_without_an_error_and_asks_for_nothing_else(page, tmp_path):
    done = chromium(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr  # where a blocked script or request would show
    assert "<h1>" in done.stdout
    assert 'type="button"' in done.stdout  # the policy let our script run
    asked = evaluate(tmp_path, page, "return {names: performance.getEntriesByType('resource').map((e) => e.name)}")
    assert asked["names"] == []


def test_no_text_lies_over_another_and_only_tables_are_wider_than_the_page(page, tmp_path):
    check_layout(page, tmp_path)


def test_nor_do_they_in_the_report_on_every_claim_of_the_project(written_out, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(render(execute(written_out)))
    check_layout(page, tmp_path)


def check_layout(page: Path, folder: Path) -> None:
    for width, found in layout(folder, page).items():
        assert found["boxes"] > 100  # it is seen at all
        assert (found["overlaps"], found["wide"]) == ([], []), width
        assert found["page"] <= width


FRAME = """
    const frame = document.createElement("iframe");
    frame.style = `width: ${width}px; height: 900px; border: 0`;
    frame.srcdoc = "<!doctype html>" + page.outerHTML;
    document.body.replaceChildren(frame);
    await new Promise((done) => { frame.onload = done; });
    const inside = frame.contentDocument;
"""


@pytest.mark.parametrize(("width", "lowest"), [(1280, 1000), (420, 1800)])
@pytest.mark.parametrize("page", PUBLISHED, ids=lambda path: path.parent.name)
def test_accuracy_and_epoch_time_of_every_benchmark_stand_on_the_first_screen(page, tmp_path, width, lowest):
    """On two screens of a phone; and what opens is at most eight screens of a laptop."""
    script = f"""
        const page = document.documentElement.cloneNode(true), width = {width};
        page.querySelectorAll("body > script").forEach((script) => script.remove());
        {FRAME}
        const tables = [...inside.querySelectorAll(".results")].filter((table) => table.checkVisibility());
        const height = inside.documentElement.scrollHeight;
        return {{height, tables: tables.map((table) => [table.getBoundingClientRect().bottom, table.innerText])}};
    """
    found = evaluate(tmp_path, page, script, "--window-size=1300,1000")
    assert len(found["tables"]) == len(load_study(page.with_name("params.yaml")).benchmarks)
    for bottom, text in found["tables"]:
        assert bottom < lowest
        rows = re.split(r"\n(?=float|mixed_)", text)[1:]
        assert {row.split()[0].strip(",") for row in rows} >= {"float32", "mixed_float16"}
        assert all(re.search(r"[0-9] %", row) and re.search(r"[0-9] s\b|no time is given", row) for row in rows)
    assert width < 1280 or found["height"] <= 7200


def test_a_link_to_something_folded_opens_it(written_out, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(render(execute(written_out)))
    script = """
        const claim = [...document.querySelectorAll(".more .claim")].at(-1);
        const before = claim.checkVisibility();
        location.hash = claim.id;
        await new Promise((done) => setTimeout(done, 100));
        return {before, after: claim.checkVisibility(), open: claim.open};
    """
    assert evaluate(tmp_path, page, script) == {"before": False, "after": True, "open": True}


def test_it_fits_a_sheet_of_paper(page, tmp_path):
    """Under the rules for print, on 690 pixels (A4 less its margins), no table is cut off and no control is printed."""
    script = """
        for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]))
            if (rule.media?.mediaText === "print") rule.media.mediaText = "screen";
        const wide = [...document.querySelectorAll("table")].filter((t) => t.offsetWidth > 0 && t.scrollWidth > 690);
        const filter = document.querySelector("[data-filter]");
        return {wide: wide.map((table) => table.textContent.trim().slice(0, 60)), filter: filter.offsetHeight};
    """
    assert evaluate(tmp_path, page, script, "--window-size=690,900") == {"wide": [], "filter": 0}


@pytest.mark.parametrize("scheme", [[], [DARK]], ids=["light", "dark"])
def test_axe_core_finds_nothing_to_object_to(page, tmp_path, scheme):
    assert evaluate(tmp_path, page, OBJECTIONS, *scheme) == {"dark": bool(scheme), "violations": []}


def test_tables_sort_by_the_heading_that_is_pressed(page, tmp_path):
    script = """
        const table = [...document.querySelectorAll("table")].find((t) => t.className === "results");
        const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent.includes("test accuracy"));
        const button = table.tHead.rows[0].cells[0].querySelector("button");
        const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.trim());
        const before = names();
        button.focus(); button.click();
        const up = names(), state = table.tHead.rows[0].cells[0].getAttribute("aria-sort");
        button.click();
        return {before, up, down: names(), state, focused: document.activeElement === button, column};
    """
    found = evaluate(tmp_path, page, script)
    assert found["before"][0] == "float32"
    assert found["up"] == sorted(found["before"])
    assert found["down"] == sorted(found["before"], reverse=True)
    assert (found["state"], found["focused"]) == ("ascending", True)


def test_claims_can_be_narrowed_to_a_verdict(page, tmp_path):
    script = """
        const select = document.querySelector("[data-filter] select");
        const rows = [...document.querySelectorAll(".claim")];
        const visible = () => rows.filter((row) => !row.hidden).length;
        const all = visible();
        select.value = select.options[1].value; select.dispatchEvent(new Event("change"));
        return {all, narrowed: visible(), options: select.options.length};
    """
    found = evaluate(tmp_path, page, script)
    assert 0 < found["narrowed"] <= found["all"]
    assert found["options"] >= 2
