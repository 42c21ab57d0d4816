"""Describe the timing of blocks: failures, CPU time of other programs and the kernel, and processes side by side."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from pipeline.records.blocks import PlacedBlock
from pipeline.records.run_record import Outcome

MAX_OTHER_CPU_SHARE = 0.25


def is_busy(other_cpu_share: float | None) -> bool:
    """Tell whether other work took so much of the machine's CPU time that measured times don't count.

    An unknown share (None) counts as 0.
    """
    return (other_cpu_share or 0.0) > MAX_OTHER_CPU_SHARE


def other_cpu_share(blocks: Sequence[PlacedBlock]) -> float | None:
    """Return the median, over blocks, of the share of CPU time that other programs used, or None if unknown."""
    shares = [block.other_cpu_share for block in blocks if block.other_cpu_share is not None]
    return median(shares) if shares else None


def kernel_share(blocks: Sequence[PlacedBlock], variant: str) -> float | None:
    """Return the share of a variant's CPU time, in [0, 1], that the system's kernel took, or None if unknown."""
    timed = [block for block in blocks if block.variant == variant and block.turn and block.kernel_seconds is not None]
    cpu_seconds = sum(block.cpu_seconds or 0.0 for block in timed)
    return sum(block.kernel_seconds or 0.0 for block in timed) / cpu_seconds if cpu_seconds else None


def fault(blocks: Sequence[PlacedBlock], variant: str) -> Outcome | None:
    """Return the outcome of a variant's first failed block, or None if no block failed."""
    outcomes = [block.outcome for block in blocks if block.variant == variant]
    return next((outcome for outcome in outcomes if outcome != "completed"), None)


def side_by_side(blocks: Sequence[PlacedBlock]) -> bool:
    """Tell whether the variants ran side by side, in every launch.

    If processes run one after another, each variant has a single place in a launch.
    """
    places: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for block in blocks:
        if block.turn:
            places[block.launch][block.variant].add(block.place)
    return bool(places) and all(any(len(of) > 1 for of in launch.values()) for launch in places.values())
