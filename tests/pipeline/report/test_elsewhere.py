"""The part of the report on hardware that is not here."""

import re
import shutil
from html import unescape
from pathlib import Path

from conftest import REPOSITORY
from programs import made_up, program

from pipeline.compiled.schema import COMPILED_FILES, read_target
from pipeline.report.elsewhere import hardware_elsewhere
from pipeline.report.reporting import parts
from pipeline.report.results import load_results

MADE = sorted((REPOSITORY / COMPILED_FILES).glob("*.json"))


def test_the_report_shows_every_target_and_where_nothing_is_judged(rendered, tmp_path):
    study = Path(shutil.copytree(rendered, tmp_path / "study", symlinks=True))
    part = parts(load_results(study))
    assert "Nothing was compiled" in part("elsewhere")
    shutil.copytree(REPOSITORY / COMPILED_FILES, study / COMPILED_FILES)
    html = parts(load_results(study))("elsewhere")
    for path in MADE:
        assert read_target(path.stem, path.parent).title in html
    for words in ("not yet validated on a device", "that is another program"):
        assert words in html
    h100 = read_target("h100", REPOSITORY / COMPILED_FILES)
    memory = h100.find("mnist_dense", "mixed_float16", 8192).memory
    assert f"<td>{memory.total / 2**20:,.0f}</td>" in html
    assert "8 of 8 and 248 of 250 have all operands in 16 bits" in html
    (label,) = [unescape(label) for label in re.findall(r'<svg [^>]*?aria-label="([^"]*)"', html)]
    assert all(f"{read_target(path.stem, path.parent).title} 0." in label for path in MADE)
    assert "NVIDIA V100, 16 GB 0.59×, 0.51×" in label


def test_a_step_that_was_refused_says_so():
    refused = program("mixed_float16", 0, memory=None, refusal={"words": "no such kernel", "for_memory": False})
    (row,) = hardware_elsewhere([made_up(program("float32", 1), refused)])["rows"]
    assert row["cells"][0]["mebibytes"][1:] == ["refused", "–", "–"]
    assert row["cells"][0]["ratio"] is None
