"""Turn the blocks of one benchmark into speedups with intervals."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np

from pipeline.records.blocks import REPEAT, PlacedBlock
from pipeline.statistics.intervals import Ratio
from pipeline.statistics.launches import (
    NO_RATIO,
    LogRatio,
    contrast,
    contrast_of_few_blocks,
    launch_effects,
    launch_spread,
)
from pipeline.study.schema import Study

MANY_BLOCKS = 0.6  # of a launch's turns: a variant with no more is measured less well than the others
SLOW = 3.0  # times the seconds of the baseline: nobody would choose such a variant, and its blocks are few
ONE = LogRatio(0.0, 0.0, 1, 1)  # exactly: the same blocks stand for both


@dataclass(frozen=True)
class Speeds:
    """The speeds of a benchmark's variants, beside its baseline: all that follows from their blocks.

    Args:
        blocks: of all launches.
        baseline: a variant.
        num_images: trained on in an epoch; num_validation_images: predicted after it.
        measured_as: the variant whose blocks stand for another's, which differs in its learning rate or epochs alone.
    """

    blocks: Sequence[PlacedBlock]
    baseline: str
    num_images: int
    num_validation_images: int
    measured_as: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def num_turns(self) -> list[int]:
        """Count the turns of each launch."""
        launches = sorted({block.launch for block in self.blocks})
        return [max(block.turn for block in self.blocks if block.launch == launch) for launch in launches]

    @cached_property
    def variants(self) -> list[str]:
        """Name those that had a turn in every launch and never failed, the baseline first; none if it is not there."""
        last = {block.variant: block.outcome for block in self.blocks}
        timed = {(block.variant, block.launch) for block in self.blocks if block.turn and not block.shares_gpu}
        launches = range(1, len(self.num_turns) + 1)
        found = [
            name
            for name, outcome in last.items()
            if outcome == "completed" and all((name, launch) in timed for launch in launches)
        ]
        return [self.baseline, *(name for name in found if name != self.baseline)] if self.baseline in found else []

    @cached_property
    def often(self) -> list[str]:
        """Name the variants that had a block in most turns."""
        counts = {name: sum(b.turn > 0 for b in self.blocks if b.variant == name) for name in self.variants}
        return [name for name, count in counts.items() if count > MANY_BLOCKS * sum(self.num_turns)]

    @cached_property
    def turns(self) -> np.ndarray:
        """Return log seconds of an epoch without its validation, (num_launches, num_variants, num_turns)."""
        return self._log_seconds(0)

    @cached_property
    def turns_of_epochs(self) -> np.ndarray:
        """Return log seconds of an epoch and its validation, shaped as `turns`."""
        return self._log_seconds(self.num_validation_images)

    def _log_seconds(self, num_validation_images: int) -> np.ndarray:
        log_seconds = np.full((len(self.num_turns), len(self.variants), max(self.num_turns, default=0)), np.nan)
        for block in self.blocks:
            seconds = block.seconds_of(self.num_images, num_validation_images)
            if seconds and block.turn and block.variant in self.variants:
                log_seconds[block.launch - 1, self.variants.index(block.variant), block.turn - 1] = np.log(seconds)
        return log_seconds

    @cached_property
    def training(self) -> np.ndarray:
        """Return the launch effects of `turns`, (num_launches, num_variants)."""
        return launch_effects(self.turns)

    @cached_property
    def whole_epochs(self) -> np.ndarray:
        """Return the launch effects of `turns_of_epochs`, (num_launches, num_variants)."""
        return launch_effects(self.turns_of_epochs)

    @property
    def baseline_seconds(self) -> list[float]:
        """Return, for each launch, what the baseline takes for an epoch's training images, in the median over turns."""
        return [float(np.exp(np.nanmedian(launch[0]))) for launch in self.turns if len(launch)]

    @property
    def other_cpu_share(self) -> float | None:
        """Return the median share of the CPU time that other processes had; None where it is unknown."""
        shares = [block.other_cpu_share for block in self.blocks if block.other_cpu_share is not None]
        return median(shares) if shares else None

    @property
    def side_by_side(self) -> bool:
        """Return whether all variants trained in every turn: in a row, a process has one place in a launch."""
        places: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for block in self.blocks:
            if block.turn:
                places[block.launch][block.variant].add(block.place)
        return bool(places) and all(any(len(found) > 1 for found in launch.values()) for launch in places.values())

    def speedup(self, baseline: str, candidate: str, whole_epochs: bool = False) -> Ratio:
        """Return how much faster `candidate` trains an image than `baseline` does: above 1 it is faster.

        Validation is part of `whole_epochs`. Unknown where one of the two did not train.
        """
        found = self.log_speedup(baseline, candidate, whole_epochs)
        return found.ratio if found else NO_RATIO

    def log_speedup(self, baseline: str, candidate: str, whole_epochs: bool = False) -> LogRatio | None:
        """Return the logarithm of the speedup; None where one of the two did not train."""
        measured = self.measured_as.get(baseline, baseline)
        if measured == self.measured_as.get(candidate, candidate):
            return ONE if measured in self.variants else None
        return self.contrast({baseline: 1.0, candidate: -1.0}, whole_epochs)

    def epoch_seconds(self, name: str) -> float | None:
        """Return the seconds that `name` trains for an epoch: those of the baseline, divided by the speedup.

        The baseline's are the geometric mean over launches and both its processes, of medians over turns.
        """
        ratio = self.speedup(self.baseline, name).ratio
        if ratio is None:
            return None
        places = [self.variants.index(each) for each in (self.baseline, REPEAT) if each in self.variants]
        return float(np.exp(np.nanmedian(self.turns[:, places], axis=2).mean()) / ratio)

    def contrast(self, weights: Mapping[str, float], whole_epochs: bool = False) -> LogRatio | None:
        """Return the weighted sum of log seconds, where all is known; the weights of variants sum to 0.

        The baseline was measured twice: what is compared with it is compared with both.
        """
        weights = {self.measured_as.get(name, name): weight for name, weight in weights.items()}
        if REPEAT in self.variants and REPEAT not in weights and self.baseline in weights:
            half = weights[self.baseline] / 2
            weights = {**weights, self.baseline: half, REPEAT: half}
        if not weights.keys() <= set(self.variants):
            return None
        effects = self.whole_epochs if whole_epochs else self.training
        known = [name for name, found in zip(self.variants, np.isfinite(effects).all(axis=0), strict=True) if found]
        if not weights.keys() <= set(known):
            return None
        often = [name for name in self.often if name in known]
        of_often = effects[:, [self.variants.index(name) for name in often]]
        if weights.keys() <= set(often):
            return contrast(of_often, [weights.get(name, 0.0) for name in often])
        spread, freedom = launch_spread(of_often) if len(effects) > 1 and len(often) > 1 else (0.0, 0)
        turns = self.turns_of_epochs if whole_epochs else self.turns
        places = [self.variants.index(name) for name in weights]
        return contrast_of_few_blocks(turns[:, places], list(weights.values()), spread, freedom)

    def half_width(self) -> float | None:
        """Return the half width of the widest interval of speedup, as a share of the ratio; None with a single launch.

        Of variants up to three times slower than the baseline. If there are none, of the baseline over itself.
        """
        widths = [width for ratio, width in self._widths() if ratio >= 1 / SLOW]
        again = self.speedup(self.baseline, REPEAT)
        if not widths and again.ratio and again.high:
            return again.high / again.ratio - 1
        return max(widths, default=None)

    def is_settled(self, target_half_width: float) -> bool:
        """Return whether every variant's interval is narrow enough, or three times that if it is `SLOW`."""
        half_width = self.half_width()
        slow = [width for ratio, width in self._widths() if ratio < 1 / SLOW]
        return half_width is not None and max(half_width, max(slow, default=0.0) / SLOW) <= target_half_width

    def _widths(self) -> list[tuple[float, float]]:
        """Return ratio and half width of each variant that has an interval."""
        names = [name for name in self.variants if name not in (self.baseline, REPEAT)]
        ratios = [self.speedup(self.baseline, name) for name in names]
        return [(found.ratio, found.high / found.ratio - 1) for found in ratios if found.ratio and found.high]

    def launch_spread(self) -> tuple[float, int] | None:
        """Return the standard deviation of log seconds from launch to launch, and its degrees of freedom."""
        if len(self.num_turns) < 2 or len(self.often) < 2:
            return None
        return launch_spread(self.training[:, [self.variants.index(name) for name in self.often]])


def speeds_of(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> Speeds:
    split, measured_as = study.benchmarks[benchmark].split, study.measured_as(benchmark)
    baseline = study.comparison.baseline
    return Speeds(blocks, baseline, split.num_train_examples, split.num_validation_examples, measured_as)
