"""A comparison of two variants with the values that a test gives."""

from conftest import small_study

from pipeline.comparison.schema import Comparison, Pair, Turns, VariantStatistics
from pipeline.machine.hardware import Hardware
from pipeline.statistics.equivalence import Equivalence
from pipeline.statistics.intervals import Difference, Mean, Proportion, Ratio

CPU = Hardware("cpu", "Example CPU", None)


def ratio(value=None, low=None, high=None) -> Ratio:
    return Ratio(ratio=value, low=low, high=high)


def between(low: float, high: float) -> Ratio:
    return ratio((low + high) / 2, low, high)


def altered(found: Comparison, **changes: dict) -> Comparison:
    """Return the comparison with these values in each of its `pairs`, `variants` or `turns`."""
    update = {
        part: [each.model_copy(update=values) for each in getattr(found, part)] for part, values in changes.items()
    }
    return found.model_copy(update=update)


def comparison(
    low=None, high=None, outcome="inconclusive", needed=None, failures=None, accuracy=0.9, beyond=None
) -> Comparison:
    baseline = VariantStatistics(
        benchmark="wide",
        variant="float32",
        completed=Proportion(count=3, total=3, low=0.3, high=1.0),
        outcomes={"completed": 3},
        test_accuracy=Mean(mean=accuracy, low=0.89, high=0.91, new_low=0.88, new_high=0.92),
        test_loss=Mean(mean=None, low=None, high=None, new_low=None, new_high=None),
        validation_accuracy=Mean(mean=0.8, low=None, high=None, new_low=None, new_high=None),
        epoch_seconds=ratio(),
        timing_faults={},
    )
    pair = Pair(
        benchmark="wide",
        baseline="float32",
        candidate="mixed",
        num_seeds=3,
        failures=failures or {},
        baseline_failures={},
        speedup=ratio(1.5) if low is None else between(low, high),
        epoch_speedup=ratio(1.02, 1.01, 1.03),
        sitting_speedup=ratio(1.5),
        between_sittings=0.06,
        accuracy_difference_pp=Difference(
            mean=-0.1, low90=-0.2, high90=0.0, low95=-0.3, high95=0.1, p_value=0.2, p_value_holm=0.4
        ),
        equivalence=Equivalence(
            margin_pp=1.0,
            num_candidates=2,
            p_value=0.01,
            p_value_holm=0.02,
            outcome=outcome,
            spread_pp=0.5,
            detectable_margin_pp=2.5,
            num_seeds_needed=needed,
            beyond_p_value_holm=beyond,
        ),
        memory_ratio=ratio(0.5, 0.48, 0.52),
    )
    turns = Turns(
        benchmark="wide",
        num_turns_by_launch=[20, 20],
        num_blocks=200,
        half_width=0.04,
        target_half_width=0.05,
        launch_spread=0.02,
        degrees_of_freedom=4,
        baseline_again=ratio(1.01, 0.97, 1.05),
        other_cpu_share=0.02,
    )
    return Comparison(
        study_sha256=small_study().digest,
        turns=[turns],
        variants=[baseline, baseline.model_copy(update={"variant": "mixed"})],
        pairs=[pair],
    )
