import pytest

from stages.ceilings import HIGHEST, largest_batch


@pytest.mark.parametrize("limit", [1, 2, 7, 31, 32, 33, 100, 1000, 4097])
@pytest.mark.parametrize("start", [1, 32, 5000])
def test_bisection_finds_the_limit_to_a_thirty_second(limit, start):
    asked = []

    def fits(size):
        asked.append(size)
        return size <= limit

    found = largest_batch(fits, start)
    assert found <= limit
    assert limit - found <= max(1, found / 32)
    assert len(asked) == len(set(asked)) <= 30


def test_nothing_fits_or_everything_does():
    assert largest_batch(lambda _: False, 64) is None
    assert largest_batch(lambda _: True, 64) == HIGHEST
