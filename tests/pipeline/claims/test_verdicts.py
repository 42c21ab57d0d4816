"""How a claim of each kind is judged, and what bars a verdict: another study, other hardware."""

import pytest
from comparisons import CPU, altered, comparison, ratio
from conftest import small_study

from pipeline.claims.claim import NotTestableError, check_variant
from pipeline.claims.evidence import Evidence
from pipeline.claims.claims_file import Claims
from pipeline.claims.verdicts import judge_claims
from pipeline.comparison.schema import Comparison
from pipeline.machine.hardware import Hardware
from pipeline.statistics.equivalence import equivalence, paired
from pipeline.statistics.intervals import Mean, proportion
from pipeline.study.configuration import validate

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
        "figures": [],
        "claims": [COMMON | claim],
        "findings": [],
    }
    return validate(Claims, values, "claims.yaml")


def variants() -> dict:
    return small_study().model_dump(mode="json")["variants"]


def judged(claim: dict, found: Comparison, hardware: Hardware = CPU, study=None, **numerics):
    """The verdict on one claim, with nothing but `found` and `numerics` to go by."""
    numerics = {"facts": {}, "samples": {}, "trials": []} | numerics
    (judgement,) = judge_claims(claims(claim), Evidence(study or small_study(), found, numerics, hardware))
    assert judgement.reason
    return judgement


@pytest.mark.parametrize(
    ("threshold", "low", "high", "verdict"),
    [
        ({"at_least": 2.0}, 2.1, 2.5, "reproduced"),
        ({"at_least": 2.0}, 1.2, 1.8, "in direction only"),
        ({"at_least": 2.0}, 0.5, 0.9, "not reproduced"),
        ({"at_least": 2.0}, 0.9, 1.1, "not reproduced"),
        ({"at_least": 2.0}, 0.9, 2.1, "inconclusive"),
        ({"at_least": 2.0}, None, None, "inconclusive"),
        ({"at_least": 1.0}, 0.8, 0.9, "not reproduced"),
        ({"at_most": 1.0}, 0.5, 0.9, "reproduced"),
        ({"at_most": 1.0}, 1.1, 1.2, "not reproduced"),
        ({"at_most": 1.2}, 1.05, 1.15, "reproduced"),
        ({"at_most": 0.5}, 0.6, 0.8, "in direction only"),
    ],
)
def test_speed(threshold, low, high, verdict):
    assert judged(SPEEDUP | threshold, comparison(low, high)).verdict == verdict


@pytest.mark.parametrize(
    ("threshold", "low", "high", "reason"),
    [
        ({"at_least": 1.05}, 0.95, 1.2, "one machine cannot decide this: allowing for other days, the interval is ±16"),
        ({"at_least": 1.05}, 1.06, 1.3, "the whole interval is at least 1.05×"),
        ({"at_least": 1.2}, 0.95, 1.3, "the interval reaches from below 1.2× to above it"),
        ({"at_most": 1.0}, 0.95, 1.2, "the interval reaches from below 1× to above it"),
    ],
)
def test_a_difference_smaller_than_days_differ_is_out_of_reach_of_one_machine(threshold, low, high, reason):
    """Unless it is so much larger than claimed that it shows all the same. Where nothing was measured, ±16 %."""
    assert judged(SPEEDUP | threshold, comparison(low, high)).reason.startswith(reason)


@pytest.mark.parametrize(
    ("threshold", "speedup", "again", "verdict"),
    [
        ({"at_least": 1.0}, (1.1, 1.3), (1.01, 0.97, 1.05), "reproduced"),
        ({"at_least": 1.0}, (1.1, 1.3), (1.4, 1.2, 1.6), "inconclusive"),
        ({"at_least": 1.0}, (1.1, 1.3), (1.4, 0.9, 2.1), "reproduced"),
        (
            {"at_most": 1.05},
            (0.98, 1.009),
            (1.01, 1.005, 1.015),
            "reproduced",
        ),  # that there is no gain, no chance feigns
        ({"at_least": 1.05}, (0.98, 1.009), (1.01, 1.005, 1.015), "not reproduced"),
    ],
)
def test_a_speedup_no_larger_than_what_the_baseline_has_over_itself_is_none(threshold, speedup, again, verdict):
    found = altered(comparison(*speedup), turns={"baseline_again": ratio(*again)})
    assert judged(SPEEDUP | threshold, found).verdict == verdict


