"""The figures that a long study fills say what is to be seen in them, and stand where there is something to see."""

import html
import re
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import small_study

from pipeline.comparison.agreement import differing
from pipeline.comparison.schema import Agreement
from pipeline.report.long_runs import long_run_charts

VARIANTS = {
    "float32": {"policy": "float32", "batch_multiplier": 1},
    "mixed": {"policy": "mixed_float16", "batch_multiplier": 1},
    "mixed_2x": {"policy": "mixed_float16", "batch_multiplier": 2},
}
# What a run of three epochs of ten steps says of its scale and of all steps skipped so far.
STEADY = [(32768.0, 0), (32768.0, 0), (32768.0, 0)]
MOVING = {
    ("mixed", 0): [(8192.0, 2), (8192.0, 2), (16384.0, 2)],
    ("mixed", 1): [(4096.0, 3), (8192.0, 3), (4096.0, 4)],
    ("mixed_2x", 0): STEADY,
    ("mixed_2x", 1): STEADY,
}


def results(scales=None, agreements=()) -> SimpleNamespace:
    study = small_study(seeds=[0, 1], variants=VARIANTS)
    runs = [
        {"benchmark": key.benchmark, "variant": key.variant, "seed": key.seed}
        | {"loss_scale": "none" if key.variant == "float32" else "dynamic", "steps_per_epoch": 10, "num_epochs": 3}
        | {"initial_loss_scale": None if key.variant == "float32" else 32768.0}
        for key in study.runs()
    ]
    epochs = [
        {"benchmark": "wide", "variant": variant, "seed": seed, "epoch": epoch, "loss_scale": scale}
        | {"skipped_steps": skipped}
        for (variant, seed), rows in (scales or {}).items()
        for epoch, (scale, skipped) in enumerate(rows, start=1)
    ]
    return SimpleNamespace(study=study, runs=runs, epochs=epochs, agreements=list(agreements))


def told(chart) -> str:
    return html.unescape(re.search(r'aria-label="([^"]*)"', chart.svg)[1])


def test_the_loss_scale_and_the_skipped_steps_are_told():
    charts = long_run_charts(results(MOVING), "wide")
    assert charts.keys() == {"loss_scale"}
    assert told(charts["loss_scale"]) == (
        "Dynamic loss scale and skipped steps by epoch, wide: "
        "mixed skips 2 to 4 of 30 steps a run, 2 to 3 of them in the first epoch, "
        "and its scale starts at 32,768 and ends at 4,096 to 16,384; "
        "mixed_2x skips 0 of 30 steps a run, 0 of them in the first epoch, "
        "and its scale starts at 32,768 and ends at 32,768"
    )
    assert charts["loss_scale"].rows[2] == ["mixed", 1, "32,768", "4,096 (3)", "8,192 (0)", "4,096 (1)"]


def test_a_scale_that_never_moves_makes_no_figure():
    assert long_run_charts(results(dict.fromkeys(MOVING, STEADY)), "wide") == {}


def agreement(num_classes: int) -> Agreement:
    """Two examples a class. The baseline's two seeds differ in the first of every class.

    The candidate differs from it at seed 0 alone: in the first of every second class, and in both of the last.
    """
    labels = np.repeat(np.arange(num_classes), 2)
    other = np.tile([1, 0], num_classes)
    theirs = np.stack([labels, labels + other])
    changed = other * (labels % 2)
    changed[-2:] = 1
    found = differing(theirs, np.stack([labels + changed, theirs[1]]), labels)
    return Agreement(benchmark="wide", baseline="float32", candidate="mixed", seeds=[0, 1], **found)


def test_predictions_beside_those_of_another_seed_are_told():
    """Of 40 examples, 20 differ between seeds; 11 between variants at seed 0 and none at seed 1."""
    charts = long_run_charts(results(agreements=[agreement(20)]), "wide")
    assert charts.keys() == {"examples", "classes"}
    assert told(charts["examples"]) == (
        "Test examples that are predicted otherwise, wide: two seeds of float32 differ in 50.0%, from 50.0% to 50.0%; "
        "mixed beside float32 at the same seed in 13.8%, 0.28 times as many (no interval)"
    )
    assert charts["examples"].rows[0] == ["mixed", "0.275", "–", "–", "13.8", "0", "27.5"]
    assert told(charts["classes"]) == (
        "Test examples that are predicted otherwise, by class, wide: mixed changes fewer predictions than another seed "
        "in 19 of 20 classes"
    )
    assert charts["classes"].rows[:2] == [[0, "0", "50"], [1, "25", "50"]]


@pytest.mark.parametrize("num_classes", [1, 19])
def test_few_classes_make_no_figure(num_classes):
    charts = long_run_charts(results(agreements=[agreement(num_classes)]), "wide")
    assert charts.keys() == {"examples"}


def test_a_pair_of_another_baseline_is_in_no_figure():
    other = agreement(20).model_copy(update={"baseline": "mixed", "candidate": "mixed_2x"})
    assert long_run_charts(results(agreements=[other]), "wide") == {}
