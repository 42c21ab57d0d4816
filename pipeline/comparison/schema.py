"""The contents of `comparison.json`: every variant by itself, and every candidate against the baseline."""

from collections.abc import Sequence
from typing import Literal

from pipeline.records.schema import Outcome
from pipeline.statistics.equivalence import Equivalence, PValues
from pipeline.statistics.intervals import Difference, Mean, Proportion, Ratio, Statistic

ELSEWHERE = "another device than that of the speeds"  # why the times of a run are left out


class VariantStatistics(Statistic):
    """A variant by itself, over its seeds.

    `completed` and `outcomes` count every run, also those that diverged, ran out of memory or took too long; the means
    are over those that completed. `epoch_seconds` of training are geometric means over runs; `turn_epoch_seconds` are
    those of the baseline in its turns, divided by the speedup. `turn_peak_memory_bytes` are those of a process in its
    turns, once it had warmed up. Accuracies are in [0, 1]; `validation_accuracy` is that of the last epoch.
    `timing_faults` says, by seed, why times were left out. `late_skips` counts, of all steps after
    the first epochs, those that a dynamic loss scale skipped; it is None without such a scale.
    """

    benchmark: str
    variant: str
    completed: Proportion
    outcomes: dict[Outcome, int]
    test_accuracy: Mean
    test_loss: Mean
    validation_accuracy: Mean
    epoch_seconds: Ratio
    turn_epoch_seconds: float | None = None
    turn_peak_memory_bytes: float | None = None
    timing_faults: dict[int, str]
    late_skips: Proportion | None = None


class Pair(Statistic):
    """A candidate against a baseline: the study's, or that of a further pair.

    `num_seeds` counts the seeds that both completed. `failures` are the candidate's outcomes at seeds that only the
    baseline completed, `baseline_failures` the other way round; where there are any, the runs that are left are a
    selection, and never equivalent.

    `speedup` is time of the baseline over time of the candidate, to train an image: above 1 the candidate is faster.
    `epoch_speedup` is that of whole epochs, validation included. Both come from short turns of both variants in one
    sitting. Their intervals hold for other days too: `between_sittings` is the standard deviation of log ratios from
    sitting to sitting, 0 where one process was measured for both. The interval of `sitting_speedup` leaves that out.
    `speedup_at_most` is known where runs of the candidate were ended as too slow and the baseline's of the same seed
    were not: the largest ratio of the two whole runs. `baseline_kernels` and `candidate_kernels` name the libraries
    whose kernels computed.
    `memory_ratio` is the candidate's peak in turns over the baseline's.
    """

    benchmark: str
    baseline: str
    candidate: str
    num_seeds: int
    failures: dict[Outcome, int]
    baseline_failures: dict[Outcome, int]
    speedup: Ratio
    epoch_speedup: Ratio
    sitting_speedup: Ratio
    between_sittings: float
    speedup_at_most: float | None = None
    baseline_kernels: Sequence[str] = ()
    candidate_kernels: Sequence[str] = ()
    accuracy_difference_pp: Difference
    equivalence: Equivalence
    memory_ratio: Ratio

    @property
    def p_values(self) -> PValues:
        """Return the three p-values, each adjusted for the other candidates of the pair's family."""
        test = self.equivalence
        return PValues(test.p_value_holm, self.accuracy_difference_pp.p_value_holm, test.beyond_p_value_holm)


class Turns(Statistic):
    """The turns in which the speed of a benchmark's variants was measured.

    `baseline_again` is the speedup of the baseline over itself: what is no further from 1 may be chance. `half_width`
    is that of the intervals, as a share of the ratio; `launch_spread` the standard deviation, on a log scale, of one
    variant from launch to launch, with its `degrees_of_freedom`. `num_beside_others` counts blocks that are left out,
    because another process was on their GPU. Unknown is None. Unless `side_by_side`, one process
    after the other trained all its blocks of a launch.
    """

    benchmark: str
    num_turns_by_launch: list[int]
    side_by_side: bool = True
    num_blocks: int
    num_beside_others: int = 0
    half_width: float | None
    target_half_width: float
    launch_spread: float | None
    degrees_of_freedom: int
    baseline_again: Ratio
    other_cpu_share: float | None


class Comparison(Statistic):
    """`study_sha256` is the digest of the study that was compared."""

    schema_version: Literal[10] = 10
    study_sha256: str
    turns: list[Turns]
    variants: list[VariantStatistics]
    pairs: list[Pair]

    def find(self, benchmark: str, candidate: str, baseline: str | None = None) -> Pair | None:
        """Return the pair of `candidate` against `baseline`, by default the study's, which stands first; or None."""
        for pair in self.pairs:
            if (pair.benchmark, pair.candidate, baseline or pair.baseline) == (benchmark, candidate, pair.baseline):
                return pair
        return None

    def turns_of(self, benchmark: str) -> Turns:
        return next(turns for turns in self.turns if turns.benchmark == benchmark)

    def variant(self, benchmark: str, name: str) -> VariantStatistics:
        """Return the statistics of variant `name` by itself. Raises `KeyError` where the study does not run it."""
        for variant in self.variants:
            if (variant.benchmark, variant.variant) == (benchmark, name):
                return variant
        raise KeyError(benchmark, name)
