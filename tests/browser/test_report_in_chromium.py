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
from test_reporting import stage

from pipeline.compiled.schema import COMPILED_FILES
from pipeline.report.rendering import execute, render

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


PUBLISHED = sorted((REPOSITORY / "docs" / "reports").glob("*/report.html"))
PICTURED = REPOSITORY / "docs" / "reports" / "evening-2-cores" / "report.html"
PICTURE_WIDTH = 1300
DARK = "--blink-settings=preferredColorScheme=0"


@pytest.fixture(scope="module")
def small(rendered, tmp_path_factory) -> Path:
    """The report on the small study of the tests, with what was compiled for other hardware."""
    folder = Path(shutil.copytree(rendered, tmp_path_factory.mktemp("small") / "study", symlinks=True))
    shutil.copytree(REPOSITORY / COMPILED_FILES, folder / COMPILED_FILES)
    done = stage(folder, "report")
    assert done.returncode == 0, done.stderr
    return folder / "results" / "report.html"


@pytest.fixture(params=[None, *PUBLISHED], ids=lambda path: path.parent.name if path else "small")
def page(small, request) -> Path:
    """The report on the small study of the tests, and those that are published with the project."""
    return request.param or small


def test_every_figure_of_the_report_says_what_is_to_be_seen_in_it(small):
    """A colon stands between what a chart shows and its finding."""
    labels = re.findall(r'<svg [^>]*?aria-label="([^"]*)"', small.read_text())
    assert [label for label in labels if "as compiled" in label]
    assert not [label for label in labels if ": " not in label]


