"""Tell from repetitions of a measurement in turns how often its intervals hold, and what they find."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pipeline.speed.blocks import REPEAT, PlacedBlock
from pipeline.speed.estimates import Speeds
from pipeline.speed.measuring import speeds_of
from pipeline.statistics.intervals import Ratio
from pipeline.study.schema import Study

PLANTED = "planted"  # a variant whose steps have more work than they are counted for
NUM_DRAWS = 2000


class TaggedBlock(PlacedBlock):
    """A block of one of several repetitions."""

    repetition: int


def show(
    study: Study, benchmark: str, blocks: Sequence[TaggedBlock], num_launches: Sequence[int] = ()
) -> dict[str, object]:
    """Return what the repetitions show.

    `drawn` has measurements of as many launches as a repetition has, and of `num_launches`; `real` has, of the
    repetitions themselves, how many hold 1 and find the planted difference, and in how many of all variants the
    interval holds what all repetitions give together.
    """
    measured = partial(speeds_of, study, benchmark)
    launches = [list(group) for _, group in itertools.groupby(blocks, lambda block: (block.repetition, block.launch))]
    repetitions = [list(group) for _, group in itertools.groupby(blocks, lambda block: block.repetition)]
    sizes = [round(len(launches) / len(repetitions)), *num_launches]
    together = measured(_numbered(launches))
    return {
        "benchmark": benchmark,
        "num_repetitions": len(repetitions),
        "turns_of_a_launch": float(np.median(together.num_turns)),
        "drawn": [_drawn(measured, launches, size) for size in sizes],
        "real": _real([measured(of_repetition) for of_repetition in repetitions], together),
        "launch_spread": together.launch_spread(),
        "block_spread": _block_spread(together),
        "other_cpu_share": together.other_cpu_share,
        "speedups": {
            name: [round(value or 0, 4) for value in (ratio.ratio, ratio.low, ratio.high)]
            for name in together.variants
            if (ratio := _against_baseline(together, name))
        },
    }


def _drawn(
    measured: Callable[[Sequence[PlacedBlock]], Speeds], launches: Sequence[Sequence[TaggedBlock]], size: int
) -> dict[str, float]:
    """Return what measurements of `size` launches give, drawn with replacement: else they vary less than launches.

    `coverage` counts intervals of the baseline over itself that hold 1; `coverage_of_all` those that hold what all
    launches give, which is the truth of such draws and differs from 1 by chance.
    """
    everything = _against_baseline(measured(_numbered(launches)), REPEAT).ratio or np.nan
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(NUM_DRAWS):
        drawn = measured(_numbered([launches[index] for index in rng.choice(len(launches), size)]))
        again, more = (_against_baseline(drawn, name) for name in (REPEAT, PLANTED))
        found = (_holds(again, 1), _holds(again, everything), _found(drawn))
        draws.append((*found, more.ratio or np.nan, drawn.half_width() or np.nan))
    coverage, coverage_of_all, found_5_percent, planted_ratio, _ = np.mean(draws, axis=0).tolist()
    half_width = float(np.nanmedian([half_width for *_, half_width in draws]))
    return {
        "launches": size,
        "coverage": coverage,
        "coverage_of_all": coverage_of_all,
        "found_5_percent": found_5_percent,
        "planted": planted_ratio,
        "half_width": half_width,
    }


def _real(repetitions: Sequence[Speeds], together: Speeds) -> dict[str, int]:
    pairs = [
        (_against_baseline(alone, name), _against_baseline(together, name).ratio or np.nan)
        for alone in repetitions
        for name in set(alone.variants) - {alone.baseline}
    ]
    return {
        "hold_1": sum(_holds(_against_baseline(alone, REPEAT), 1) for alone in repetitions),
        "found": sum(_found(alone) for alone in repetitions),
        "hold_all": sum(_holds(ratio, truth) for ratio, truth in pairs),
        "intervals": len(pairs),
    }


def _numbered(launches: Sequence[Sequence[TaggedBlock]]) -> list[TaggedBlock]:
    return [block.model_copy(update={"launch": n}) for n, launch in enumerate(launches, start=1) for block in launch]


def _against_baseline(speeds: Speeds, variant: str) -> Ratio:
    return speeds.speedup(speeds.baseline, variant)


def _found(speeds: Speeds) -> bool:
    return (_against_baseline(speeds, PLANTED).high or 1) < 1


def _holds(found: Ratio, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def _block_spread(speeds: Speeds) -> float:
    """Return the standard deviation of the log ratio of two blocks of one turn, over the square root of two."""
    pairs: dict[tuple[int, int], dict[str, float]] = {}
    for name in (speeds.baseline, REPEAT):
        for block in speeds.blocks[name]:
            if block.turn and block.wall_seconds:
                pairs.setdefault((block.launch, block.turn), {})[name] = block.wall_seconds / block.num_images
    ratios = [np.log(pair[REPEAT] / pair[speeds.baseline]) for pair in pairs.values() if len(pair) == 2]
    return float(np.std(ratios, ddof=1) / np.sqrt(2))
