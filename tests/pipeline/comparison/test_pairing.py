"""A candidate's results against a baseline's: what seeds show, and what they can't show."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from pipeline.comparison.pairing import Question, set_beside
from pipeline.comparison.tables import Row
from pipeline.statistics.equivalence import num_seeds_needed

BASELINE = [90.0, 90.4, 89.8, 90.1, 90.3]
SAME, SHIFTED, WORSE = [0.1, -0.1, 0.0, 0.1, -0.2], [0.3, 0.31, 0.29, 0.3, 0.31], [-2.0, -2.1, -1.9, -2.0, -2.2]


def runs(results, precision="float32", seeds=None, **changes) -> dict[int, Row]:
    """Runs by seed; a result of None is one that diverged."""
    of_run = {"unit": 0.0, "precision": precision, "num_predicted_classes": 10} | changes
    return {
        seed: Row(
            **{"outcome": "diverged" if result is None else "completed", "result": result}
            | {"final_weights_sha256": f"{precision} {seed}"}
            | of_run
        )
        for seed, result in zip(seeds or range(len(results)), results, strict=True)
    }


def plus(differences) -> list[float]:
    return [round(value + d, 6) for value, d in zip(BASELINE, differences, strict=False)]


def beside(theirs, ours, margin=1.0, **asked) -> dict:
    (found,) = set_beside({"a": theirs, "b": ours}, [("a", "b")], [0], [1], Question(margin, **asked))
    return found


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [(SAME, "equivalent"), (SHIFTED, "equivalent but shifted"), (WORSE, "different")],
)
def test_p_values_and_intervals_match_scipy_and_statsmodels(differences, outcome):
    found = beside(runs(BASELINE), runs(plus(differences), "mixed"))
    ours, theirs = np.array(plus(differences)), np.array(BASELINE)
    assert (found["outcome"], found["reason"], found["num_seeds"]) == (outcome, None, 5)
    assert found["p_equivalent"] == pytest.approx(ttost_paired(ours, theirs, -1.0, 1.0)[0])
    test = stats.ttest_rel(ours, theirs)
    assert found["p_different"] == pytest.approx(test.pvalue)
    difference = found["difference"]
    assert (difference.low, difference.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert difference.value == pytest.approx(np.mean(ours - theirs))
    assert (found["baseline_mean"], found["candidate_mean"]) == pytest.approx((theirs.mean(), ours.mean()))


def test_variants_with_different_seeds_are_compared_unpaired():
    found = beside(runs(BASELINE), runs(plus(WORSE), "mixed", seeds=range(5, 10)))
    assert not found["is_paired"]
    expected = ttost_ind(np.array(plus(WORSE)), np.array(BASELINE), -1.0, 1.0, usevar="unequal")[0]
    assert found["p_equivalent"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ours", "theirs"), [((0, 1, 2, 4), (0, 1, 2, 3, 4)), ((0,), (0, 1, 2)), ((0, 1, 2, 9), (0, 1, 2, 3))]
)
def test_missing_seeds_are_listed_and_the_others_stay_paired(ours, theirs):
    found = beside(runs(BASELINE[: len(theirs)], seeds=theirs), runs(BASELINE[: len(ours)], "mixed", seeds=ours))
    assert found["is_paired"]
    assert found["num_seeds"] == len({*ours} & {*theirs})
    assert found["missing_candidate"] == [str(seed) for seed in theirs if seed not in ours]


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_a_gain_counts_as_equivalent_in_a_one_sided_question(lower_is_better):
    gain = [-d if lower_is_better else d for d in (2.0, 2.1, 1.9, 2.0, 2.2)]
    asked = {"is_one_sided": True, "is_lower_better": lower_is_better}
    assert beside(runs(BASELINE), runs(plus(gain), "mixed"), **asked)["outcome"] == "equivalent"
    assert beside(runs(BASELINE), runs(plus([-d for d in gain]), "mixed"), **asked)["outcome"] == "different"
    assert beside(runs(BASELINE), runs(plus(gain), "mixed"))["outcome"] == "different"


def test_holms_method_adjusts_p_values_within_a_family():
    """Alone each would differ at p = 0.0202; over three the smallest must be below 0.0167."""
    variants = {"a": runs(BASELINE[:3])}
    for name in "bcd":
        variants[name] = runs(plus([-1.0, -1.5, -2.0]), name)
    pairs = [("a", name) for name in "bcd"]
    alone = stats.ttest_1samp([-1.0, -1.5, -2.0], 0).pvalue
    assert alone < 0.05 < 3 * alone
    for found in set_beside(variants, pairs, ["f"] * 3, [3] * 3, Question(1.0)):
        assert (found["p_different"], found["num_candidates"]) == (pytest.approx(3 * alone), 3)
        assert found["outcome"] == "inconclusive"
    for found in set_beside(variants, pairs, ["f", "g", "h"], [1] * 3, Question(1.0)):
        assert found["p_different"] == pytest.approx(alone)


ALIKE, ONE_CLASS = {"final_weights_sha256": "alike"}, {"num_predicted_classes": 1}
UNKNOWN = {"precision": None, "final_weights_sha256": None}


@pytest.mark.parametrize(
    ("theirs", "ours", "reason", "outcome"),
    [
        # Final weights tell whether a change of precision took effect.
        (runs(BASELINE, **ALIKE), runs(BASELINE, "mixed", **ALIKE), "identical", "inconclusive"),
        (runs(BASELINE[:2], **ALIKE), runs(BASELINE[:2], "mixed", **ALIKE), "identical", "inconclusive"),
        # Equal results at every seed, from three seeds on, show nothing, whatever the weights.
        (runs(BASELINE), runs(BASELINE, "mixed"), "identical", "inconclusive"),
        (runs(BASELINE, **ALIKE), runs(BASELINE, **ALIKE), "identical", "inconclusive"),
        *(
            (runs(theirs, **UNKNOWN), runs(ours, seeds=seeds, **UNKNOWN), *found)
            for theirs, ours, seeds, *found in (
                (BASELINE[:3], BASELINE[:3], None, "identical", "inconclusive"),
                (BASELINE[:2], BASELINE[:2], None, "too_few_seeds", "inconclusive"),
                (BASELINE, BASELINE[::-1], None, None, "equivalent"),
                (BASELINE, BASELINE[::-1], range(5, 10), "identical", "inconclusive"),
            )
        ),
        # All predict one class: the share of that class is all that is compared.
        (
            runs([95.0, 95.0, 95.1], **ONE_CLASS),
            runs([95.0, 95.0, 95.2], "mixed", **ONE_CLASS),
            "one_class",
            "inconclusive",
        ),
        (runs(BASELINE, **ONE_CLASS), runs(plus(SAME), "mixed"), None, "equivalent"),
        # Numbers whose last digit is coarser than the margin.
        (runs(BASELINE, unit=10.0), runs(plus(SAME), "mixed", unit=10.0), "rounded", "inconclusive"),
        (runs(BASELINE, unit=10.0), runs(plus(SAME), "mixed", unit=0.1), "rounded", "inconclusive"),
        (runs(BASELINE, unit=1.0), runs(plus(SAME), "mixed", unit=1.0), None, "equivalent"),
        # A difference that is the same at every seed is known no better than its rounding.
        (runs(BASELINE, unit=0.1), runs(plus([0.5] * 5), "mixed", unit=0.1), None, "equivalent but shifted"),
        (runs(BASELINE, unit=1.0), runs(plus([0.5] * 5), "mixed", unit=1.0), None, "equivalent"),
        (runs(BASELINE, unit=1.0), runs(plus([0.9] * 5), "mixed", unit=1.0), None, "different"),
        (runs(BASELINE[:2]), runs(BASELINE[:2], "mixed"), "too_few_seeds", "inconclusive"),
        # What is left of runs that failed is a selection; a large difference shows all the same.
        (runs(BASELINE), runs([*plus(SAME)[:4], None], "mixed"), "runs_failed", "inconclusive"),
        (runs([*BASELINE[:4], None]), runs(plus(SAME), "mixed"), "runs_failed", "inconclusive"),
        (runs(BASELINE), runs([*plus(SAME)[:4], None], "mixed", range(5, 10)), "runs_failed", "inconclusive"),
        (runs([*BASELINE[:4], None]), runs([*plus(WORSE)[:4], None], "mixed"), None, "different"),
        (runs(BASELINE), runs([*(v - 20 for v in plus(SAME)[:4]), None], "mixed"), "runs_failed", "different"),
        # Near chance all is equivalent.
        (runs([5.0, 5.2, 5.1]), runs([5.1, 5.1, 5.2], "mixed"), "near_chance", "inconclusive"),
        (runs([10.0, 10.2, 10.1]), runs([10.1, 10.1, 10.2], "mixed"), None, "equivalent"),
    ],
)  # fmt: skip
def test_uninformative_results_are_never_called_equivalent(theirs, ours, reason, outcome):
    found = beside(theirs, ours)
    assert (found["reason"], found["outcome"]) == (reason, outcome)
    if reason in ("identical", "one_class", "rounded", "too_few_seeds"):
        assert (found["p_equivalent"], found["difference"].low, found["most_loss"]) == (None, None, None)


def test_losses_are_not_checked_for_nearness_to_chance():
    """For losses, and metrics that are not shares, a margin may be up to half of the mean; for accuracies, a tenth."""
    theirs, ours = runs([2.1, 2.2, 2.0, 2.15]), runs([2.2, 2.1, 2.1, 2.1], "mixed")
    assert beside(theirs, ours, is_lower_better=True)["reason"] is None
    assert beside(theirs, ours)["reason"] == "near_chance"
    assert beside(runs([150.0, 152.0, 151.0]), runs([151.0, 152.0, 150.5], "mixed"), margin=20)["reason"] is None


def test_failures_are_counted_at_seeds_where_the_other_variant_completed():
    found = beside(runs([*BASELINE[:3], None, None]), runs([None, *plus(SAME)[1:4], None], "mixed"))
    assert (found["num_failed_baseline"], found["num_failed_candidate"]) == (1, 1)
    assert (found["num_diverged_candidate"], found["num_seeds"]) == (1, 2)
    lacking = beside(runs([*BASELINE[:4], None]), runs(plus(SAME)[:3], "mixed"))
    assert lacking["missing_candidate"] == ["3"]  # at the other seed the baseline has no result either


def test_the_bound_on_a_loss_accounts_for_the_other_recommendable_candidates():
    differences = [0.5, -0.9, 0.8, -0.6, -0.2]
    variants = {"a": runs(BASELINE), "b": runs(plus(differences), "mixed"), "c": runs(plus(SAME), "float16")}
    (found, other) = set_beside(variants, [("a", "b"), ("a", "c")], [0, 0], [2, 0], Question(0.7))
    bound = stats.ttest_1samp(differences, 0, alternative="greater").confidence_interval(1 - 0.05 / 2).low
    assert found["most_loss"] == pytest.approx(-bound)
    spread = np.std(differences, ddof=1)
    assert found["num_seeds_needed"] == num_seeds_needed(spread, 0.7, 2, is_one_sided=False)
    assert (other["most_loss"], other["p_loss_within_margin"]) == (None, None)  # a control, say


@pytest.mark.parametrize(
    "differences",
    [
        [0.5, -0.9, 0.8, -0.6],  # too few to know the spread
        [-2.0, -2.1, -1.9, -2.0, -2.2],  # a loss is shown, so no number would show that there is none
        [0.1, -0.1, 0.0, 0.1, -0.2],  # it is excluded
    ],
)
def test_no_number_of_seeds_is_suggested_if_more_seeds_would_not_help(differences):
    number = len(differences)
    found = beside(runs(BASELINE[:number]), runs(plus(differences), "mixed"))
    assert found["num_seeds_needed"] is None
