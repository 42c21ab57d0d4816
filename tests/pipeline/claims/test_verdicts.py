"""Verdicts of each kind of claim, and the studies and hardware that allow none."""

import math

import pytest
from comparisons import CPU, between, pair, run, tables
from conftest import small_study

from pipeline.claims.claim import Evidence, NotTestableError, check_variant
from pipeline.claims.claims_file import Claims
from pipeline.claims.verdicts import judge_claims
from pipeline.comparison.tables import Tables
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import TRIALS
from pipeline.study.configuration import validate
from pipeline.words.sentences import Said, sentence

COMMON = {"id": "a", "source": "S", "statement": "It is so.", "needs": {"hardware": "anything"}}
OF_MIXED = {"benchmark": "wide", "candidate": "mixed"}
SPEEDUP, ACCURACY = {"kind": "speedup"} | OF_MIXED, {"kind": "same_accuracy"} | OF_MIXED
VALUE = {"kind": "value", "quantity": "test_accuracy", "value": 0.9, "tolerance": 0.03} | OF_MIXED
TWICE = SPEEDUP | {"at_least": 2.0}


def claims(claim: dict) -> Claims:
    values = {
        "sources": {"S": {"title": "T", "hardware": "H"}},
        "benchmarks": {"wide": "", "narrow": ""},
        "variants": variants() | {"other": {"policy": "float16", "batch_multiplier": 1}},
        "claims": [COMMON | claim],
        "findings": [],
    }
    return validate(Claims, values, "claims.yaml")


def variants() -> dict:
    return small_study().model_dump(mode="json")["variants"]


def judged(claim: dict, found: Tables, study=None, **numerics):
    """The verdict on one claim, with nothing but `found` and `numerics` to go by."""
    numerics = {"facts": {}, "samples": {}, "trials": []} | numerics
    (judgement,) = judge_claims(claims(claim), Evidence(study or small_study(), found, numerics))
    for said in (judgement.reason, *judgement.measured, judgement.would_change):
        assert said is None or sentence(said)
    return judgement


@pytest.mark.parametrize(
    ("threshold", "low", "high", "verdict"),
    [
        ({"at_least": 2.0}, 2.1, 2.5, "reproduced"),
        ({"at_least": 2.0}, 1.2, 1.8, "in direction only"),
        ({"at_least": 2.0}, 0.5, 0.9, "not reproduced"),
        ({"at_least": 2.0}, 0.9, 2.1, "inconclusive"),
        ({"at_least": 2.0}, None, None, "inconclusive"),
        ({"at_most": 1.0}, 0.5, 0.9, "reproduced"),
        ({"at_most": 1.0}, 1.1, 1.2, "not reproduced"),
    ],
)
def test_the_speedup_interval_decides_a_speedup_claim(threshold, low, high, verdict):
    assert judged(SPEEDUP | threshold, tables(low, high)).verdict == verdict


@pytest.mark.parametrize(
    ("threshold", "low", "high", "reason", "more"),
    [
        ({"at_least": 1.05}, 0.95, 1.2, "speedup.out_of_reach", "machines"),
        ({"at_least": 1.05}, 1.06, 1.3, "threshold.holds", None),
        ({"at_least": 1.2}, 0.95, 1.3, "threshold.inside", "machines"),  # the ratio is 1.11, 8 % away
        ({"at_least": 1.4}, 0.95, 1.5, "threshold.inside", "launches"),  # 1.19, 17 % away
        ({"at_most": 1.0}, 0.95, 1.2, "threshold.inside", "machines"),
    ],
)
def test_a_speedup_smaller_than_day_to_day_variation_cannot_be_shown_on_one_machine(threshold, low, high, reason, more):
    """Unless it is so much larger than claimed that it shows anyway. Even a sitting without error has ±16 %."""
    judgement = judged(SPEEDUP | threshold, tables(low, high))
    assert judgement.reason.code == f"claim.{reason}"
    assert judgement.would_change == (more and Said(f"more.{more}"))
    if reason == "speedup.out_of_reach":
        assert judgement.reason.numbers["days"] == pytest.approx(0.158, abs=0.001)


@pytest.mark.parametrize(
    ("threshold", "speedup", "again", "verdict"),
    [
        ({"at_least": 1.0}, (1.1, 1.3), (1.2, 1.6, 1.4), "inconclusive"),
        ({"at_least": 1.0}, (1.1, 1.3), (0.9, 2.1, 1.4), "reproduced"),
        ({"at_most": 1.05}, (0.98, 1.009), (1.005, 1.015, 1.01), "reproduced"),
    ],
)
def test_a_speedup_that_the_baseline_also_has_over_itself_is_inconclusive(threshold, speedup, again, verdict):
    """Chance can't imitate the absence of a gain."""
    assert judged(SPEEDUP | threshold, tables(*speedup, again=again)).verdict == verdict


