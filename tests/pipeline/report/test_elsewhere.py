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
    assert f'<td class="nowrap">{memory.total / 2**20:,.0f} (peak {memory.peak / 2**20:,.0f})</td>' in html
    assert "8 of 8" in html
    labels = [unescape(label) for label in re.findall(r'<svg [^>]*?aria-label="([^"]*)"', html)]
    assert len(labels) == 2
    assert not [label for label in labels if "float32_default" in label]  # in words
    assert all(f"{read_target(path.stem, path.parent).title}: at B from " in labels[1] for path in MADE)
    assert "NVIDIA V100, 16 GB: at B from 0.512 GiB in mixed_float16 to 0.868 GiB in strict float32, at 2B" in labels[1]
    assert "all in float32</span>" in html  # as a V100 computes bfloat16
    assert "resizing, forward" in html


def test_a_refusal_is_shown_with_the_numbers_in_words():
    refused = program("float32_default", 0, memory=None, refusal={"words": "no such kernel", "for_memory": False})
    found = hardware_elsewhere([made_up(program("float32", 1), refused)])
    assert found["refusals"] == {"t, b in float32 as the device multiplies it by default": "no such kernel"}
    assert [row[1] for row in found["matrices"]["b"]["chart"].rows] == [
        "strict float32",
        "float32 as the device multiplies it by default",
    ]
