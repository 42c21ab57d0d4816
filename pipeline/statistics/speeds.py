"""Turn the blocks of one benchmark into log seconds by launch, variant and turn, then into ratios of speed and memory.

`pipeline.statistics.circumstances` reads all else from blocks, such as the disturbance by other programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pipeline.records.blocks import REPEAT, PlacedBlock
from pipeline.statistics.contrasts import MIN_LAUNCHES, LogRatio, contrast, launch_effects
from pipeline.statistics.intervals import Estimate
from pipeline.study.schema import Study

MIN_MEMORY_LAUNCHES = 2  # for an interval of peak memory, which hardly varies from process to process
ONE = LogRatio(0.0, 0.0, 1, MIN_LAUNCHES)  # the speedup is exactly 1: both variants have the same blocks


@dataclass(frozen=True)
class Speeds:
    """Compare the speed and the memory of a benchmark's variants.

    Args:
        blocks: the blocks of all launches.
        baseline: the name of the baseline variant.
        num_images: training images per epoch.
        num_validation_images: images predicted after an epoch.
        measured_as: for each variant, the variant whose blocks it uses, which may differ in learning rate and epochs.
        num_compiling: how many of the first launches may have taken memory to compile; later ones reuse compiled code.
    """

    blocks: Sequence[PlacedBlock]
    baseline: str
    num_images: int
    num_validation_images: int
    measured_as: Mapping[str, str] = field(default_factory=dict)
    num_compiling: int = 0

    @cached_property
    def num_turns(self) -> list[int]:
        """Return the number of turns of each launch."""
        launches = sorted({block.launch for block in self.blocks})
        return [max(block.turn for block in self.blocks if block.launch == launch) for launch in launches]

    @cached_property
    def variants(self) -> list[str]:
        """Return the variants that have a usable block in every launch and did not fail, the baseline first.

        A block is usable if it was trained in a turn, and no other process used the GPU. If the baseline is not among
        these variants, the list is empty. `REPEAT` may be among them.
        """
        last = {block.variant: block.outcome for block in self.blocks}
        timed = {(block.variant, block.launch) for block in self.blocks if block.turn and not block.shares_gpu}
        launches = range(1, len(self.num_turns) + 1)
        complete = [
            name
            for name, outcome in last.items()
            if outcome == "completed" and all((name, launch) in timed for launch in launches)
        ]
        if self.baseline not in complete:
            return []
        return [self.baseline, *(name for name in complete if name != self.baseline)]

    @cached_property
    def training(self) -> np.ndarray:
        """Return log seconds of an epoch without validation, (num_launches, num_variants, num_turns). NaN: unknown."""
        return self._log_seconds(0)

    def _log_seconds(self, num_validation_images: int) -> np.ndarray:
        log_seconds = np.full((len(self.num_turns), len(self.variants), max(self.num_turns, default=0)), np.nan)
        for block in self.blocks:
            seconds = block.seconds_of(self.num_images, num_validation_images)
            if seconds and block.turn and block.variant in self.variants:
                log_seconds[block.launch - 1, self.variants.index(block.variant), block.turn - 1] = np.log(seconds)
        return log_seconds

    @cached_property
    def _log_peaks(self) -> np.ndarray:
        """Return the log of each variant's peak bytes, (num_launches − num_compiling, num_variants). NaN: unknown.

        Blocks of the warm-up and launches that may have compiled are left out.
        """
        peaks = np.full((len(self.num_turns), len(self.variants)), np.nan)
        for block in self.blocks:
            if block.turn and block.variant in self.variants and block.peak_memory_bytes:
                place = block.launch - 1, self.variants.index(block.variant)
                peaks[place] = np.fmax(peaks[place], np.log(block.peak_memory_bytes))
        return peaks[self.num_compiling :]

    @property
    def baseline_seconds(self) -> list[float]:
        """Return the baseline's training seconds of an epoch in each launch, as the median over turns."""
        return [float(np.exp(np.nanmedian(launch[0]))) for launch in self.training if len(launch)]

    @cached_property
    def training_effects(self) -> np.ndarray:
        """Return `launch_effects` of the training times, (num_launches, num_variants)."""
        return launch_effects(self.training)

    def speedup(self, baseline: str, candidate: str) -> Estimate:
        """Return the speedup of `candidate` over `baseline`, per image. Above 1, the candidate is faster.

        The ratio is unknown if either variant has no blocks to compare.
        """
        log_ratio = self.log_speedup(baseline, candidate)
        return log_ratio.ratio if log_ratio else Estimate()

    def log_speedup(self, baseline: str, candidate: str, whole_epochs: bool = False) -> LogRatio | None:
        """Return the log of the speedup, or None if it is unknown. With `whole_epochs`, epochs include validation.

        Two processes measure the study's baseline, so a variant is compared with the mean of the two processes.
        """
        ours, theirs = self._measured(candidate), self._measured(baseline)
        if ours == theirs:
            return ONE if ours in self.variants else None
        weights = {theirs: 1.0, ours: -1.0}
        if REPEAT in self.variants and REPEAT not in weights and self.baseline in weights:
            half = weights[self.baseline] / 2
            weights |= {self.baseline: half, REPEAT: half}
        effects = self.training_effects
        if whole_epochs:
            effects = launch_effects(self._log_seconds(self.num_validation_images))
        return self._contrast(effects, weights)

    def epoch_seconds(self, name: str) -> float | None:
        """Return the seconds that the variant `name` trains for an epoch, or None if unknown.

        These are the baseline's seconds, divided by the speedup. The baseline's seconds are the geometric mean, over
        launches and both processes, of the median over turns. For the second process (`REPEAT`) itself, only the first
        process counts.
        """
        ratio = self.speedup(self.baseline, name).value
        if ratio is None:
            return None
        processes = (self.baseline, *([] if name == REPEAT else [REPEAT]))  # with which the speedup compares
        places = [self.variants.index(each) for each in processes if each in self.variants]
        return float(np.exp(np.nanmedian(self.training[:, places], axis=2).mean()) / ratio)

    def peak_bytes(self, name: str) -> float | None:
        """Return the peak bytes of a process of `name`: the geometric mean over launches, or None if unknown."""
        measured = self._measured(name)
        if measured not in self.variants or not len(self._log_peaks):
            return None
        average = self._log_peaks[:, self.variants.index(measured)].mean()
        return float(np.exp(average)) if np.isfinite(average) else None

    def memory_ratio(self, baseline: str, candidate: str) -> Estimate:
        """Return the peak memory of `candidate` divided by that of `baseline`; unknown if either peak is unknown."""
        ours, theirs = self._measured(candidate), self._measured(baseline)
        weights = {theirs: -1.0, ours: 1.0} if ours != theirs else {ours: 0.0}
        log_ratio = self._contrast(self._log_peaks, weights) if len(self._log_peaks) else None
        return log_ratio.ratio_from(MIN_MEMORY_LAUNCHES) if log_ratio else Estimate()

    def _measured(self, name: str) -> str:
        return self.measured_as.get(name, name)

    def _contrast(self, values: np.ndarray, weights: Mapping[str, float]) -> LogRatio | None:
        """Return the weighted sum of variants' log values, or None if any of these values is unknown.

        The weights add up to 0.
        """
        known = [
            name for name, is_known in zip(self.variants, np.isfinite(values).all(axis=0), strict=True) if is_known
        ]
        if not weights.keys() <= set(known):
            return None
        columns = values[:, [self.variants.index(name) for name in known]]
        return contrast(columns, [weights.get(name, 0.0) for name in known])


def speeds_of(study: Study, benchmark: str, blocks: Sequence[PlacedBlock]) -> Speeds:
    split = study.benchmarks[benchmark].split
    sizes = split.num_train_examples, split.num_validation_examples
    as_measured = study.measured_as(benchmark), int(study.compilation_cache)
    return Speeds(blocks, study.comparison.baseline, *sizes, *as_measured)
