"""A page in a headless Chromium: what a script finds in it, and what overlaps."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import axe_core_python

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
    """Run `script`, the body of an async function, in a copy of `page` that allows it, and return its result."""
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


# What axe-core objects to, with everything unfolded.
OBJECTIONS = """
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const {violations} = await axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]});
    return {dark, violations: violations.map(({id, nodes}) => [id, nodes.length, nodes[0].html.slice(0, 200)])};
"""
DARK = "--blink-settings=preferredColorScheme=0"
WIDTHS = [1280, 1100, 768, 420]
# Shows `page` in a frame of `width` pixels, because a headless Chromium's window is never narrower than 500.
FRAME = """
    const page = document.documentElement.cloneNode(true);
    page.querySelectorAll("body > script").forEach((script) => script.remove());
    const frame = document.createElement("iframe");
    frame.style = `position: absolute; left: 0; top: 0; width: ${width}px; height: 2000px; border: 0`;
    frame.srcdoc = "<!doctype html>" + page.outerHTML;
    document.body.replaceChildren(frame);
    await new Promise((done) => { frame.onload = done; });
    const inside = frame.contentDocument;
"""
# Boxes are those of the letters of every line of text, and of what has a border of its own around its text. Letters
# leave a part of their line empty: only what lies deeper in each other than that is an overlap. What a scroller hides
# lies over nothing outside of it.
LAYOUT = """
    const view = frame.contentWindow;
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


def layout(folder: Path, page: Path) -> dict[int, dict]:
    """By width of the window: that of the page, text that overlaps other text, and what is wider than the page.

    Every `<details>` is open.
    """
    prelude = f"const widths = {WIDTHS}, [width] = widths;"
    found = evaluate(folder, page, prelude + FRAME + LAYOUT, "--window-size=1300,2000")
    return {int(width): measured for width, measured in found.items()}