def test_it_opens_without_an_error_and_asks_for_nothing_else(page, tmp_path):
    done = chromium(tmp_path, page, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr  # where a blocked script or request would show
    assert "<h1>" in done.stdout
    assert 'type="button"' in done.stdout  # the policy let our script run
    asked = evaluate(tmp_path, page, "return {names: performance.getEntriesByType('resource').map((e) => e.name)}")
    assert asked["names"] == []


WIDTHS = [1280, 1100, 768, 420]
# Boxes are those of the letters of every line of text, and of what has a border of its own around its text. Letters
# leave a part of their line empty: only what lies deeper in each other than that is an overlap. What a scroller hides
# lies over nothing outside of it.
LAYOUT = """
    const frame = document.createElement("iframe");
    frame.style = "position: absolute; left: 0; top: 0; height: 2000px; border: 0";
    frame.srcdoc = "<!doctype html>" + page.outerHTML;
    document.body.replaceChildren(frame);
    await new Promise((done) => { frame.onload = done; });
    const inside = frame.contentDocument, view = frame.contentWindow;
    inside.querySelectorAll("details").forEach((part) => { part.open = true; });
    const describe = (node) => (node.textContent || node.tagName).trim().replace(/\\s+/g, " ").slice(0, 60);
    const measure = (node, box, element) => {
        const scroller = element.closest(".scroll"), frame = scroller?.getBoundingClientRect();
        const seen = frame
            ? {left: Math.max(box.left, frame.left), right: Math.min(box.right, frame.right)}
            : {left: box.left, right: box.right};
        const spare = node.nodeType === Node.TEXT_NODE ? box.height * 0.18 : 0;
        const {left, right} = box;
        return {node, scroller, seen, left, right, top: box.top + spare, bottom: box.bottom - spare};
    };
    const textBoxes = () => {
        const boxes = [], walker = inside.createTreeWalker(inside.body, NodeFilter.SHOW_TEXT);
        for (let text = walker.nextNode(); text; text = walker.nextNode()) {
            const element = text.parentElement;
            if (!text.textContent.trim() || element.closest("script, style, option, defs")) continue;
            if (view.getComputedStyle(element).visibility !== "visible") continue;
            const range = inside.createRange();
            range.selectNodeContents(text);
            boxes.push(...[...range.getClientRects()].map((line) => measure(text, line, element)));
        }
        const framed = [...inside.querySelectorAll(".verdict, select")];
        boxes.push(...framed.map((node) => measure(node, node.getBoundingClientRect(), node)));
        return boxes.filter((box) => box.right - box.left > 1 && box.bottom - box.top > 1);
    };
    const overlaps = () => {
        const found = [], open = [];
        for (const box of textBoxes().sort((a, b) => a.top - b.top)) {
            for (let index = open.length - 1; index >= 0; index--) {
                const other = open[index];
                if (other.bottom <= box.top + 1) { open.splice(index, 1); continue; }
                const [a, b] = box.scroller === other.scroller ? [box, other] : [box.seen, other.seen];
                const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const related = box.node.contains(other.node) || other.node.contains(box.node);
                if (across > 1 && !related) found.push(describe(other.node) + " | " + describe(box.node));
            }
            open.push(box);
        }
        return found;
    };
    const tooWide = (width) => {
        const beyond = ({left, right}) => right > left && (left < -1 || right > width + 1);
        const elements = [...inside.body.querySelectorAll("*")].filter((element) => {
            if (element.matches("svg *, .scroll > table, .scroll > table *")) return false;
            const cuts = !element.matches(".scroll, svg") && view.getComputedStyle(element).overflowX !== "visible";
            return beyond(element.getBoundingClientRect()) || (cuts && element.scrollWidth > element.clientWidth + 1);
        });
        const texts = textBoxes().filter((box) => beyond(box.seen)).map((box) => box.node);
        return [...elements, ...texts].map(describe);
    };
    const found = {};
    for (const width of widths) {
        frame.style.width = `${width}px`;
        found[width] = {
            page: inside.documentElement.scrollWidth, overlaps: overlaps(), wide: tooWide(width),
            boxes: textBoxes().length,
        };
    }
    return found;
"""


def layout(folder: Path, page: Path, change: str = "") -> dict[int, dict]:
    """By width of the window: that of the page, text that overlaps other text, and what is wider than the page.

    `change` is a script that runs before. The page is shown in a frame, because a headless Chromium's window is never
    narrower than 500 pixels. Every `<details>` is open.
    """
    prelude = f"const page = document.documentElement.cloneNode(true), widths = {WIDTHS};"
    prelude += "page.querySelectorAll('body > script').forEach((script) => script.remove());"
    found = evaluate(folder, page, change + prelude + LAYOUT, "--window-size=1300,2000")
    return {int(width): measured for width, measured in found.items()}


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


@pytest.mark.parametrize(
    ("planted", "kind", "text"),
    [
        # What claims once printed, in a column that is too narrow for it.
        ("cell.textContent = 'weights_ratio.cifar100_efficientnet_b0_'.repeat(2); cell.style.overflowWrap = 'normal'",
         "wide", "weights_ratio"),
        ("document.querySelector('h2').style.marginBottom = '-3em'", "overlaps", "Every claim"),
        ("document.querySelector('details td').style = 'position: relative; top: -2.5em'", "overlaps", "candidate"),
        ("document.querySelector('h1').style.whiteSpace = 'nowrap'", "wide", "Does 16-bit"),
        ("document.querySelector('.answers').style = 'overflow: hidden; white-space: nowrap'", "wide", "wide"),
    ],
)  # fmt: skip
def test_a_planted_fault_of_the_layout_is_found(rendered, tmp_path, planted, kind, text):
    change = f"const cell = document.querySelector('.claims dd'); {planted};"
    measured = layout(tmp_path, rendered / "results" / "report.html", change)
    assert any(text in found for at_width in measured.values() for found in at_width[kind]), measured


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
        const rows = [...document.querySelectorAll(".claims details")];
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
    """Each is what stands between the table of claims and the next section: the answers and their charts.

    With UPDATE_PICTURES=1 they are taken again; fonts differ from machine to machine, so pixels are not compared.
    """
    picture = tmp_path / f"report-{scheme}.png"
    options = [f"--window-size={PICTURE_WIDTH},4000", *([DARK] if scheme == "dark" else [])]
    chromium(tmp_path, PICTURED, f"--screenshot={picture}", *options)
    edges = """
        const table = document.querySelector("table").getBoundingClientRect();
        const charts = [...document.querySelectorAll("dl.answers ~ .charts")].at(-1).getBoundingClientRect();
        return {top: table.bottom, bottom: charts.bottom};
    """
    found = evaluate(tmp_path, PICTURED, edges, *options)
    with Image.open(picture) as page:
        taken = page.convert("RGB").crop((0, int(found["top"]) + 8, PICTURE_WIDTH, int(found["bottom"]) + 12))
    if os.environ.get("UPDATE_PICTURES"):
        taken.quantize(256).save(REPOSITORY / "docs" / picture.name, optimize=True)
    with Image.open(REPOSITORY / "docs" / picture.name) as committed:
        assert committed.width == PICTURE_WIDTH
        assert abs(taken.height - committed.height) < 0.1 * taken.height
        mean = np.asarray(committed.convert("L")).mean()
    assert (mean < 100) if scheme == "dark" else (mean > 200)


def test_a_study_named_like_a_script_is_shown_and_not_run(rendered, tmp_path):
    page = rendered / "results" / "report.html"
    found = evaluate(tmp_path, page, "return {text: document.body.textContent.includes('<script>alert(2)')}")
    assert found["text"]
