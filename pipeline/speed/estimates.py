"""From the blocks of one benchmark to speedups with intervals."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from pipeline.speed.blocks import REPEAT, PlacedBlock
from pipeline.statistics.intervals import Ratio
from pipeline.statistics.launches import launch_effects, launch_spread, speedup, speedup_of_few_blocks

MANY_BLOCKS = 0.6  # of a launch's turns: a variant with no more is measured less well than the others
SLOW = 3.0  # times the seconds of the baseline: nobody would choose such a variant, and its blocks are few
ONE = Ratio(ratio=1.0, low=1.0, high=1.0, new_low=None, new_high=None)
NO_RATIO = Ratio(ratio=None, low=None, high=None, new_low=None, new_high=None)


class Speeds:
    """The speeds of a benchmark's variants, beside its baseline.

    `turns` and `turns_of_epochs` are log seconds, (num_launches, num_variants, num_turns), without validation and with
    it; `training` and `whole_epochs` are their launch effects, (num_launches, num_variants). `baseline_seconds`, one a
    launch, are what the baseline takes for the training images of an epoch, in the median over turns; none where the
    baseline does not train.

    Args:
        blocks: of all launches.
        baseline: a variant.
        num_images: trained on in an epoch; num_validation_images: predicted after it.
    """

    def __init__(
        self, blocks: Sequence[PlacedBlock], baseline: str, num_images: int, num_validation_images: int
    ) -> None:
        self.baseline = baseline
        self.blocks: dict[str, list[PlacedBlock]] = {}
        for block in blocks:
            self.blocks.setdefault(block.variant, []).append(block)
        self.num_blocks = len(blocks)
        self.num_beside_others = sum(block.shares_gpu for block in blocks)
        shares = [block.other_cpu_share for block in blocks if block.other_cpu_share is not None]
        self.other_cpu_share = median(shares) if shares else None
        # Side by side, the order differs from turn to turn; in a row, a process has one place in a launch.
        places: dict[tuple[int, str], set[int]] = {}
        for block in blocks:
            if block.turn:
                places.setdefault((block.launch, block.variant), set()).add(block.place)
        self.side_by_side = any(len(found) > 1 for found in places.values())
        self.outcomes = {name: of_variant[-1].outcome for name, of_variant in self.blocks.items()}
        self.num_turns = [
            max(block.turn for block in blocks if block.launch == launch)
            for launch in sorted({block.launch for block in blocks})
        ]
        # A variant counts that had a turn in every launch and never failed.
        launches = {
            name: {block.launch for block in found if block.turn and not block.shares_gpu}
            for name, found in self.blocks.items()
        }
        every = set(range(1, len(self.num_turns) + 1))
        completed = [name for name in self.blocks if self.outcomes[name] == "completed" and launches[name] == every]
        self.variants = [baseline, *(name for name in completed if name != baseline)] if baseline in completed else []
        self.turns = self._log_seconds(blocks, num_images, 0)
        self.turns_of_epochs = self._log_seconds(blocks, num_images, num_validation_images)
        self.training, self.whole_epochs = launch_effects(self.turns), launch_effects(self.turns_of_epochs)
        self.baseline_seconds = [float(np.exp(np.nanmedian(launch[0]))) for launch in self.turns if len(launch)]
        counts = {name: sum(block.turn > 0 for block in self.blocks[name]) for name in self.variants}
        self.often = [name for name in self.variants if counts[name] > MANY_BLOCKS * sum(self.num_turns)]

    def speedup(self, baseline: str, candidate: str, whole_epochs: bool = False) -> Ratio:
        """Return how much faster `candidate` trains an image than `baseline` does: above 1 it is faster.

        Validation is part of `whole_epochs`. Unknown where one of the two did not train.
        """
        if baseline == candidate:  # of two that differ in their learning rate alone, one is measured
            return ONE if baseline in self.variants else NO_RATIO
        return self.contrast({baseline: 1.0, candidate: -1.0}, whole_epochs)

    def contrast(self, weights: Mapping[str, float], whole_epochs: bool = False) -> Ratio:
        """Return exp of the weighted sum of log seconds, with its interval; the weights of variants sum to 0.

        The baseline was measured twice: what is compared with it is compared with both.
        """
        if REPEAT in self.variants and REPEAT not in weights and self.baseline in weights:
            half = weights[self.baseline] / 2
            weights = {**weights, self.baseline: half, REPEAT: half}
        if not weights.keys() <= set(self.variants):
            return NO_RATIO
        effects = self.whole_epochs if whole_epochs else self.training
        known = [name for name, found in zip(self.variants, np.isfinite(effects).all(axis=0), strict=True) if found]
        if not weights.keys() <= set(known):
            return NO_RATIO
        often = [name for name in self.often if name in known]
        of_often = effects[:, [self.variants.index(name) for name in often]]
        if weights.keys() <= set(often):
            return speedup(of_often, [weights.get(name, 0.0) for name in often])
        spread, freedom = launch_spread(of_often) if len(effects) > 1 and len(often) > 1 else (0.0, 0)
        turns = self.turns_of_epochs if whole_epochs else self.turns
        places = [self.variants.index(name) for name in weights]
        return speedup_of_few_blocks(turns[:, places], list(weights.values()), spread, freedom)

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

    def _log_seconds(self, blocks: Sequence[PlacedBlock], num_images: int, num_validation_images: int) -> np.ndarray:
        """Return the logarithms of the seconds an epoch takes, (num_launches, num_variants, num_turns)."""
        log_seconds = np.full((len(self.num_turns), len(self.variants), max(self.num_turns, default=0)), np.nan)
        for block in blocks:
            seconds = block.seconds_of(num_images, num_validation_images)
            if seconds and block.turn and block.variant in self.variants:
                log_seconds[block.launch - 1, self.variants.index(block.variant), block.turn - 1] = np.log(seconds)
        return log_seconds
