"""The report in a real browser: no error, no request, tables that sort, and nothing that axe-core objects to.

Needs Chromium on the path. `.ci/run` installs it; elsewhere these tests are not part of `make test`.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import axe_core_python
import numpy as np
import pytest
from conftest import REPOSITORY
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--enable-logging=stderr"),
    "--virtual-time-budget=20000",
]


def chromium(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM, "Chromium is missing: apt-get install chromium"
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def evaluate(folder: Path, page: Path, script: str, *options: str) -> dict:
    """What `script`, the body of an async function, returns in a copy of `page` that lets it run."""
    text = re.sub(r"<meta[^>]*Content-Security-Policy[^>]*>", "", page.read_text())
    run = f"(async () => {{ {script} }})()"
    show = (
        "document.body.innerHTML = ''; document.body.append(Object.assign(document.createElement('pre'), {id: 'found',"
    )
    runner = f"{run}.then((found) => {{ {show} textContent: JSON.stringify(found)}})); }})"
    copy = folder / "instrumented.html"
    copy.write_text(text.replace("</body>", f"<script>{AXE.read_text()}</script><script>{runner}</script></body>"))
    dom = chromium(folder, copy, "--dump-dom", *options).stdout
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(html.unescape(found.group(1)))


PUBLISHED = REPOSITORY / "docs" / "reports" / "quick-2-cores" / "report.html"
DARK = "--blink-settings=preferredColorScheme=0"


@pytest.fixture(params=["small", "published"])
def page(rendered, request) -> Path:
    """The report on the small study of the tests, and the one that is published with the project."""
    return rendered / "results" / "report.html" if request.param == "small" else PUBLISHED


def test_it_opens_without_an_error_and_asks_for_nothing_else(page, tmp_path):
    done = chromium(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr  # where a blocked script or request would show
    assert "<h1>" in done.stdout
    assert 'type="button"' in done.stdout  # the policy let our script run
    asked = evaluate(tmp_path, page, "return {names: performance.getEntriesByType('resource').map((e) => e.name)}")
    assert asked["names"] == []


@pytest.mark.parametrize("width", [500, 1280])  # a headless Chromium is never narrower
def test_it_fits_the_screen(page, tmp_path, width):
    """Wide tables scroll inside their frame; the page itself does not."""
    script = "return {page: document.documentElement.scrollWidth, screen: innerWidth}"
    found = evaluate(tmp_path, page, script, f"--window-size={width},900")
    assert found["page"] <= found["screen"]


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
    script = """
        document.querySelectorAll("details").forEach((part) => { part.open = true; });
        const dark = matchMedia("(prefers-color-scheme: dark)").matches;
        const {violations} = await axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]});
        return {dark, violations: violations.map(({id, nodes}) => [id, nodes.length, nodes[0].html.slice(0, 200)])};
    """
    found = evaluate(tmp_path, page, script, *scheme)
    assert found["violations"] == []
    assert found["dark"] is bool(scheme)


def test_tables_sort_by_the_heading_that_is_pressed(page, tmp_path):
    script = """
        const table = [...document.querySelectorAll("table")].find((t) => t.tHead?.textContent.includes("peak memory"));
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
        const rows = [...document.querySelectorAll("table.claims tbody tr")];
        const visible = () => rows.filter((row) => !row.hidden).length;
        const all = visible();
        select.value = select.options[1].value; select.dispatchEvent(new Event("change"));
        return {all, narrowed: visible(), options: select.options.length};
    """
    found = evaluate(tmp_path, page, script)
    assert 0 < found["narrowed"] <= found["all"]
    assert found["options"] >= 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_of_the_readme_show_the_published_report(tmp_path, scheme):
    """With UPDATE_PICTURES=1 they are taken anew; fonts differ from machine to machine, so pixels are not compared."""
    picture = tmp_path / f"report-{scheme}.png"
    options = [DARK] if scheme == "dark" else []
    chromium(tmp_path, PUBLISHED, "--window-size=1300,1150", f"--screenshot={picture}", *options)
    with Image.open(picture) as taken, Image.open(REPOSITORY / "docs" / picture.name) as committed:
        assert taken.size == committed.size == (1300, 1150)
        mean = np.asarray(taken.convert("L")).mean()
    assert (mean < 100) if scheme == "dark" else (mean > 200)
    if os.environ.get("UPDATE_PICTURES"):
        shutil.copyfile(picture, REPOSITORY / "docs" / picture.name)


def test_a_study_named_like_a_script_is_shown_and_not_run(rendered, tmp_path):
    page = rendered / "results" / "report.html"
    found = evaluate(tmp_path, page, "return {text: document.body.textContent.includes('<script>alert(2)')}")
    assert found["text"]