def test_a_source_that_timed_whole_epochs_is_judged_by_whole_epochs():
    """Training alone is 1.2 times as fast, with validation 1.02 times."""
    claim = SPEEDUP | {"at_least": 1.1}
    assert judged(claim, comparison(1.15, 1.25)).verdict == "reproduced"
    judgement = judged(claim | {"with_validation": True}, comparison(1.15, 1.25))
    assert (judgement.verdict, judgement.measured) == (
        "in direction only",
        "1.02× the speed of float32, validation included [1.01, 1.03]",
    )


@pytest.mark.parametrize("changes", [{}, {"speedup": ratio(), "speedup_at_most": 0.3}])
def test_that_something_can_be_is_not_refuted_by_one_case(changes):
    claim = TWICE | {"existential": True}
    assert judged(claim, comparison(2.1, 2.5)).verdict == "reproduced"
    judgement = judged(claim, altered(comparison(0.5, 0.9), pairs=changes))
    assert judgement.verdict == "inconclusive"
    assert judgement.reason.endswith("; that it can be so, one case where it is not does not refute")
    assert judgement.would_change == "One case in which it is so."


WITHOUT_A_TEST = {"equivalence": equivalence(paired([0.01] * 5), 0.2)}
OF_ONE_SEED = {"equivalence": equivalence(paired([0.1]), 0.2), "num_seeds": 1}


def diverged(candidate: int, baseline: int) -> Comparison:
    return altered(comparison(failures={"diverged": candidate}), pairs={"baseline_failures": {"diverged": baseline}})


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (comparison(outcome="equivalent"), "reproduced", "equivalent within ±1 pp (TOST p = 0.02 after Holm)"),
        (comparison(outcome="equivalent but shifted"), "reproduced", "equivalent but shifted within ±1 pp (TOST p = "),
        (comparison(outcome="different", beyond=0.012), "not reproduced", "beyond ±1 pp (p = 0.012 after Holm)"),
        (comparison(outcome="different", beyond=0.06), "inconclusive", "within ±1 pp or beyond is open"),
        (comparison(outcome="different", needed=20), "inconclusive", "; 20 seeds would tell, if they go on as these"),
        (comparison(needed=12), "inconclusive", "neither equivalent within ±1 pp nor shown to differ; 12 seeds would"),
        (comparison(), "inconclusive", "not even 1,000 seeds would tell; if it is zero, 5 seeds would"),
        (altered(comparison(), pairs=WITHOUT_A_TEST), "inconclusive", "the same at every seed, which gives no test"),
        (altered(comparison(), pairs=OF_ONE_SEED), "inconclusive", "no interval from 1 seed that both completed, 3"),
        # Near chance equivalence shows little.
        (comparison(outcome="equivalent", accuracy=0.05), "inconclusive", "to be within ±1 pp of that shows little"),
        (comparison(outcome="different", accuracy=0.05), "inconclusive", "to differ from that shows little"),
        (comparison(accuracy=0.05), "inconclusive", "float32 itself reaches 5.0 %: to be within ±1 pp of that would"),
        # Runs that failed are not dropped. One that diverged counts where it is surely the candidate's.
        (comparison(outcome="equivalent", failures={"diverged": 1}), "not reproduced", "at which float32 did not"),
        (comparison(failures={"out_of_memory": 2}), "inconclusive", "completed; mixed ran out of memory at 2 seeds"),
        (diverged(1, 3), "inconclusive", "the other did not; mixed diverged at 1 seed; float32 diverged at 3 seeds"),
        (diverged(9, 1), "not reproduced", "diverged at 9 seeds"),
    ],
)
def test_accuracy(found, verdict, reason):
    judgement = judged(ACCURACY, found)
    assert judgement.verdict == verdict
    assert reason in judgement.reason
    assert judgement.measured.startswith("test accuracy −0.10 pp [−0.30, +0.10] beside float32, which reaches ")


def test_a_speed_verdict_names_the_runs_that_failed():
    judgement = judged(TWICE, comparison(2.1, 2.5, failures={"diverged": 2}))
    assert judgement.verdict == "reproduced"
    assert judgement.reason.endswith("; mixed diverged at 2 seeds")


