"""Find the largest batch whose compiled step fits: by a straight line through two of them, then by bisection."""

from collections.abc import Callable

from pipeline.compiled.targets import Kind, StepNumbers
from pipeline.numerics.ceiling import HIGHEST

# On a TPU strict float32 takes ten minutes to compile, at every size, and nobody trains in it.
SEARCHED_NUMBERS: dict[Kind, tuple[StepNumbers, ...]] = {
    "gpu": ("float32", "mixed_float16", "mixed_bfloat16"),
    "tpu": ("float32_default", "mixed_bfloat16"),
}
RESOLUTION = 1 / 32
MULTIPLE = 8  # batches between two sizes that were found are multiples of this


def largest_fitting(
    needed_bytes: Callable[[int], int | None], capacity_bytes: int, start: int
) -> tuple[int | None, int | None]:
    """Return the largest batch found to fit, and the smallest found not to, at most a thirty-second larger.

    Memory grows almost along a line with the batch. So two sizes tell where to look, and what is found there is
    compiled on both sides of the limit; bisection takes over where the line misleads.

    Args:
        needed_bytes: of a batch size; None where the compiler refuses it for its memory.
        capacity_bytes: of the device.
        start: two steps at this size and at twice that begin the search.
    """
    tried: dict[int, int | None] = {}

    def fits(size: int) -> bool:
        if size not in tried:
            tried[size] = needed_bytes(size)
        needed = tried[size]
        return needed is not None and needed <= capacity_bytes

    low, high = 0, HIGHEST + 1
    for size in (start, 2 * start):
        low, high = (size, high) if fits(size) and size < high else (low, min(high, size))
    while high - low > max(1, int(low * RESOLUTION)):
        size = _next(low, high, tried, capacity_bytes)
        low, high = (size, high) if fits(size) else (low, size)
    return low or None, high if high <= HIGHEST else None


def _next(low: int, high: int, tried: dict[int, int | None], capacity_bytes: int) -> int:
    """Return a size strictly between `low` and `high` to try."""
    known = sorted((size, needed) for size, needed in tried.items() if needed is not None)[-2:]
    middle = (low + high) // 2
    if len(known) == 2 and known[1][1] > known[0][1]:
        (first, first_bytes), (last, last_bytes) = known
        guess = first + (capacity_bytes - first_bytes) * (last - first) / (last_bytes - first_bytes)
        # A little below the line's answer, then a little above what was found to fit.
        below, above = int(guess * (1 - RESOLUTION / 3)), int(low * (1 + RESOLUTION)) if low else 0
        middle = (
            below if low < below < high else above if low < above < high and abs(guess / above - 1) < 0.1 else middle
        )
    rounded = max(middle // MULTIPLE, low // MULTIPLE + 1) * MULTIPLE
    return rounded if rounded < high else min(max(middle, low + 1), high - 1)
