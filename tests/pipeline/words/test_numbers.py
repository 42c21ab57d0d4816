import pytest

from pipeline.words.numbers import (
    decimals,
    digits,
    duration,
    interval,
    mean_and_spread,
    number,
    percent,
    percents,
    ranges,
    rare,
    span,
)


def test_numbers_are_formatted_and_words_stay_unchanged():
    values = (65504.0, "1e-10", -0.5, 0.001, 4096, "inf", "dynamic", None, True)
    told = ("65,504", "1.00 × 10⁻¹⁰", "−0.5", "0.001", "4,096", "infinite", "dynamic", "not set", "on")
    assert tuple(map(number, values)) == told


def test_an_interval_has_a_true_minus_sign_or_is_said_to_be_missing():
    assert interval({"low": -0.4, "high": 0.16}, "+.2f") == "[−0.40, +0.16]"
    assert interval({"low": 0.002, "high": 0.5}, ".1f", 100) == "[0.2, 50.0]"
    assert interval({"low": None, "high": None}, ".2f") == "(no interval)"
    assert interval({"low": -0.0, "high": 0.0}, ".3g") == "[0, 0]"


def test_a_value_that_rounds_to_zero_has_no_sign():
    assert interval({"low": -0.1, "high": 0.001}, "+.2f") == "[−0.10, 0.00]"
    assert [decimals(value, ".1f") for value in (-0.04, -0.06, -10.0)] == ["0.0", "−0.1", "−10.0"]
    assert [number(-0.0), decimals(-2e-5, ".1g")] == ["0", "−2e−05"]


def test_percentages_are_formatted_consistently():
    assert [percent(0.62), percent(0.0523, ".1f")] == ["62 %", "5.2 %"]
    assert [percents([0.7, 0.9]), percents([0.5])] == ["70.0 to 90.0 %", "50.0 %"]
    assert [rare(share) for share in (0.0, 1e-6, 0.0062)] == ["none", "less than 0.001 %", "0.62 %"]


def test_consecutive_numbers_are_written_as_ranges():
    told = [ranges(some) for some in (range(30), [0, 1], [0, 2, 5, 6, 7], [4])]
    assert told == ["0 to 29", "0 and 1", "0, 2 and 5 to 7", "4"]


def test_numbers_keep_three_significant_digits_and_all_whole_digits():
    assert [digits(value) for value in (0.12345, 12.345, 1234.5)] == ["0.123", "12.3", "1,234"]


def test_values_of_several_seeds_are_summarised():
    assert [mean_and_spread(values, 1, 100) for values in ([], [0.5], [0.5, 0.7])] == ["–", "50.0", "60.0 ± 14.1"]
    assert [span(values) for values in ([2048, 1024], [3, 3])] == ["1,024 to 2,048", "3"]


@pytest.mark.parametrize(("seconds", "words"), [(3, "3 s"), (88, "90 s"), (540, "9 min"), (9000, "2.5 h")])
def test_a_duration_is_rounded_to_a_readable_unit(seconds, words):
    assert duration(seconds) == words
