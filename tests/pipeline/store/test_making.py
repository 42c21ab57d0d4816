"""Runs made side by side."""

import pytest

from pipeline.store.making import shares


@pytest.mark.parametrize(
    ("cores", "num_runs", "expected"),
    [
        ([0, 1], 1, [[0, 1]]),
        ([0, 1], 2, [[0], [1]]),
        ([2, 3, 6, 7, 8], 2, [[2, 6, 8], [3, 7]]),
        ([0, 1], 3, [[0, 1]] * 3),
    ],
)
def test_runs_side_by_side_share_the_cores(cores, num_runs, expected):
    assert shares(cores, num_runs) == expected
