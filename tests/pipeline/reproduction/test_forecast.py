"""How long a study still takes, against what it then took."""

import json
from contextlib import chdir

import numpy as np
import pytest
from conftest import REPOSITORY

from pipeline.reproduction.study_progress import SECONDS_BEFORE_TRAINING, SECONDS_OF_AN_ITEM, Forecast, left_in_words
from pipeline.study.schema import RunKey, load_study
from stages.repro import seconds_elsewhere

# Means like those of the quick study on two cores. Of its 18 items a seed it leaves four out.
SECONDS = {("mnist", f"variant_{number}"): 9.0 + number / 3 for number in range(9)}
SECONDS |= {("cifar", f"variant_{number}"): 22.0 + 5 * number for number in range(5)}
LEFT_OUT = {("cifar", f"variant_{number}"): 1.5 for number in range(5, 9)}
SEEDS = (0, 1, 2)
RUNS = [RunKey(benchmark, variant, seed) for seed in SEEDS for benchmark, variant in SECONDS]
ITEMS = [RunKey(benchmark, variant, seed) for seed in SEEDS for benchmark, variant in SECONDS | LEFT_OUT]
A_SEED = sum((SECONDS | LEFT_OUT).values())


def drawn(noise: int) -> dict[RunKey, float]:
    """Seconds of every item: a start and four epochs, of which one in ten takes up to twice as long."""
    rng = np.random.default_rng(noise)
    slow = np.where(rng.random((len(ITEMS), 5)) < 0.1, rng.uniform(1, 2, (len(ITEMS), 5)), 1)
    shares = slow * rng.normal(1, 0.1, slow.shape) / 5
    return {key: (SECONDS | LEFT_OUT)[key[:2]] * share for key, share in zip(ITEMS, shares.sum(axis=1), strict=True)}


@pytest.mark.parametrize("noise", range(50))
def test_from_half_of_the_study_on_it_is_within_a_third(noise):
    took, forecast = drawn(noise), Forecast(ITEMS, RUNS, {})
    after = 25.0
    whole, past = sum(took.values()) + after, 0.0
    said = []
    for key in ITEMS:
        said.append((forecast.seconds_left(key, took[key] / 2), whole - past - took[key] / 2))  # in the midst of it
        past += took[key]
        forecast.finish(key, took[key])
        said.append((forecast.seconds_left(), whole - past))
    assert [forecast is None for forecast, _ in said] == [index < 2 * len(SECONDS) - 1 for index in range(len(said))]
    late = [(max(forecast, 60), max(left, 60)) for forecast, left in said if left <= whole / 2]  # then: "less than …"
    assert all(abs(forecast / left - 1) < 1 / 3 for forecast, left in late)
    assert said[-1][0] == forecast.seconds_after_training


def first_seed_took(forecast: Forecast, seconds: float | None = None) -> Forecast:
    """The forecast after the items of the first seed, which took so long each, or what is usual."""
    for key in ITEMS[:18]:
        forecast.finish(key, seconds or (SECONDS | LEFT_OUT)[key[:2]])
    return forecast


def test_runs_that_are_there_cost_nothing_and_tell_what_those_of_another_seed_take():
    earlier = {key: SECONDS[key[:2]] for key in RUNS if key.seed < 2}
    forecast = Forecast(ITEMS, RUNS, earlier)
    for key in ITEMS[:18]:
        forecast.skip(key)
    items_left = len(SECONDS) + 2 * len(LEFT_OUT)
    last_seed = sum(SECONDS.values()) + items_left * SECONDS_OF_AN_ITEM
    assert forecast.seconds_left() == pytest.approx(last_seed + forecast.seconds_after_training)


def test_once_one_of_them_is_made_anew_all_are_expected_to_be():
    forecast = first_seed_took(Forecast(ITEMS, RUNS, {key: 1.0 for key in RUNS if key.seed < 2}))
    assert forecast.seconds_left() == pytest.approx(2 * A_SEED + 2.5 * 9)


def test_seeds_that_a_variant_leaves_out_take_no_run():
    runs = [key for key in RUNS if key.benchmark == "mnist" or key.seed == 0]
    forecast = first_seed_took(Forecast(ITEMS, runs, {}))
    last_seeds = 2 * sum(seconds for (name, _), seconds in SECONDS.items() if name == "mnist") + 2 * 9 * 1.5
    assert forecast.seconds_left() == pytest.approx(last_seeds + forecast.seconds_after_training)


def test_a_run_that_takes_longer_than_expected_leaves_the_others():
    forecast = first_seed_took(Forecast(ITEMS, RUNS, {}), 10.0)
    assert forecast.seconds_left(ITEMS[18], 500) == 35 * 10 + 2.5 * 10


def test_what_follows_a_study_of_long_runs_takes_no_longer_than_their_start():
    forecast = Forecast(ITEMS, RUNS, {})
    for key in ITEMS:
        forecast.finish(key, 4000.0)
    assert forecast.seconds_left() == 60
    assert [left_in_words(seconds) for seconds in (59, 60)] == ["less than a minute left", "about 60 s left"]


def test_the_whole_is_told_before_by_the_runs_that_are_there_or_by_another_machine():
    took = {key: SECONDS[key[:2]] for key in RUNS}
    budgets = {"speed@mnist": 1000.0}
    items = len(ITEMS) * SECONDS_OF_AN_ITEM
    shortest = 9.0 + SECONDS_OF_AN_ITEM
    seconds = SECONDS_BEFORE_TRAINING + 3 * sum(SECONDS.values()) + items + 1000 + 2.5 * shortest
    assert Forecast(ITEMS, RUNS, {}, took, budgets).in_words() == (
        f"42 runs to make: about {seconds / 60:.0f} min in all, as a machine of this kind took"
    )
    of_a_seed = {key: seconds for key, seconds in took.items() if key.seed == 0}
    seconds = 2 * sum(SECONDS.values()) + items - len(of_a_seed) * SECONDS_OF_AN_ITEM + 1000 + 2.5 * shortest
    assert Forecast(ITEMS, RUNS, of_a_seed, {}, budgets).in_words() == (
        f"28 runs to make, 14 are there: about {seconds / 60:.0f} min in all, by what those took"
    )


def test_nothing_is_told_of_the_time_where_nothing_is_known():
    assert Forecast(ITEMS, RUNS, {}).in_words() == "42 runs to make"
    assert Forecast(ITEMS, RUNS, dict.fromkeys(RUNS, 1.0)).in_words().startswith("every run is there")


def test_another_machine_is_one_of_the_same_device_that_made_the_same_study():
    (folder,) = (REPOSITORY / "docs" / "reports").glob("quick-*")
    study, device = load_study(folder / "params.yaml"), json.loads((folder / "status.json").read_text())["device"]
    with chdir(REPOSITORY):
        found = seconds_elsewhere(study, device)
        assert found.keys() == set(study.runs())
        assert all(seconds > 0 for seconds in found.values())
        assert seconds_elsewhere(study, "another CPU") == {}
        assert seconds_elsewhere(study.model_copy(update={"benchmarks": {}}), device) == {}
