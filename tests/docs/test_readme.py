"""Every figure of the README's first screen comes from the raw records of the H200."""

import math
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import REPOSITORY

from pipeline.comparison.finished_runs import read_record, read_speeds
from pipeline.statistics.equivalence import Contrast, paired
from pipeline.statistics.speeds import Speeds
from pipeline.study.schema import RunKey, load_study

README = " ".join((REPOSITORY / "README.md").read_text(encoding="utf-8").split())
BATCH = 8192
NAMES = {"float32": "strict float32", "tf32": "TF32"}
ROWS = ["float32", "tf32", "mixed_float16", "mixed_bfloat16", "float8"]
DOUBLED = ["float32_2x", "mixed_float16_2x", "mixed_bfloat16_2x"]


@pytest.fixture(scope="module")
def h200(tmp_path_factory) -> Path:
    """The records of the H200's study."""
    folder = tmp_path_factory.mktemp("h200")
    with zipfile.ZipFile(REPOSITORY / "docs/reports/h200/study.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def speeds(h200) -> Speeds:
    return read_speeds(load_study(h200 / "params.yaml"), "mnist_dense", h200)


def row_of(name: str) -> list[str]:
    """Return the cells of a variant's row."""
    policy, batch = name.removesuffix("_2x"), BATCH * (1 + name.endswith("_2x"))
    found = re.search(
        rf"\| {NAMES.get(policy, policy)} \| {batch:,} \| ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", README
    )
    assert found, name
    return list(found.groups())


def times(ratio: float | None) -> str:
    assert ratio
    return "1×" if ratio == 1 else f"{ratio:.2f}×" if ratio < 1 else f"{ratio:.1f}×"


@pytest.mark.parametrize("name", [*ROWS, *DOUBLED])
def test_the_table_has_the_speeds_and_the_memory_of_the_turns(speeds, name):
    is_doubled = name in DOUBLED
    milliseconds = 1000 * speeds.epoch_seconds(name) / speeds.num_images * BATCH
    beside_tf32 = "not run" if is_doubled else times(speeds.speedup("tf32", name).ratio)
    if name in ROWS[2:]:
        beside_tf32 = f"about {beside_tf32}"
    beside_float32 = times(speeds.speedup("float32_2x" if is_doubled else "float32", name).ratio)
    peak = max(block.peak_memory_bytes for block in speeds.blocks if block.variant == name) / 2**20
    assert row_of(name) == [f"{milliseconds:.1f}", beside_tf32, beside_float32, f"{peak:,.0f} MiB"]


def test_the_words_beside_it_have_the_ratios_and_the_launches(speeds):
    strict, tf32 = (times(speeds.speedup(name, "mixed_float16").ratio) for name in ("float32", "tf32"))
    assert f"trained {strict} as fast in 16 bits as in strict float32" in README
    assert f"the gain was about {tf32}." in README
    effect = np.exp(
        speeds.training[:, speeds.variants.index("tf32")] - speeds.training[:, speeds.variants.index("mixed_float16")]
    )
    one, other = map(times, effect)
    assert len(speeds.num_turns) == 2
    assert f"`mixed_float16` is {one} as fast as TF32 in one launch and {other} in the other;" in README
    assert speeds.speedup("float8", "mixed_float16").ratio > 1
    assert "float8 was slower than 16 bits" in README


def scores(h200: Path, benchmark: str, variant: str) -> dict[int, float]:
    """Return the test accuracies in percent by seed."""
    keys = [RunKey(benchmark, variant, int(path.name[5:])) for path in h200.glob(f"runs/{benchmark}/{variant}/seed-*")]
    return {key.seed: 100 * read_record(key, h200).scores.test_accuracy for key in keys}


def lost(h200: Path, variant: str) -> Contrast:
    baseline, candidate = (scores(h200, "cifar100_resnet9", name) for name in ("float32", variant))
    return paired([candidate[seed] - baseline[seed] for seed in candidate])


def test_the_sentence_on_accuracy_follows_from_the_runs(h200):
    baseline = scores(h200, "cifar100_resnet9", "float32")
    assert f"averages {np.mean(list(baseline.values())):.0f} % on CIFAR-100 over five seeds" in README
    assert len(baseline) == 5
    for name in ("tf32", "mixed_float16", "mixed_bfloat16"):
        found = lost(h200, name)
        low, high = found.interval(0.95)
        assert high > 1  # so ±1 stays open
        assert found.mean > 0 or low < 0 < high  # no loss was detected
    float32, mixed = lost(h200, "float32_2x"), lost(h200, "mixed_float16_2x")
    assert float32.interval(0.95).high < 0
    assert mixed.interval(0.95).high < 0
    words = (
        f"float32 scored {-float32.mean:.1f} and `mixed_float16` {-mixed.mean:.1f} points below float32 at the first"
    )
    assert words in README


def test_the_sentence_on_memory_follows_from_the_runs(h200):
    peaks = {
        name: read_record(RunKey("cifar100_efficientnet_b0", name, 0), h200).memory.peak_bytes / 2**20
        for name in ("float32", "mixed_float16")
    }
    assert f"{peaks['float32']:,.0f} MiB in float32 and {peaks['mixed_float16']:,.0f} MiB" in README
    assert math.isclose(peaks["mixed_float16"] / peaks["float32"], 0.5, abs_tol=0.05)