@pytest.mark.parametrize(
    ("claimed", "verdict"),
    [
        ({"value": 0.9, "tolerance": 0.03}, "reproduced"),
        ({"value": 0.9, "tolerance": 0.01}, "inconclusive"),
        ({"value": 0.85, "tolerance": 0.01}, "not reproduced"),
        ({"value": 0.87, "tolerance": 0.03}, "inconclusive"),
    ],
)
def test_a_single_published_value_is_set_beside_one_more_run(claimed, verdict):
    """One more run may fall in [0.88, 0.92]: inside of the value's tolerance, outside of it, or neither."""
    judgement = judged(VALUE | claimed, comparison())
    assert judgement.verdict == verdict
    assert judgement.measured == "test accuracy 90.00 %; one more run would fall in [88.0, 92.0] % (95 %)"
    assert judged(VALUE | claimed | {"quantity": "validation_accuracy"}, comparison()).verdict == "inconclusive"
    judgement = judged(VALUE | claimed, altered(comparison(), variants={"completed": proportion(3, 8)}))
    assert (judgement.verdict, judgement.reason) == ("inconclusive", "3 of 8 runs completed, which are a selection")


@pytest.mark.parametrize(("quantity", "interval"), [("test_accuracy", "[30.0, 100.0] %"), ("test_loss", "[0, 2.2]")])
def test_one_more_run_falls_within_what_can_be(quantity, interval):
    low, high = (0.3, 1.4) if quantity == "test_accuracy" else (-1.3, 2.2)
    found = altered(comparison(), variants={quantity: Mean(mean=0.8, low=0.7, high=0.9, new_low=low, new_high=high)})
    assert judged(VALUE | {"quantity": quantity}, found).measured.endswith(
        f"one more run would fall in {interval} (95 %)"
    )


@pytest.mark.parametrize(("at_most", "verdict"), [(0.6, "reproduced"), (0.4, "in direction only")])
def test_memory(at_most, verdict):
    assert judged({"kind": "memory", "at_most": at_most} | OF_MIXED, comparison()).verdict == verdict


@pytest.mark.parametrize(
    ("outcome", "outcomes", "verdict"),
    [
        ("completed", {"completed": 3}, "reproduced"),
        ("completed", {"out_of_memory": 3}, "not reproduced"),
        ("completed", {"completed": 2, "out_of_memory": 1}, "inconclusive"),
        ("completed", {"too_slow": 3}, "inconclusive"),
        ("completed", {"diverged": 3}, "inconclusive"),
        ("out_of_memory", {"completed": 2, "diverged": 1}, "not reproduced"),
        ("out_of_memory", {"completed": 2, "too_slow": 1}, "inconclusive"),
    ],
)
def test_an_outcome(outcome, outcomes, verdict):
    """A run that was ended for its time shows neither that it fits nor that it does not; one that diverged did fit."""
    claim = {"kind": "outcome", "outcome": outcome} | OF_MIXED
    judgement = judged(claim, altered(comparison(), variants={"outcomes": outcomes}))
    assert judgement.verdict == verdict
    assert all(f"{count} " in judgement.measured for count in outcomes.values())


@pytest.mark.parametrize(
    ("skips", "verdict"),
    [
        (proportion(0, 20_000), "reproduced"),
        (proportion(0, 72), "inconclusive"),  # which leaves 5 % possible
        (proportion(900, 20_000), "not reproduced"),
        (None, "inconclusive"),
    ],
)
def test_very_few_skipped_steps_are_less_than_one_in_a_hundred(skips, verdict):
    claim = {"kind": "late_skips", "at_most": 1.0} | OF_MIXED
    assert judged(claim, altered(comparison(), variants={"late_skips": skips})).verdict == verdict


@pytest.mark.parametrize(
    ("claimed", "facts", "verdict"),
    [
        ({"bytes_per_value.float16": 2}, {"bytes_per_value.float16": 2}, "reproduced"),
        ({"square_of_256.bfloat16": 65536.0}, {"square_of_256.bfloat16": "65536.0"}, "reproduced"),  # JSON has no "inf"
        ({"square_of_256.bfloat16": 65536.0}, {"square_of_256.bfloat16": "65537.0"}, "not reproduced"),
        ({"square_of_256.bfloat16": 65536.0}, {"square_of_256.bfloat16": "inf"}, "not reproduced"),
        ({"square_of_256.float16": "inf"}, {"square_of_256.float16": "inf"}, "reproduced"),
        ({"square_of_256.float16": "inf"}, {}, "not testable here"),
    ],
)
def test_facts_hold_exactly_or_not(claimed, facts, verdict):
    assert judged({"kind": "fact", "quantities": claimed}, comparison(), facts=facts).verdict == verdict


