"""How long a study still takes, against what it then took."""

import numpy as np
import pytest

from pipeline.reproduction.study_progress import Forecast, left_in_words
from pipeline.study.schema import RunKey

# Means like those of the quick study on two cores.
SECONDS = {("mnist", f"variant_{number}"): 9.0 + number / 3 for number in range(9)}
SECONDS |= {("cifar", f"variant_{number}"): 22.0 + 5 * number for number in range(5)}
RUNS = [RunKey(benchmark, variant, seed) for seed in (0, 1, 2) for benchmark, variant in SECONDS]
A_SEED = sum(SECONDS.values())


def drawn(noise: int) -> dict[RunKey, float]:
    """Seconds of every run: a start and four epochs, of which one in ten takes up to twice as long."""
    rng = np.random.default_rng(noise)
    slow = np.where(rng.random((len(RUNS), 5)) < 0.1, rng.uniform(1, 2, (len(RUNS), 5)), 1)
    shares = slow * rng.normal(1, 0.1, slow.shape) / 5
    return {key: SECONDS[key[:2]] * share for key, share in zip(RUNS, shares.sum(axis=1), strict=True)}


@pytest.mark.parametrize("noise", range(50))
def test_from_half_of_the_study_on_it_is_within_a_third(noise):
    took, forecast = drawn(noise), Forecast(RUNS, {}, {"speed@mnist": 25.0})
    whole, past = sum(took.values()) + 25.0, 0.0
    said = []
    for key in RUNS:
        said.append((forecast.seconds_left(key, took[key] / 2), whole - past - took[key] / 2))  # in the midst of it
        past += took[key]
        forecast.finish(key, took[key])
        said.append((forecast.seconds_left(), whole - past))
    assert [forecast is None for forecast, _ in said] == [index < 2 * len(SECONDS) - 1 for index in range(len(said))]
    late = [(max(forecast, 60), max(left, 60)) for forecast, left in said if left <= whole / 2]  # then: "less than …"
    assert all(abs(forecast / left - 1) < 1 / 3 for forecast, left in late)
    forecast.finish_stage("speed@mnist")
    assert forecast.seconds_left() == 0.0


def test_runs_that_are_there_cost_nothing_and_tell_what_those_of_another_seed_take():
    forecast = Forecast(RUNS, {key: SECONDS[key[:2]] for key in RUNS if key.seed < 2}, {})
    assert forecast.seconds_left() == pytest.approx(A_SEED)
    assert forecast.in_words() == "14 runs to make, 28 runs are there: about 4 min in all, by what those took"


def test_once_one_of_them_is_made_anew_all_are_expected_to_be():
    forecast = Forecast(RUNS, {key: 1.0 for key in RUNS if key.seed < 2}, {})
    for key in RUNS[:14]:
        forecast.finish(key, SECONDS[key[:2]])
    assert forecast.seconds_left() == pytest.approx(2 * A_SEED)


def test_a_run_that_takes_longer_than_expected_leaves_the_others():
    forecast = Forecast(RUNS, {}, {})
    for key in RUNS[:14]:
        forecast.finish(key, 10.0)
    assert forecast.seconds_left(RUNS[14], 500) == 27 * 10
    forecast.finish(RUNS[14], 2.0)
    assert forecast.seconds_left(RUNS[14], 2) == 26 * 10 + 6  # of a run that has just ended nothing is left


def test_nothing_is_told_of_the_time_where_nothing_is_known():
    assert Forecast(RUNS, {}, {}).in_words() == "42 runs to make"
    assert Forecast(RUNS, {RUNS[0]: 1.0}, {}).in_words() == "41 runs to make, 1 run is there"
    assert Forecast(RUNS[:1], {}, {}).in_words() == "1 run to make"
    assert Forecast(RUNS, dict.fromkeys(RUNS, 1.0), {}).in_words().startswith("every run is there")
    assert [left_in_words(seconds) for seconds in (59, 60)] == ["less than a minute left", "about 60 s left"]
