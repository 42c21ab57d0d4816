"""The site in a real browser: without scripts, accessible, at 420 pixels, on A4."""

import re
import shutil
from pathlib import Path

import pytest
from browser.chromium import DARK, OBJECTIONS, chromium, evaluate, layout
from conftest import REPOSITORY

from pipeline.claims.evidence import read_compiled_evidence
from pipeline.claims.schema import load_claims
from pipeline.publication.published import FILES, read_published
from pipeline.publication.publishing import publish
from pipeline.publication.site import build_site, compiled_columns
from pipeline.report.rendering import execute, render
from pipeline.report.results import load_results
from pipeline.report.status import status, write_status


@pytest.fixture(scope="module")
def site(written_out, tmp_path_factory) -> Path:
    """The site of two studies with every claim of the project, and of what compilers say of other hardware."""
    root = Path(shutil.copytree(written_out, tmp_path_factory.mktemp("two") / "study", symlinks=True))
    (root / "results/report.html").write_text(render(execute(root)))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(root)
        write_status(status(load_results()))
    publish(load_results(root), root, root / "results/crate.zip")
    folders = [root / "reports" / name for name in ("a-machine", "b-machine")]
    for folder in folders:
        folder.mkdir(parents=True)
        for name, path in FILES.items():
            shutil.copyfile(root / path, folder / name)
    claims = load_claims(root / "claims.yaml")
    compiled = compiled_columns(*read_compiled_evidence(REPOSITORY), claims)
    published = [read_published(folder) for folder in folders]
    build_site(published, root / "site", "https://example.org", claims, compiled)
    return root / "site"


PAGES = ["index.html", "claims/s2-less-memory-in-training.html", "compiled/v100-16gb.html"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_needs_no_script_and_asks_for_nothing(site, tmp_path, name):
    done = chromium(tmp_path, site / name, "--dump-dom", "--blink-settings=scriptEnabled=false")
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<script" not in done.stdout
    asked = evaluate(tmp_path, site / name, "return performance.getEntriesByType('resource').map((e) => e.name)")
    assert asked == []


@pytest.mark.parametrize("scheme", [[], [DARK]], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_core_finds_nothing_to_object_to(site, tmp_path, name, scheme):
    for size in ("--window-size=1280,1500", "--window-size=500,1500"):  # as a table and as cards
        found = evaluate(tmp_path, site / name, OBJECTIONS, size, *scheme)
        assert found == {"dark": bool(scheme), "violations": []}


@pytest.mark.parametrize("name", PAGES)
def test_no_text_lies_over_another_at_any_width(site, tmp_path, name):
    for width, found in layout(tmp_path, site / name).items():
        assert (found["overlaps"], found["wide"]) == ([], []), width
        assert found["page"] <= width


def test_filters_work_without_a_script(site, tmp_path):
    """The rules of the style alone hide rows: a choice is made here, and nothing listens to it."""
    script = """
        const shown = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.offsetParent).length;
        const rows = ".verdicts tr[data-evidence]", counts = {all: shown(rows)};
        const choose = (id) => { document.getElementById(id).checked = true; };
        choose("source-1"); counts.source = shown(rows); choose("source-all");
        choose("evidence-counted"); counts.counted = shown(rows);
        counts.others = shown(".verdicts tr[data-evidence]:not([data-evidence=counted])"); choose("evidence-all");
        return {...counts, again: shown(rows)};
    """
    found = evaluate(tmp_path, site / "index.html", script, "--window-size=1280,1500")
    assert found["again"] == found["all"] > 40
    assert 0 < found["source"] < found["all"]
    assert 0 < found["counted"] < found["all"]
    assert found["others"] == 0


def test_the_answer_is_on_the_first_screen(site, tmp_path):
    """The tables of both benchmarks end above 1,000 px at 1,280 and above 1,800 at 420."""
    script = """
        const frame = document.createElement("iframe");
        frame.style = `position: absolute; left: 0; top: 0; height: 2000px; border: 0`;
        frame.srcdoc = "<!doctype html>" + document.documentElement.outerHTML.replace(/<script[^]*?<.script>/g, "");
        document.body.append(frame);
        await new Promise((done) => { frame.onload = done; });
        return [1280, 420].map((width) => {
            frame.style.width = `${width}px`;
            const tables = [...frame.contentDocument.querySelectorAll(".results")];
            return [tables.length, tables.at(-1).getBoundingClientRect().bottom];
        });
    """
    wide, narrow = evaluate(tmp_path, site / "index.html", script, "--window-size=1300,2000")
    assert (wide[0], narrow[0]) == (2, 2)
    assert wide[1] < 1000
    assert narrow[1] < 1800


def test_all_of_a_verdict_is_seen_at_one_glance(site, tmp_path):
    """Nothing of the table is hidden, and a verdict is told by its sign and its colour."""
    script = """
        const scroller = document.querySelector(".scroll:has(.verdicts)");
        const look = (verdict) => {
            const badge = document.querySelector(`.verdicts .verdict.${verdict}`);
            return [getComputedStyle(badge).color, getComputedStyle(badge, "::before").content];
        };
        return {hidden: scroller.scrollWidth - scroller.clientWidth,
            looks: ["reproduced", "not-found", "inconclusive", "not-testable-here"].map(look)};
    """
    found = evaluate(tmp_path, site / "index.html", script, "--window-size=1280,1500")
    assert found["hidden"] <= 0
    colours, signs = zip(*found["looks"], strict=True)
    assert len(set(colours)) == len(set(signs)) == 4


def test_every_claim_leads_to_its_place_in_the_report(site):
    pages = re.findall(r'href="(claims/[^"]+)"', (site / "index.html").read_text())
    linked = {
        place
        for page in pages
        for place in re.findall(r'href="\.\./a-machine/report\.html#([^"]+)"', (site / page).read_text())
    }
    assert linked == set(re.findall(r'\bid="(claim-[^"]+)"', (site / "a-machine/report.html").read_text()))
    assert len(linked) > 40


def test_it_prints_on_a4(site, tmp_path):
    for number, name in enumerate([*PAGES, "a-machine/report.html"]):
        paper = tmp_path / f"{number}.pdf"
        chromium(tmp_path, site / name, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
        text = paper.read_bytes()
        boxes = {tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox ?\[([\d. ]+)\]", text)}
        assert boxes == {(0.0, 0.0, 595.0, 842.0)} or boxes == {(0.0, 0.0, 594.95996, 841.91998)}, boxes
        assert len(re.findall(rb"/Type ?/Page\b", text)) < 60


def test_a_chart_tells_its_finding_to_who_cannot_see_it(site):
    told = re.findall(r'<svg [^>]*?aria-label="([^"]*)"', (site / "a-machine/report.html").read_text())
    assert told
    assert all(re.search(r": .*(\d|nothing was measured|unknown)", text) for text in told), told