def test_of_several_facts_those_that_are_wrong_are_named():
    claim = {"kind": "fact", "quantities": {"square_of_256.float16": "inf", "bytes_per_value.float16": 2}}
    judgement = judged(claim, comparison(), facts={"square_of_256.float16": "inf", "bytes_per_value.float16": 4})
    assert (judgement.verdict, judgement.reason, judgement.measured) == (
        "not reproduced",
        "the claim expects: a value takes 2 bytes in float16",
        "256² is infinite in float16; a value takes 4 bytes in float16",
    )


@pytest.mark.parametrize(
    ("trains", "count", "float32", "verdict"),
    [
        (False, 0, 0.9, "reproduced"),
        (False, 6, 0.9, "not reproduced"),
        (True, 6, 0.9, "reproduced"),
        (True, 0, 0.9, "not reproduced"),
        (True, 4, 0.9, "inconclusive"),
        (False, 0, 0.03, "inconclusive"),  # a float32 that does not learn
    ],
)
def test_trials(trains, count, float32, verdict):
    """None of six leaves a share of up to 46 %: it fails at more than half of the seeds."""
    claim = {"kind": "trial", "trial": "adam.float16", "trains": trains}
    trial = {"name": "adam.float16", "num_trained": count, "num_trials": 6, "float32_accuracies": 6 * [float32]}
    trial["accuracies"] = [0.441, 0.573, 0.5, 0.5, 0.5, 0.5]
    judgement = judged(claim, comparison(), trials=[trial])
    assert judgement.verdict == verdict
    assert judgement.measured.endswith(f"%: it reaches 44.1 to 57.3 %, float32 {100 * float32:.1f} %")
    assert judged(claim, comparison()).verdict == "not testable here"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2, 2, 2, 2, 2, 3], "reproduced"),  # by the interval of the mean
        ([0, 0, 0, 0, 0, 1], "not reproduced"),
        ([2] * 6, "reproduced"),
        ([0] * 6, "not reproduced"),
        ([2] * 5, "inconclusive"),  # which half of all tries may not give
        ([2], "inconclusive"),
        ([0, 2, 0], "inconclusive"),
    ],
)
def test_tries_that_agree_decide_only_where_there_are_enough_of_them(values, verdict):
    claim = {"kind": "sample", "sample": "skipped_steps.wide", "at_least": 1.0}
    judgement = judged(claim, comparison(), samples={"skipped_steps.wide": values})
    assert (judgement.verdict, bool(judgement.measured)) == (verdict, True)
    assert judged(claim, comparison()).verdict == "not testable here"


@pytest.mark.parametrize(
    ("count", "verdict", "reason"),
    [
        (8018, "reproduced", "8,018 is at least 5,001"),
        (0, "not reproduced", "0 lies below 5,001"),
        (None, "not testable here", "this study did not count it"),
    ],
)
def test_a_number_that_is_counted_has_no_interval(count, verdict, reason):
    claim = {"kind": "sample", "sample": "notebook_split.num_trained_on", "at_least": 5001}
    facts = {} if count is None else {"notebook_split.num_trained_on": count}
    judgement = judged(claim, comparison(), facts=facts)
    assert (judgement.verdict, judgement.evidence) == (verdict, None if count is None else "counted")
    assert judgement.reason == reason


GPU = {"hardware": "nvidia_gpu"}
V100, P100 = Hardware("nvidia_gpu", "V100", 7.0, memory_bytes=2**34), Hardware("nvidia_gpu", "P100", 6.0)


