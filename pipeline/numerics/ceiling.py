"""Find the largest batch that fits: by doubling, then by bisection."""

from collections.abc import Callable

HIGHEST = 2**20
RESOLUTION = 1 / 32  # of the batch that is found


def largest_batch(fits: Callable[[int], bool], start: int) -> int | None:
    """Return the largest batch size that `fits`, to a relative `RESOLUTION`; None if not even one example does.

    `fits` is asked about one size at a time and must be monotonic. No size above `HIGHEST` is tried.
    """
    low, high = 0, start
    while high <= HIGHEST and fits(high):
        low, high = high, high * 2
    high = min(high, HIGHEST + 1)
    while high - low > max(1, int(low * RESOLUTION)):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low or None
