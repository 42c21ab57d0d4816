"""Turn the blocks of one benchmark into log seconds by launch, variant and turn, then into ratios with intervals.

Launches and variants form a two-way layout without replication. Within a launch, the median over turns ignores single
slow blocks. The interval comes from the differences between launches, because variation from process to process does
not average out over turns (Kalibera & Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013).
"""

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from pipeline.records.blocks import REPEAT, PlacedBlock
from pipeline.records.run_record import Outcome
from pipeline.statistics.intervals import Ratio
from pipeline.study.schema import Study

MIN_LAUNCHES = 3  # for a speed interval: two launches may agree by chance
MIN_MEMORY_LAUNCHES = 2  # for an interval of peak memory, which hardly varies from process to process
NO_RATIO = Ratio(ratio=None, low=None, high=None)
MAX_OTHER_CPU_SHARE = 0.25


def is_busy(other_cpu_share: float | None) -> bool:
    """Tell whether other work took so much of the machine's CPU time that times don't count. None means unknown."""
    return (other_cpu_share or 0.0) > MAX_OTHER_CPU_SHARE


class LogRatio(NamedTuple):
    """Hold a contrast of log seconds: its mean over launches, and the standard deviation of one launch.

    With 0 degrees of freedom the standard deviation is unknown.
    """

    mean: float
    of_one_launch: float
    degrees_of_freedom: int
    num_launches: int

    @property
    def error(self) -> float:
        """Return the standard error of the mean."""
        return self.of_one_launch / float(np.sqrt(self.num_launches))

    @property
    def ratio(self) -> Ratio:
        """Return the ratio of speeds, with an interval from `MIN_LAUNCHES` launches on."""
        return self.ratio_from(MIN_LAUNCHES)

    def ratio_from(self, min_launches: int) -> Ratio:
        """Return exp of the mean, with its 95 % interval if there are at least `min_launches`."""
        value = float(np.exp(self.mean))
        if not self.degrees_of_freedom or self.num_launches < min_launches:
            return Ratio(ratio=value, low=None, high=None)
        half = float(scipy.stats.t.ppf(0.975, self.degrees_of_freedom)) * self.error
        return Ratio(ratio=value, low=float(np.exp(self.mean - half)), high=float(np.exp(self.mean + half)))