@pytest.mark.parametrize(
    ("needs", "hardware", "lacking"),
    [
        (GPU | {"min_compute_capability": 7.0}, CPU, "an NVIDIA GPU of compute capability ≥ 7.0"),
        (GPU | {"min_compute_capability": 7.0}, Hardware("tpu", "v5e"), "an NVIDIA GPU of compute capability ≥ 7.0"),
        (GPU | {"min_compute_capability": 7.0}, P100, "an NVIDIA GPU of compute capability ≥ 7.0"),
        (GPU | {"min_compute_capability": 7.0}, V100, ""),
        (GPU | {"max_compute_capability": 6.9}, P100, ""),
        (GPU | {"max_compute_capability": 6.9}, V100, "an NVIDIA GPU of compute capability ≤ 6.9"),
        (GPU | {"max_memory_gb": 17.2}, V100, ""),
        (GPU | {"max_memory_gb": 17.2}, P100, "an NVIDIA GPU with at most 17 GB"),  # its memory is unknown
        (GPU | {"max_memory_gb": 17.1}, V100, "an NVIDIA GPU with at most 17 GB"),
        (GPU | {"min_memory_gb": 18.0}, V100, "an NVIDIA GPU with at least 18 GB"),
        ({"hardware": "intel_cpu"}, Hardware("cpu", "Intel(R) Xeon(R)"), ""),
        ({"hardware": "intel_cpu"}, Hardware("cpu", "AMD EPYC"), "an Intel CPU"),
    ],
)
def test_a_claim_is_judged_only_on_the_hardware_it_is_made_for(needs, hardware, lacking):
    judgement = judged(TWICE | {"needs": needs}, comparison(2.1, 2.5), hardware)
    assert judgement.verdict == ("not testable here" if lacking else "reproduced")
    assert judgement.reason == (f"needs {lacking}" if lacking else "the whole interval is at least 2×")


def test_a_claim_on_hardware_that_some_seeds_were_trained_without_is_not_judged():
    evidence = Evidence(small_study(), comparison(2.1, 2.5), {}, V100, elsewhere=[CPU])
    (judgement,) = judge_claims(claims(TWICE | {"needs": GPU}), evidence)
    assert (judgement.verdict, judgement.reason) == ("not testable here", "needs an NVIDIA GPU")


ALONE = {
    "benchmarks": {"wide": small_study().model_dump(mode="json")["benchmarks"]["wide"]},
    "comparison": {"baseline": "float32", "num_warmup_epochs": 1, "margin_pp": {"wide": 1.0}},
}
OTHER_MIXED = variants() | {"mixed": {"policy": "mixed_bfloat16", "batch_multiplier": 1, "loop": "custom"}}
RECIPE = {"needs": {"hardware": "anything", "recipe": {"model.units": 4096}}}


@pytest.mark.parametrize(
    ("claim", "study", "reason"),
    [
        (TWICE | {"candidate": "other"}, {}, "the study does not run other on wide"),
        (TWICE | {"benchmark": "narrow"}, {}, "the study does not run mixed on narrow"),
        (TWICE | {"baseline": "float32_2x"}, {}, "the study does not compare mixed with float32_2x"),
        (VALUE | RECIPE | {"benchmark": "narrow"}, ALONE, "the study does not train narrow"),
        (TWICE, {"variants": OTHER_MIXED}, "by mixed this study means something else than the claim"),
    ],
)
def test_a_study_that_lacks_what_a_claim_is_about_says_so(claim, study, reason):
    judgement = judged(claim, comparison(2.1, 2.5), study=small_study(**study))
    assert (judgement.verdict, judgement.measured, judgement.reason) == ("not testable here", None, reason)


def test_a_baseline_of_a_name_that_no_claim_knows_is_not_testable():
    known = claims(TWICE).variants
    others = {name: variant for name, variant in known.items() if name != "float32"}
    with pytest.raises(NotTestableError, match="by float32 this study means something else than the claim"):
        check_variant(others, small_study(), "wide", "float32")
    check_variant(known, small_study(), "wide", "float32")


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(2.1, 2.5, "found"), (1.2, 1.8, "not found"), (0.5, 0.9, "not found"), (0.9, 2.1, "open")],
)
def test_an_experiment_of_ours_is_found_or_not_and_never_reproduced(low, high, answer):
    asked = claims(TWICE)
    both = asked.model_copy(update={"findings": [asked.claims[0].model_copy(update={"id": "ours"})]})
    claim, finding = judge_claims(both, Evidence(small_study(), comparison(low, high), numerics={}, hardware=CPU))
    assert (claim.is_finding, finding.is_finding, finding.verdict) == (False, True, answer)
    assert (finding.asked, finding.threshold) == ("the speed of mixed in wide, beside float32", "at least 2×")