@pytest.mark.parametrize(
    ("networks", "threshold", "first", "verdict"),
    [("some", {"at_least": 2.0}, 1.8, "inconclusive"), ("every", {"at_most": 1.0}, 1.8, "not reproduced")],
)
def test_the_strongest_case_comes_first_and_its_opposite_second(networks, threshold, first, verdict):
    found = tables(1.1, 1.3)
    for name, low, high in (("mixed_2x", 1.6, 2.1), ("float32_2x", 0.3, 0.5)):
        found.pairs.append(pair(CPU, candidate=name, speedup=between(low, high)))
    claim = SPEEDUP | threshold | {"networks": networks, "also": ["mixed_2x", "float32_2x"]}
    judgement = judged(claim, found)
    assert judgement.verdict == verdict
    speeds = [said.numbers["ratio"].value for said in judgement.measured]
    assert speeds == pytest.approx([first, 0.4, 1.2], abs=0.06)


@pytest.mark.parametrize(("share", "verdict"), [(None, "reproduced"), (0.25, "reproduced"), (0.26, "inconclusive")])
def test_speeds_from_a_busy_machine_are_inconclusive(share, verdict):
    """Other programs may take a quarter of the CPU time."""
    judgement = judged(TWICE, tables(2.5, 3.0, other_cpu_share=share))
    assert judgement.verdict == verdict
    assert (judgement.reason.code == "claim.speedup.busy") == (verdict == "inconclusive")


def test_a_claim_of_a_source_that_timed_whole_epochs_is_judged_by_whole_epochs():
    """Training alone is 1.2 times as fast, with validation 1.02 times."""
    claim = SPEEDUP | {"at_least": 1.1}
    assert judged(claim, tables(1.15, 1.25)).verdict == "reproduced"
    judgement = judged(claim | {"with_validation": True}, tables(1.15, 1.25))
    assert judgement.verdict == "in direction only"
    assert (judgement.measured[0].numbers["ratio"].low, judgement.measured[0].numbers["whole"]) == (1.01, True)


@pytest.mark.parametrize(
    ("cells", "verdict", "code"),
    [
        ({"outcome": "equivalent"}, "reproduced", "equivalent"),
        ({"outcome": "equivalent but shifted"}, "reproduced", "equivalent"),
        ({"outcome": "different", "p_beyond_margin": 0.012}, "not reproduced", "beyond"),
        ({"outcome": "different", "p_beyond_margin": 0.06, "num_seeds_needed": 20}, "inconclusive", "different"),
        ({"num_seeds_needed": 12}, "inconclusive", "inconclusive"),
        *(
            ({"reason": reason}, "inconclusive", reason)
            for reason in ("rounded", "too_few_seeds", "identical", "one_class", "near_chance", "runs_failed")
        ),
        ({"reason": "near_chance", "outcome": "different", "p_beyond_margin": 0.01}, "inconclusive", "near_chance"),
        # Runs that failed are not dropped. One that diverged counts where it is surely the candidate's.
        ({"outcome": "equivalent", "num_diverged_candidate": 1}, "not reproduced", "diverged"),
        ({"num_diverged_candidate": 1, "num_diverged_baseline": 3}, "inconclusive", "each_diverged"),
        ({"num_diverged_candidate": 9, "num_diverged_baseline": 1}, "not reproduced", "diverged"),
    ],
)
def test_equivalence_tests_and_failed_runs_decide_a_same_accuracy_claim(cells, verdict, code):
    judgement = judged(ACCURACY, tables(**cells))
    assert (judgement.verdict, judgement.reason.code) == (verdict, f"claim.same_accuracy.{code}")
    assert judgement.measured[0].numbers["difference_pp"].value == -0.1


@pytest.mark.parametrize(
    ("claimed", "verdict"),
    [
        ({"value": 0.9, "tolerance": 0.03}, "reproduced"),
        ({"value": 0.9, "tolerance": 0.01}, "inconclusive"),
        ({"value": 0.85, "tolerance": 0.01}, "not reproduced"),
    ],
)
def test_a_published_value_is_compared_with_the_interval_of_one_more_run(claimed, verdict):
    """One more run may fall in [0.88, 0.92]: inside of the value's tolerance, outside of it, or neither."""
    judgement = judged(VALUE | claimed, tables())
    assert judgement.verdict == verdict
    new = judgement.measured[1].numbers["new"]
    assert (new.low, new.high) == (pytest.approx(0.88, abs=1e-5), pytest.approx(0.92, abs=1e-5))
    failed = [*tables().runs, run("mixed", 3, outcome="diverged", test_accuracy=None)]
    judgement = judged(VALUE | claimed, tables(runs=failed))
    assert (judgement.verdict, judgement.reason.code) == ("inconclusive", "claim.value.selection")
    assert judged(VALUE | claimed, tables(runs=tables().runs[:5])).reason.code == "claim.value.too_few_seeds"