def launch_effects(log_seconds: ArrayLike) -> np.ndarray:
    """Return each variant's difference from the first variant in each launch, (num_launches, num_variants).

    This is the median difference over the launch's turns in which both variants have a block, or NaN without such
    turns.

    Args:
        log_seconds: (num_launches, num_variants, num_turns), NaN for a missing block.
    """
    values = np.asarray(log_seconds, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a median over no turn warns
        return np.nanmedian(values - values[:, :1], axis=2)


def launch_spread(effects: np.ndarray) -> tuple[float, int]:
    """Return the standard deviation of one variant's effect in one launch, and its degrees of freedom.

    Both come from the residuals of a two-way layout without replication, with (launches - 1)(variants - 1) degrees of
    freedom (Montgomery, Design and Analysis of Experiments, chapter 4.1).

    Args:
        effects: finite, (num_launches, num_variants).
    """
    residuals = effects - effects.mean(axis=0) - effects.mean(axis=1, keepdims=True) + effects.mean()
    freedom = (effects.shape[0] - 1) * (effects.shape[1] - 1)
    return float(np.sqrt((residuals**2).sum() / freedom)), freedom


def contrast(effects: np.ndarray, weights: ArrayLike) -> LogRatio:
    """Return a contrast of the effects. Its spread is pooled over all variants, which are assumed to vary alike.

    Args:
        effects: finite, (num_launches, num_variants), of log seconds.
        weights: (num_variants,) with sum 0. A speedup has 1 for the baseline and -1 for the candidate.
    """
    weights = np.asarray(weights, dtype=np.float64)
    spread, freedom = launch_spread(effects) if len(effects) > 1 else (0.0, 0)
    of_one = spread * float(np.linalg.norm(weights))
    return LogRatio(float((effects @ weights).mean()), of_one, freedom, len(effects))


ONE = LogRatio(0.0, 0.0, 1, MIN_LAUNCHES)  # exactly 1: both variants share the same blocks


@dataclass(frozen=True)
class Speeds:
    """Compute the speeds of a benchmark's variants relative to the baseline, from their blocks.

    Args:
        blocks: the blocks of all launches.
        baseline: the name of the baseline variant.
        num_images: training images per epoch.
        num_validation_images: images predicted after an epoch.
        measured_as: for each variant, the one whose blocks it uses; the two differ only in learning rate or epochs.
        num_compiling: how many of the first launches may have taken memory to compile; later ones find compiled code.
    """

    blocks: Sequence[PlacedBlock]
    baseline: str
    num_images: int
    num_validation_images: int
    measured_as: Mapping[str, str] = field(default_factory=dict)
    num_compiling: int = 0

    @cached_property
    def num_turns(self) -> list[int]:
        """Count the turns of each launch."""
        launches = sorted({block.launch for block in self.blocks})
        return [max(block.turn for block in self.blocks if block.launch == launch) for launch in launches]

    @cached_property
    def variants(self) -> list[str]:
        """Name the variants with a turn in every launch and no failure, the baseline first.

        If the baseline is not one of them, name none.
        """
        last = {block.variant: block.outcome for block in self.blocks}
        timed = {(block.variant, block.launch) for block in self.blocks if block.turn and not block.shares_gpu}
        launches = range(1, len(self.num_turns) + 1)
        found = [
            name
            for name, outcome in last.items()
            if outcome == "completed" and all((name, launch) in timed for launch in launches)
        ]
        return [self.baseline, *(name for name in found if name != self.baseline)] if self.baseline in found else []

    def fault(self, name: str) -> Outcome | None:
        """Return how the process of a variant failed, or None if it did not."""
        outcomes = [block.outcome for block in self.blocks if block.variant == self.measured_as.get(name, name)]
        return next((outcome for outcome in outcomes if outcome != "completed"), None)

    @cached_property
    def turns(self) -> np.ndarray:
        """Return log seconds of an epoch without its validation, (num_launches, num_variants, num_turns)."""
        return self._log_seconds(0)

    def _log_seconds(self, num_validation_images: int) -> np.ndarray:
        log_seconds = np.full((len(self.num_turns), len(self.variants), max(self.num_turns, default=0)), np.nan)
        for block in self.blocks:
            seconds = block.seconds_of(self.num_images, num_validation_images)
            if seconds and block.turn and block.variant in self.variants:
                log_seconds[block.launch - 1, self.variants.index(block.variant), block.turn - 1] = np.log(seconds)
        return log_seconds

    @cached_property
    def training(self) -> np.ndarray:
        """Return `launch_effects` of the training times, (num_launches, num_variants)."""
        return launch_effects(self.turns)

    @property
    def baseline_seconds(self) -> list[float]:
        """Return the baseline's training seconds of an epoch in each launch, as the median over turns."""
        return [float(np.exp(np.nanmedian(launch[0]))) for launch in self.turns if len(launch)]

    @property
    def other_cpu_share(self) -> float | None:
        """Return the median share of CPU time that other processes used, or None if it is unknown."""
        shares = [block.other_cpu_share for block in self.blocks if block.other_cpu_share is not None]
        return median(shares) if shares else None

    def kernel_share(self, variant: str) -> float | None:
        """Return the share of a variant's CPU time that the system's kernel took, or None if it is unknown."""
        blocks = [block for block in self.blocks if block.variant == variant and block.turn]
        cpu = sum(block.cpu_seconds or 0.0 for block in blocks if block.kernel_seconds is not None)
        return sum(block.kernel_seconds or 0.0 for block in blocks) / cpu if cpu else None

    @property
    def side_by_side(self) -> bool:
        """Tell whether the variants ran side by side. In a row, each variant has a single place in a launch."""
        places: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for block in self.blocks:
            if block.turn:
                places[block.launch][block.variant].add(block.place)
        return bool(places) and all(any(len(found) > 1 for found in launch.values()) for launch in places.values())

    def speedup(self, baseline: str, candidate: str) -> Ratio:
        """Return the speedup of `candidate` over `baseline`, per image. Above 1, the candidate is faster.

        The ratio is unknown if one of the two did not train.
        """
        found = self.log_speedup(baseline, candidate)
        return found.ratio if found else NO_RATIO

    def log_speedup(self, baseline: str, candidate: str, whole_epochs: bool = False) -> LogRatio | None:
        """Return the log of the speedup, or None if one of the two did not train. `whole_epochs` adds validation."""
        measured = self.measured_as.get(baseline, baseline)
        if measured == self.measured_as.get(candidate, candidate):
            return ONE if measured in self.variants else None
        return self.contrast({baseline: 1.0, candidate: -1.0}, whole_epochs)

    def epoch_seconds(self, name: str) -> float | None:
        """Return the training seconds of an epoch of `name`: the baseline's, divided by the speedup.

        The baseline's seconds are the geometric mean, over launches and both processes, of medians over turns.
        """
        ratio = self.speedup(self.baseline, name).ratio
        if ratio is None:
            return None
        places = [self.variants.index(each) for each in (self.baseline, REPEAT) if each in self.variants]
        return float(np.exp(np.nanmedian(self.turns[:, places], axis=2).mean()) / ratio)

    def contrast(self, weights: Mapping[str, float], whole_epochs: bool = False) -> LogRatio | None:
        """Return the weighted sum of variants' log seconds, or None if any are unknown. The weights sum to 0.

        Two processes measure the baseline, so a variant is compared with the mean of the two.
        """
        weights = {self.measured_as.get(name, name): weight for name, weight in weights.items()}
        if REPEAT in self.variants and REPEAT not in weights and self.baseline in weights:
            half = weights[self.baseline] / 2
            weights = {**weights, self.baseline: half, REPEAT: half}
        turns = self._log_seconds(self.num_validation_images) if whole_epochs else self.turns
        effects = launch_effects(turns) if whole_epochs else self.training
        known = [name for name, found in zip(self.variants, np.isfinite(effects).all(axis=0), strict=True) if found]
        if not weights.keys() <= set(known):
            return None
        of_known = effects[:, [self.variants.index(name) for name in known]]
        return contrast(of_known, [weights.get(name, 0.0) for name in known])

    @cached_property
    def _log_peaks(self) -> np.ndarray:
        """Return the logarithm of each variant's peak memory in bytes, (num_launches, num_variants).

        Only turns after the warm-up count. Launches that may have compiled are left out.
        """
        peaks = np.full((len(self.num_turns), len(self.variants)), np.nan)
        for block in self.blocks:
            if block.turn and block.variant in self.variants and block.peak_memory_bytes:
                place = block.launch - 1, self.variants.index(block.variant)
                peaks[place] = np.fmax(peaks[place], np.log(block.peak_memory_bytes))
        return peaks[self.num_compiling :]

    def peak_bytes(self, name: str) -> float | None:
        """Return the peak memory of a process of `name`: the geometric mean over launches, or None if unknown."""
        measured = self.measured_as.get(name, name)
        if measured not in self.variants or not len(self._log_peaks):
            return None
        average = self._log_peaks[:, self.variants.index(measured)].mean()
        return float(np.exp(average)) if np.isfinite(average) else None

    def memory_ratio(self, baseline: str, candidate: str) -> Ratio:
        """Return the peak memory of `candidate` divided by that of `baseline`; unknown if either peak is."""
        if self.peak_bytes(baseline) is None or self.peak_bytes(candidate) is None:
            return NO_RATIO
        known = np.isfinite(self._log_peaks).all(axis=0)
        weights = np.zeros(len(self.variants))
        weights[self.variants.index(self.measured_as.get(candidate, candidate))] += 1
        weights[self.variants.index(self.measured_as.get(baseline, baseline))] -= 1
        return contrast(self._log_peaks[:, known], weights[known]).ratio_from(MIN_MEMORY_LAUNCHES)

    def half_width(self) -> float | None:
        """Return the half-width of the widest interval of a speedup, as a share of the ratio, or None if unknown.

        Without another variant, take the interval between the baseline's two processes.
        """
        names = [name for name in self.variants if name not in (self.baseline, REPEAT)] or [REPEAT]
        ratios = [self.speedup(self.baseline, name) for name in names]
        return max((found.high / found.ratio - 1 for found in ratios if found.ratio and found.high), default=None)


def speeds_of(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> Speeds:
    split, measured_as = study.benchmarks[benchmark].split, study.measured_as(benchmark)
    baseline = study.comparison.baseline
    num_images = split.num_train_examples, split.num_validation_examples
    return Speeds(blocks, baseline, *num_images, measured_as, num_compiling=int(study.compilation_cache))
