"""Every figure of the README's table comes from the raw records of the H200."""

import re
import zipfile

import numpy as np
import pytest
from conftest import REPOSITORY

from pipeline.comparison.finished_runs import read_speeds
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import load_study

README = " ".join((REPOSITORY / "README.md").read_text(encoding="utf-8").split())
BATCH = 8192
NAMES = {"float32": "strict float32", "tf32": "TF32"}
ROWS = ["float32", "tf32", "mixed_float16", "mixed_bfloat16", "float8"]


@pytest.fixture(scope="module")
def speeds(tmp_path_factory) -> Speeds:
    folder = tmp_path_factory.mktemp("h200")
    with zipfile.ZipFile(REPOSITORY / "docs/reports/h200/study.zip") as archive:
        archive.extractall(folder)
    return read_speeds(load_study(folder / "params.yaml"), "mnist_dense", folder)


def row_of(name: str) -> list[str]:
    """Return the cells of a variant's row."""
    found = re.search(rf"\| {NAMES.get(name, name)} \| ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", README)
    assert found, name
    return list(found.groups())


def times(speeds: Speeds, baseline: str, name: str) -> str:
    """Write the speed of a variant in each launch, slowest first."""
    effects, at = speeds.training_effects, speeds.variants.index
    ratios = sorted(np.exp(effects[:, at(baseline)] - effects[:, at(name)]))
    if name == baseline:
        return "1×"
    return ", ".join(f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}" for ratio in ratios) + "×"


@pytest.mark.parametrize("name", ROWS)
def test_the_readme_table_shows_the_measured_speeds_and_memory(speeds, name):
    milliseconds = 1000 * speeds.epoch_seconds(name) / speeds.num_images * BATCH
    beside_tf32, beside_float32 = (times(speeds, baseline, name) for baseline in ("tf32", "float32"))
    peak = max(block.peak_memory_bytes for block in speeds.blocks if block.variant == name) / 2**20
    assert row_of(name) == [f"{milliseconds:.1f}", beside_tf32, beside_float32, f"{peak:,.0f} MiB"]