@pytest.mark.parametrize(("quantity", "least", "most"), [("test_accuracy", 0, 1), ("test_loss", 0, math.inf)])
def test_the_interval_of_one_more_run_stays_within_possible_values(quantity, least, most):
    far = [run("mixed", seed, **{quantity: value}) for seed, value in enumerate([0.1, 0.9, 0.95])]
    new = judged(VALUE | {"quantity": quantity}, tables(runs=far)).measured[1].numbers["new"]
    assert new.low == least
    assert 1 <= new.high <= most


@pytest.mark.parametrize(
    ("at_most", "verdict"), [(0.6, "reproduced"), (0.5, "inconclusive"), (0.4, "in direction only")]
)
def test_the_memory_ratio_interval_decides_a_memory_claim(at_most, verdict):
    assert judged({"kind": "memory", "at_most": at_most} | OF_MIXED, tables()).verdict == verdict


@pytest.mark.parametrize(
    ("outcome", "outcomes", "verdict"),
    [
        ("completed", {"completed": 3}, "reproduced"),
        ("completed", {"out_of_memory": 3}, "not reproduced"),
        ("completed", {"completed": 2, "out_of_memory": 1}, "inconclusive"),
        ("completed", {"diverged": 3}, "inconclusive"),
        ("out_of_memory", {"completed": 2, "diverged": 1}, "not reproduced"),
        ("out_of_memory", {"completed": 2, "too_slow": 1}, "inconclusive"),
    ],
)
def test_the_outcomes_of_runs_decide_an_outcome_claim(outcome, outcomes, verdict):
    """A run that was ended for taking too long does not show whether it fits; one that diverged did fit."""
    claim = {"kind": "outcome", "outcome": outcome} | OF_MIXED
    ended = [each for each, count in outcomes.items() for _ in range(count)]
    judgement = judged(claim, tables(runs=[run("mixed", seed, outcome=each) for seed, each in enumerate(ended)]))
    assert judgement.verdict == verdict
    assert {said.numbers["outcome"]: said.numbers["count"] for said in judgement.measured} == outcomes


@pytest.mark.parametrize(
    ("skips", "verdict"),
    [
        ((0, 20_000), "reproduced"),
        ((15, 2000), "inconclusive"),
        ((0, 72), "not testable here"),  # too few steps for the loss scale to grow
        ((900, 20_000), "not reproduced"),
        ((None, None), "not testable here"),
    ],
)
def test_the_share_of_late_skipped_steps_decides_a_late_skips_claim(skips, verdict):
    claim = {"kind": "late_skips", "at_most": 1.0} | OF_MIXED
    made = [run("mixed", 0, num_late_skips=skips[0], num_late_steps=skips[1])]
    assert judged(claim, tables(runs=made)).verdict == verdict


@pytest.mark.parametrize(
    ("claimed", "facts", "verdict"),
    [
        ({"square_of_256.bfloat16": 65536.0}, {"square_of_256.bfloat16": "65536.0"}, "reproduced"),  # JSON has no "inf"
        ({"square_of_256.float16": "inf"}, {}, "not testable here"),
    ],
)
def test_a_fact_claim_is_compared_exactly_and_is_not_testable_without_the_fact(claimed, facts, verdict):
    assert judged({"kind": "fact", "quantities": claimed}, tables(), facts=facts).verdict == verdict


