import pytest

from pipeline.numbers import digits, duration, estimate, interval, mean_and_spread, number, significant, span


def test_numbers_are_read_and_words_stay():
    values = (65504.0, "1e-10", -0.5, 0.001, 4096, "inf", "dynamic", None, True)
    told = ("65,504", "1.00 × 10⁻¹⁰", "−0.5", "0.001", "4,096", "infinite", "dynamic", "not set", "on")
    assert tuple(map(number, values)) == told


def test_an_estimate_has_a_minus_sign_and_its_interval_or_says_that_it_has_none():
    assert estimate(-0.123, -0.4, 0.16, "+.2f", " pp") == "−0.12 pp [−0.40, +0.16]"
    assert estimate(1.5, None, None, ".2f", "×") == "1.50× (no interval)"
    assert estimate(None, None, None, ".2f", "×") == "unknown"
    assert interval(-0.0, 0.0, ".3g") == "[0, 0]"


def test_digits_are_as_many_as_say_something():
    assert [digits(value) for value in (0.12345, 12.345, 1234.5)] == ["0.123", "12.3", "1,234"]
    assert [significant(value, 2) for value in (None, -0.123)] == ["–", "−0.12"]


def test_values_of_several_seeds_are_told_in_short():
    assert [mean_and_spread(values, 1, 100) for values in ([], [0.5], [0.5, 0.7])] == ["–", "50.0", "60.0 ± 14.1"]
    assert [span(values) for values in ([2048, 1024], [3, 3])] == ["1,024 to 2,048", "3"]


@pytest.mark.parametrize(("seconds", "words"), [(3, "3 s"), (88, "90 s"), (540, "9 min"), (9000, "2.5 h")])
def test_a_duration_is_said_as_people_say_it(seconds, words):
    assert duration(seconds) == words