@pytest.mark.parametrize(
    ("trains", "count", "float32", "verdict"),
    [
        (False, 0, 0.9, "reproduced"),
        (True, 0, 0.9, "not reproduced"),
        (True, 4, 0.9, "inconclusive"),
        (False, 0, 0.03, "inconclusive"),  # a float32 that does not learn
    ],
)
def test_the_number_of_successful_trials_decides_a_trial_claim(trains, count, float32, verdict):
    """None of six leaves a share of up to 46 %: it fails at more than half of the seeds."""
    claim = {"kind": "trial", "trial": "adam.float16", "trains": trains}
    trial = TRIALS[0]._asdict() | {"num_trained": count, "num_trials": 6, "float32_accuracies": 6 * [float32]}
    trial["accuracies"] = [0.441, 0.573, 0.5, 0.5, 0.5, 0.5]
    judgement = judged(claim, tables(), trials=[trial])
    assert judgement.verdict == verdict
    assert judgement.measured[0].numbers["num_trained"] == count
    assert judged(claim, tables()).verdict == "not testable here"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2, 2, 2, 2, 2, 3], "reproduced"),  # by the interval of the mean
        ([2] * 6, "reproduced"),
        ([0] * 6, "not reproduced"),
        ([2] * 5, "inconclusive"),  # which half of all tries may not give
        ([2], "inconclusive"),
    ],
)
def test_equal_samples_decide_a_claim_only_if_there_are_enough_of_them(values, verdict):
    claim = {"kind": "sample", "sample": "skipped_steps.wide", "at_least": 1.0}
    judgement = judged(claim, tables(), samples={"skipped_steps.wide": values})
    assert (judgement.verdict, bool(judgement.measured)) == (verdict, True)
    assert judged(claim, tables()).verdict == "not testable here"


GPU = {"hardware": "nvidia_gpu"}
V100, P100 = Hardware("nvidia_gpu", "V100", 7.0, memory_bytes=2**34), Hardware("nvidia_gpu", "P100", 6.0)


@pytest.mark.parametrize(
    ("needs", "hardware", "fits"),
    [
        (GPU | {"min_compute_capability": 7.0}, CPU, False),
        (GPU | {"min_compute_capability": 7.0}, P100, False),
        (GPU | {"min_compute_capability": 7.0}, V100, True),
        (GPU | {"max_compute_capability": 6.9}, V100, False),
        (GPU | {"max_memory_gb": 17.2}, V100, True),
        (GPU | {"max_memory_gb": 17.2}, P100, False),  # its memory is unknown
        (GPU | {"min_memory_gb": 18.0}, V100, False),
        ({"hardware": "intel_cpu"}, Hardware("cpu", "Intel(R) Xeon(R)"), True),
        ({"hardware": "intel_cpu"}, Hardware("cpu", "AMD EPYC"), False),
    ],
)
def test_a_claim_is_judged_only_on_the_hardware_it_is_made_for(needs, hardware, fits):
    judgement = judged(TWICE | {"needs": needs}, tables(2.1, 2.5, hardware=hardware))
    assert judgement.verdict == ("reproduced" if fits else "not testable here")
    assert judgement.reason.code == ("claim.threshold.holds" if fits else "lack.hardware")


ALONE = {
    "benchmarks": {"wide": small_study().model_dump(mode="json")["benchmarks"]["wide"]},
    "comparison": {"baseline": "float32", "margin_pp": {"wide": 1.0}},
}
OTHER_MIXED = variants() | {"mixed": {"policy": "mixed_bfloat16", "batch_multiplier": 1, "loop": "custom"}}
RECIPE = {"needs": {"hardware": "anything", "recipe": {"model.units": 4096}}}


@pytest.mark.parametrize(
    ("claim", "study", "reason"),
    [
        (TWICE | {"candidate": "other"}, {}, "lack.variant"),
        (TWICE | {"baseline": "float32_2x"}, {}, "lack.pair"),
        (VALUE | RECIPE | {"benchmark": "narrow"}, ALONE, "lack.benchmark"),
        (TWICE, {"variants": OTHER_MIXED}, "lack.meaning"),
    ],
)
def test_a_claim_about_something_the_study_lacks_is_not_testable(claim, study, reason):
    judgement = judged(claim, tables(2.1, 2.5), study=small_study(**study))
    assert (judgement.verdict, judgement.measured, judgement.reason.code) == ("not testable here", [], reason)


def test_a_baseline_unknown_to_the_claims_is_not_testable():
    known = claims(TWICE).variants
    others = {name: variant for name, variant in known.items() if name != "float32"}
    with pytest.raises(NotTestableError, match=r"lack\.meaning"):
        check_variant(others, small_study(), "wide", "float32")
    check_variant(known, small_study(), "wide", "float32")


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(2.1, 2.5, "found"), (1.2, 1.8, "not found"), (0.9, 2.1, "open")],
)
def test_our_own_findings_are_found_or_not_but_never_called_reproduced(low, high, answer):
    asked = claims(TWICE)
    both = asked.model_copy(update={"findings": [asked.claims[0].model_copy(update={"id": "ours"})]})
    claim, finding = judge_claims(both, Evidence(small_study(), tables(low, high), numerics=None))
    assert (claim.is_finding, finding.is_finding, finding.verdict) == (False, True, answer)
