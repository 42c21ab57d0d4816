from collections import Counter

import pytest
import yaml
from comparisons import CPU, comparison, ratio
from conftest import REPOSITORY, small_study

from pipeline.claims.claim import NotTestableError, check_variant
from pipeline.claims.evidence import Evidence
from pipeline.claims.schema import Claims, load_claims
from pipeline.claims.verdicts import judge_claims
from pipeline.comparison.schema import Comparison
from pipeline.errors import InputError
from pipeline.machine.hardware import Hardware, hardware_of
from pipeline.statistics.equivalence import equivalence, paired
from pipeline.statistics.intervals import Mean, Proportion, proportion
from pipeline.study.configuration import validate
from pipeline.study.schema import load_study

COMMON = {"id": "a", "source": "S", "statement": "It is so.", "needs": {"hardware": "anything"}}
SPEEDUP = {"kind": "speedup", "benchmark": "wide", "candidate": "mixed", "at_least": 2.0}
ACCURACY = {"kind": "same_accuracy", "benchmark": "wide", "candidate": "mixed"}


def claims(claim: dict, **changes) -> Claims:
    values = {
        "sources": {"S": {"title": "T", "hardware": "H"}},
        "benchmarks": ["wide", "narrow"],
        "variants": small_study().model_dump(mode="json")["variants"]
        | {"other": {"policy": "float16", "batch_multiplier": 1}},
        "figures": [],
        "claims": [COMMON | claim | changes],
        "findings": [],
    }
    return validate(Claims, values, "claims.yaml")


def judged(claim: dict, comparison: Comparison, hardware: Hardware = CPU, **more):
    """The verdict on one claim, with nothing but `comparison` to go by."""
    evidence = Evidence(
        study=more.get("study", small_study()),
        comparison=comparison,
        numerics={"facts": {}, "samples": {}, "trials": []} | more.get("numerics", {}),
        hardware=hardware,
    )
    (judgement,) = judge_claims(claims(claim), evidence)
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
        ({"at_least": 1.0}, 1.1, 1.2, "reproduced"),
        ({"at_least": 1.0}, 0.8, 0.9, "not reproduced"),
        ({"at_most": 1.0}, 0.5, 0.9, "reproduced"),
        ({"at_most": 1.0}, 1.1, 1.2, "not reproduced"),
        ({"at_most": 1.0}, 0.9, 1.1, "inconclusive"),
        ({"at_most": 1.2}, 1.05, 1.15, "reproduced"),
        ({"at_most": 0.5}, 0.6, 0.8, "in direction only"),
    ],
)
def test_speed(threshold, low, high, verdict):
    judgement = judged(SPEEDUP | {"at_least": None} | threshold, comparison(low, high))
    assert judgement.verdict == verdict


OUT_OF_REACH = (
    "one machine cannot decide this: the interval, with other days in it, is ±16 % or wider, and the claim is of"
)


@pytest.mark.parametrize(
    ("threshold", "low", "high", "reason"),
    [
        (
            {"at_least": 1.05},
            0.95,
            1.2,
            f"{OUT_OF_REACH} 5 %",
        ),
        (
            {"at_most": 1.01},
            0.9,
            1.2,
            f"{OUT_OF_REACH} 1 %",
        ),
        ({"at_least": 1.05}, 1.06, 1.3, "the whole interval lies at 1.05× or above"),
        ({"at_least": 1.2}, 0.95, 1.3, "the interval reaches from below 1.2× to above it"),
        ({"at_most": 1.0}, 0.95, 1.2, "the interval reaches from below 1× to above it"),
    ],
)
def test_a_difference_smaller_than_days_differ_is_out_of_reach_of_one_machine(threshold, low, high, reason):
    """Unless it is so much larger than claimed that it shows all the same. Where nothing was measured, ±16 %."""
    judgement = judged(SPEEDUP | {"at_least": None} | threshold, comparison(low, high))
    assert judgement.reason == reason


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("equivalent", "reproduced"),
        ("equivalent but shifted", "reproduced"),
        ("different", "inconclusive"),
        ("inconclusive", "inconclusive"),
    ],
)
def test_accuracy(outcome, verdict):
    judgement = judged(ACCURACY, comparison(outcome=outcome))
    assert judgement.verdict == verdict
    assert judgement.measured == "test accuracy −0.10 pp [−0.30, +0.10] beside float32, which reaches 90.0 %"


def test_only_a_difference_beyond_the_margin_contradicts_the_same_accuracy():
    judgement = judged(ACCURACY, comparison(outcome="different", needed=20))
    assert judgement.reason == (
        "there is a difference, and whether it lies within ±1 pp or beyond is open; "
        "20 seeds would tell, if they go on as these"
    )
    judgement = judged(ACCURACY, comparison(outcome="different", beyond=0.012))
    assert (judgement.verdict, judgement.reason) == (
        "not reproduced",
        "the difference lies beyond ±1 pp (p = 0.012 after Holm)",
    )
    assert judged(ACCURACY, comparison(outcome="different", beyond=0.06)).verdict == "inconclusive"


def test_an_inconclusive_accuracy_says_how_many_seeds_would_decide():
    reason = judged(ACCURACY, comparison(needed=12)).reason
    assert reason.endswith("; 12 seeds would tell, if they go on as these")
    reason = judged(ACCURACY, comparison()).reason
    near = "if the true difference is the mean found, near the margin, not even 1,000 seeds would tell"
    assert reason.endswith(f"; {near}; if it is zero, 5 seeds would")


@pytest.mark.parametrize(
    ("failures", "verdict", "reason"),
    [
        ({"diverged": 1}, "not reproduced", "diverged at 1 seed at which float32 did not"),
        ({"out_of_memory": 2}, "inconclusive", "only some runs completed; mixed ran out of memory at 2 seeds"),
    ],
)
def test_runs_that_failed_are_not_dropped_from_the_verdict(failures, verdict, reason):
    judgement = judged(ACCURACY, comparison(outcome="equivalent", failures=failures))
    assert (judgement.verdict, judgement.reason) == (verdict, reason)


def test_a_speed_verdict_names_the_runs_that_failed():
    judgement = judged(SPEEDUP, comparison(2.1, 2.5, failures={"diverged": 2}))
    assert judgement.verdict == "reproduced"
    assert judgement.reason.endswith("; mixed diverged at 2 seeds")


def test_near_chance_equivalence_shows_little():
    judgement = judged(ACCURACY, comparison(outcome="equivalent", accuracy=0.05))
    assert judgement.verdict == "inconclusive"
    assert judgement.reason == "float32 itself reaches 5.0 %: to be within ±1 pp of that shows little"
    assert judged(ACCURACY, comparison(outcome="different", accuracy=0.05)).reason == (
        "float32 itself reaches 5.0 %: to differ from that shows little"
    )
    assert judged(ACCURACY, comparison(outcome="inconclusive", accuracy=0.05, needed=11)).reason == (
        "float32 itself reaches 5.0 %: to be within ±1 pp of that would show little"
    )


def test_a_difference_without_spread_is_no_test_however_many_seeds():
    found = comparison()
    (pair,) = found.pairs
    test = equivalence(paired([0.01] * 5), 0.2)
    assert test.num_seeds_needed is None
    judgement = judged(ACCURACY, found.model_copy(update={"pairs": [pair.model_copy(update={"equivalence": test})]}))
    assert judgement.reason == "they differ by the same at every seed, which gives no test"


def test_a_baseline_of_a_name_that_no_claim_knows_is_not_testable():
    known = claims(SPEEDUP)
    others = {name: variant for name, variant in known.variants.items() if name != "float32"}
    with pytest.raises(NotTestableError, match="by float32 this study means something else than the claim"):
        check_variant(others, small_study(), "wide", "float32")
    check_variant(known.variants, small_study(), "wide", "float32")


def test_a_speedup_no_larger_than_what_the_baseline_has_over_itself_is_none():
    def again(*values):
        turns = comparison().turns[0].model_copy(update={"baseline_again": ratio(*values)})
        return comparison(1.1, 1.3).model_copy(update={"turns": [turns]})

    claim = SPEEDUP | {"at_least": 1.0}
    assert judged(claim, comparison(1.1, 1.3)).verdict == "reproduced"
    judgement = judged(claim, again(1.4, 1.2, 1.6))
    assert judgement.verdict == "inconclusive"
    assert judgement.reason == "no more than the baseline differs from itself: 1.40× [1.20, 1.60]"
    assert judged(claim, again(1.4, 0.9, 2.1)).verdict == "reproduced"


def test_that_there_is_no_gain_is_no_effect_that_chance_could_feign():
    off = comparison().turns[0].model_copy(update={"baseline_again": ratio(1.01, 1.005, 1.015)})
    same = comparison(0.98, 1.009).model_copy(update={"turns": [off]})
    no_gain = {name: value for name, value in SPEEDUP.items() if name != "at_least"} | {"at_most": 1.05}
    assert judged(no_gain, same).verdict == "reproduced"
    gain = SPEEDUP | {"at_least": 1.05}
    assert judged(gain, same).verdict == "not reproduced"


def test_a_source_that_timed_whole_epochs_is_judged_by_whole_epochs():
    """Training alone is 1.2 times as fast, with validation 1.02 times."""
    claim = SPEEDUP | {"at_least": 1.1}
    assert judged(claim, comparison(1.15, 1.25)).verdict == "reproduced"
    judgement = judged(claim | {"with_validation": True}, comparison(1.15, 1.25))
    assert (judgement.verdict, judgement.measured) == (
        "in direction only",
        "1.02× the speed of float32, validation included [1.01, 1.03]",
    )


VALUE = {"kind": "value", "benchmark": "wide", "candidate": "mixed", "quantity": "test_accuracy", "tolerance": 0.03}


def after_runs(count: int) -> Comparison:
    found = comparison()
    completed = Proportion(count=count, total=count, low=0.3, high=1.0)
    return found.model_copy(
        update={"variants": [v.model_copy(update={"completed": completed}) for v in found.variants]}
    )


@pytest.mark.parametrize(
    ("value", "tolerance", "num_runs", "verdict"),
    [
        (0.9, 0.03, 5, "reproduced"),
        (0.9, 0.01, 5, "inconclusive"),
        (0.89, 0.03, 5, "reproduced"),
        (0.85, 0.01, 5, "not reproduced"),
        (0.87, 0.03, 5, "inconclusive"),
        (0.9, 0.03, 3, "reproduced"),
    ],
)
def test_a_single_published_value_is_set_beside_one_more_run(value, tolerance, num_runs, verdict):
    """One more run may fall in [0.88, 0.92]: inside of the value's tolerance, outside of it, or neither."""
    claim = VALUE | {"value": value, "tolerance": tolerance}
    judgement = judged(claim, after_runs(num_runs))
    assert judgement.verdict == verdict
    assert judgement.measured == "test accuracy 0.9; one more run would fall in [0.88, 0.92]"
    claim["quantity"] = "validation_accuracy"
    assert judged(claim, after_runs(num_runs)).verdict == "inconclusive"


@pytest.mark.parametrize(("quantity", "interval"), [("test_accuracy", "[0.3, 1]"), ("test_loss", "[0, 2.2]")])
def test_one_more_run_falls_within_what_can_be(quantity, interval):
    low, high = (0.3, 1.4) if quantity == "test_accuracy" else (-1.3, 2.2)
    wide = {quantity: Mean(mean=0.8, low=0.7, high=0.9, new_low=low, new_high=high)}
    found = after_runs(3)
    found = found.model_copy(update={"variants": [variant.model_copy(update=wide) for variant in found.variants]})
    measured = judged(VALUE | {"value": 0.9, "quantity": quantity, "tolerance": 0.01}, found).measured
    assert measured.endswith(f" 0.8; one more run would fall in {interval}")


def test_a_value_is_judged_only_at_the_scale_of_its_source():
    claim = VALUE | {"value": 0.9}
    at_scale = claim | {"needs": {"hardware": "anything", "recipe": {"model.units": 16, "batch_size": 16}}}
    assert judged(at_scale, after_runs(5)).verdict == "reproduced"
    larger = claim | {"needs": {"hardware": "anything", "recipe": {"model.units": 4096}}}
    judgement = judged(larger, after_runs(5))
    assert judgement.verdict == "not this recipe"
    assert judgement.reason == "the width of the dense layers is 16 in this study, 4,096 in the source"
    assert judgement.measured  # what was measured is shown all the same


@pytest.mark.parametrize(("at_most", "verdict"), [(0.6, "reproduced"), (0.4, "in direction only")])
def test_memory(at_most, verdict):
    claim = {"kind": "memory", "benchmark": "wide", "candidate": "mixed", "at_most": at_most}
    assert judged(claim, comparison()).verdict == verdict


@pytest.mark.parametrize(
    ("outcome", "outcomes", "verdict"),
    [
        ("completed", {"completed": 3}, "reproduced"),
        ("completed", {"out_of_memory": 3}, "not reproduced"),
        ("completed", {"completed": 2, "out_of_memory": 1}, "inconclusive"),
        ("completed", {"too_slow": 3}, "inconclusive"),
        ("completed", {"diverged": 3}, "inconclusive"),
        ("out_of_memory", {"completed": 3}, "not reproduced"),
        ("out_of_memory", {"completed": 2, "diverged": 1}, "not reproduced"),
        ("out_of_memory", {"completed": 2, "too_slow": 1}, "inconclusive"),
    ],
)
def test_an_outcome(outcome, outcomes, verdict):
    """A run that was ended for its time shows neither that it fits nor that it does not; one that diverged did fit."""
    claim = {"kind": "outcome", "benchmark": "wide", "candidate": "mixed", "outcome": outcome}
    found = comparison()
    found = found.model_copy(
        update={"variants": [each.model_copy(update={"outcomes": outcomes}) for each in found.variants]}
    )
    judgement = judged(claim, found)
    assert judgement.verdict == verdict
    assert all(f"{count} " in judgement.measured for count in outcomes.values())


def test_a_value_of_the_runs_that_are_left_over_decides_nothing():
    claim = {"kind": "value", "benchmark": "wide", "candidate": "mixed", "quantity": "test_accuracy"}
    claim |= {"value": 0.9, "tolerance": 0.05}
    found = comparison()
    assert judged(claim, found).verdict == "reproduced"
    left = [each.model_copy(update={"completed": proportion(3, 8)}) for each in found.variants]
    judgement = judged(claim, found.model_copy(update={"variants": left}))
    assert (judgement.verdict, judgement.reason) == ("inconclusive", "3 of 8 runs completed, which are a selection")


@pytest.mark.parametrize(
    ("candidate", "baseline", "verdict"), [(1, 0, "not reproduced"), (1, 3, "inconclusive"), (9, 1, "not reproduced")]
)
def test_divergence_counts_where_it_is_surely_the_candidates(candidate, baseline, verdict):
    failures = {"diverged": candidate}, {"diverged": baseline} if baseline else {}
    found = comparison(outcome="equivalent", failures=failures[0])
    pairs = [pair.model_copy(update={"baseline_failures": failures[1]}) for pair in found.pairs]
    judgement = judged(ACCURACY, found.model_copy(update={"pairs": pairs}))
    assert judgement.verdict == verdict
    assert f"diverged at {candidate} seed" in judgement.reason


def test_a_trial_beside_a_float32_that_does_not_learn_shows_nothing():
    trial = {"name": "adam.float16", "num_trained": 6, "num_trials": 6, "float32_accuracies": 6 * [0.03]}
    trial["accuracies"] = 6 * [0.02]
    claim = {"kind": "trial", "trial": "adam.float16", "trains": False}
    judgement = judged(claim, comparison(), numerics={"trials": [trial]})
    assert judgement.verdict == "inconclusive"
    assert judgement.reason == "float32 itself reaches 3.0 %: to be within 5 pp of it shows little"


def test_facts_hold_exactly_or_not():
    claim = {"kind": "fact", "quantities": {"square_of_256.float16": "inf", "bytes_per_value.float16": 2}}
    facts = {"square_of_256.float16": "inf", "bytes_per_value.float16": 2}
    assert judged(claim, comparison(), numerics={"facts": facts}).verdict == "reproduced"
    judgement = judged(claim, comparison(), numerics={"facts": facts | {"bytes_per_value.float16": 4}})
    assert (judgement.verdict, judgement.reason) == (
        "not reproduced",
        "the claim expects: a value takes 2 bytes in float16",
    )
    assert judgement.measured == "256² is infinite in float16; a value takes 4 bytes in float16"
    number = {"kind": "fact", "quantities": {"square_of_256.bfloat16": 65536.0}}
    for text, verdict in (("65536.0", "reproduced"), ("65537.0", "not reproduced"), ("inf", "not reproduced")):
        facts = {"square_of_256.bfloat16": text}  # as the stage writes it, for the sake of "inf"
        assert judged(number, comparison(), numerics={"facts": facts}).verdict == verdict
    assert judged(claim, comparison()).verdict == "not testable here"


@pytest.mark.parametrize(
    ("trains", "count", "verdict"),
    [
        (False, 0, "reproduced"),
        (False, 6, "not reproduced"),
        (True, 6, "reproduced"),
        (True, 0, "not reproduced"),
        (True, 4, "inconclusive"),
    ],
)
def test_trials(trains, count, verdict):
    """None of six leaves a share of up to 46 %: it fails at more than half of the seeds."""
    claim = {"kind": "trial", "trial": "adam.float16", "trains": trains}
    trial = {"name": "adam.float16", "num_trained": count, "num_trials": 6, "float32_accuracies": 6 * [0.9]}
    trial["accuracies"] = [0.441, 0.573, 0.5, 0.5, 0.5, 0.5]
    judgement = judged(claim, comparison(), numerics={"trials": [trial]})
    assert judgement.verdict == verdict
    assert judgement.measured.endswith("seeds: it reaches 44.1 to 57.3 %, float32 90.0 %")
    assert judged(claim, comparison()).verdict == "not testable here"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2, 2, 2, 2, 2, 3], "reproduced"),  # by the interval of the mean
        ([0, 0, 0, 0, 0, 1], "not reproduced"),
        ([2] * 6, "reproduced"),
        ([0] * 6, "not reproduced"),
        ([2] * 5, "inconclusive"),  # which half of all tries may not give
        ([2, 2, 2], "inconclusive"),
        ([2], "inconclusive"),
        ([0, 2, 0], "inconclusive"),
    ],
)
def test_tries_that_agree_decide_only_where_there_are_enough_of_them(values, verdict):
    claim = {"kind": "sample", "sample": "skipped_steps.wide", "at_least": 1.0}
    judgement = judged(claim, comparison(), numerics={"samples": {"skipped_steps.wide": values}})
    assert (judgement.verdict, bool(judgement.measured)) == (verdict, True)
    assert judged(claim, comparison()).verdict == "not testable here"


@pytest.mark.parametrize(
    ("hardware", "testable"),
    [
        (CPU, False),
        (Hardware("nvidia_gpu", "P100", 6.0), False),
        (Hardware("nvidia_gpu", "V100", 7.0), True),
        (Hardware("nvidia_gpu", "H200", 9.0), True),
        (Hardware("tpu", "v5e", None), False),
    ],
)
def test_a_claim_is_judged_only_on_the_hardware_it_is_made_for(hardware, testable):
    claim = SPEEDUP | {"needs": {"hardware": "nvidia_gpu", "min_compute_capability": 7.0}}
    judgement = judged(claim, comparison(2.1, 2.5), hardware)
    assert (judgement.verdict == "reproduced") is testable
    if not testable:
        assert judgement.verdict == "not testable here"
        assert judgement.reason == "needs an NVIDIA GPU of compute capability ≥ 7.0"


@pytest.mark.parametrize(
    ("needs", "hardware", "testable"),
    [
        ({"max_compute_capability": 6.9}, Hardware("nvidia_gpu", "P100", 6.0), True),
        ({"max_compute_capability": 6.9}, Hardware("nvidia_gpu", "V100", 7.0), False),
        ({"max_memory_gb": 17.2}, Hardware("nvidia_gpu", "V100", 7.0, memory_bytes=2**34), True),
        ({"max_memory_gb": 17.2}, Hardware("nvidia_gpu", "V100", 7.0, memory_bytes=2**35), False),
        ({"max_memory_gb": 17.2}, Hardware("nvidia_gpu", "V100", 7.0), False),
        ({"min_memory_gb": 8.0}, Hardware("nvidia_gpu", "V100", 7.0, memory_bytes=2**34), True),
        ({"min_memory_gb": 8.0}, Hardware("nvidia_gpu", "GTX", 7.0, memory_bytes=2**32), False),
    ],
)
def test_other_needs(needs, hardware, testable):
    claim = SPEEDUP | {"needs": {"hardware": "nvidia_gpu"} | needs}
    assert (judged(claim, comparison(2.1, 2.5), hardware).verdict == "reproduced") is testable


def test_what_no_study_can_test_says_why():
    claim = {"kind": "untested", "reason": "needs ImageNet", "testable_by": "A copy of it."}
    judgement = judged(claim, comparison())
    assert (judgement.verdict, judgement.reason) == ("not testable here", "needs ImageNet")
    assert judgement.would_change == "A copy of it."


def test_a_study_without_the_candidate_cannot_test_the_claim():
    judgement = judged(SPEEDUP | {"candidate": "other"}, comparison(2.1, 2.5))
    assert (judgement.verdict, judgement.measured) == ("not testable here", None)
    assert judgement.reason == "the study does not run other on wide"
    judgement = judged(SPEEDUP | {"benchmark": "narrow"}, comparison(2.1, 2.5))
    assert judgement.reason == "the study does not run mixed on narrow"
    judgement = judged(SPEEDUP | {"baseline": "float32_2x"}, comparison(2.1, 2.5))
    assert judgement.reason == "the study does not compare mixed with float32_2x"


def test_a_benchmark_that_the_study_lacks_is_a_reason_and_not_a_crash():
    needs = {"hardware": "anything", "recipe": {"model.units": 4096}}
    claim = VALUE | {"benchmark": "narrow", "value": 0.9}
    study = small_study(
        benchmarks={"wide": small_study().model_dump(mode="json")["benchmarks"]["wide"]},
        comparison={"baseline": "float32", "num_warmup_epochs": 1, "margin_pp": {"wide": 1.0}},
    )
    judgement = judged(claim | {"needs": needs}, comparison(), study=study)
    assert judgement.reason == "the study does not have the recipe narrow"


def test_a_study_that_means_something_else_by_a_name_cannot_test_the_claim():
    variants = small_study().model_dump(mode="json")["variants"]
    variants["mixed"]["jit_compile"] = True
    judgement = judged(SPEEDUP, comparison(2.1, 2.5), study=small_study(variants=variants))
    assert judgement.reason == "by mixed this study means something else than the claim"


def test_hardware_is_read_off_the_environment():
    gpu = {
        "accelerators": [{"kind": "gpu", "name": "V100", "compute_capability": "7.0", "memory_bytes": 2**34}],
        "cpu": "X",
        "machine": "x86_64",
    }
    assert hardware_of([gpu]) == Hardware("nvidia_gpu", "V100", 7.0, 2**34)
    cpu = hardware_of([gpu | {"accelerators": [], "cpu_features": ["avx2"]}])
    assert cpu == Hardware("cpu", "X", cpu_features=("avx2",))
    tpu = {"kind": "tpu", "name": "TPU v5e", "compute_capability": "", "memory_bytes": None}
    assert hardware_of([gpu | {"accelerators": [tpu]}]) == Hardware("tpu", "TPU v5e")


def test_on_jax_a_variant_compiled_with_xla_is_the_one_of_the_claims():
    variants = small_study().model_dump(mode="json")["variants"]
    compiled = {name: variant | {"jit_compile": True} for name, variant in variants.items()}
    study = small_study(engine="jax", runtime="tpu", variants=compiled)
    assert judged(SPEEDUP, comparison(2.1, 2.5), study=study).verdict == "reproduced"


def test_the_projects_claims_cover_every_source():
    loaded = load_claims(REPOSITORY / "claims.yaml")
    counts = Counter(claim.source for claim in loaded.claims)
    assert set(counts) == set(loaded.sources) == {"S1", "S2", "S3", "S4", "S5", "P"}
    assert len(loaded.claims) >= 30
    studies = {study.profile: study for study in (load_study(REPOSITORY / "params.yaml"),)}
    for claim in loaded.claims:
        assert claim.statement.endswith(".")
        assert claim.id.startswith(claim.source.lower() + "-")
        if hasattr(claim, "benchmark"):
            assert claim.benchmark in studies["quick"].benchmarks
    assert all(finding.beside for finding in loaded.findings)  # what the source says there
    for claim in loaded.all:
        asked, threshold = claim.asked
        assert bool(asked) == bool(threshold) == (claim.kind != "untested")


def test_all_faults_of_a_claim_file_are_reported_at_once():
    values = yaml.safe_load((REPOSITORY / "claims.yaml").read_text())
    entries = {claim["id"]: claim for claim in values["claims"] + values["findings"]}
    entries["s1-test-loss"]["source"] = "S9"
    entries["s1-half-the-size"]["id"] = "s1-loss-scale-schedule"
    entries["s1-adam-fails-in-float16"]["trial"] = "sgd.float16"
    entries["s2-output-is-float32"]["quantities"] = {"colour.float16": "red"}
    entries["s2-trains-equally-well"]["candidate"] = "mixed_flaot16"
    entries["s3-same-accuracy-at-double-batch"]["benchmark"] = "imagenet"
    entries["s4-custom-loop-accuracy"]["needs"]["recipe"]["model.unit"] = 4096
    with pytest.raises(InputError) as caught:
        validate(Claims, values, "claims.yaml")
    text = str(caught.value)
    assert text.startswith("claims.yaml: 7 faults")
    for line in (
        "(s4-custom-loop-accuracy).needs.recipe: no benchmark has 'model.unit'. Did you mean 'model.units'?",
        "(s1-test-loss).source: must be one of P, S1, S2, S3, S4, S5. Received: 'S9'",
        "'s1-loss-scale-schedule' stands 2 times",
        "(s1-adam-fails-in-float16).trial: must be one of adam.bfloat16",
        "(s2-output-is-float32).quantities: must be one of ",
        "Received: 'colour.float16'",
        "(s2-trains-equally-well).candidate: must be one of float32, ",
        "(s3-same-accuracy-at-double-batch).benchmark: must be one of cifar100_efficientnet_b0, mnist_dense, ",
    ):
        assert line in text


def test_a_claim_without_a_need_or_a_threshold_is_a_fault():
    values = yaml.safe_load((REPOSITORY / "claims.yaml").read_text())
    entries = {claim["id"]: claim for claim in values["claims"] + values["findings"]}
    del entries["s1-test-loss"]["needs"]
    del entries["s1-faster-on-16-bit-hardware"]["at_least"]
    entries["s2-slower-on-cpus"]["kind"] = "slowness"
    with pytest.raises(InputError) as caught:
        validate(Claims, values, "claims.yaml")
    text = str(caught.value)
    assert "needs: missing" in text
    assert "claims (s1-faster-on-16-bit-hardware): give one threshold, at_least or at_most." in text
    assert "Input tag 'slowness' found" in text


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(2.1, 2.5, "found"), (1.2, 1.8, "not found"), (0.5, 0.9, "not found"), (0.9, 2.1, "open")],
)
def test_an_experiment_of_ours_is_found_or_not_and_never_reproduced(low, high, answer):
    asked = claims(SPEEDUP)
    both = asked.model_copy(update={"findings": [asked.claims[0].model_copy(update={"id": "ours"})]})
    evidence = Evidence(small_study(), comparison(low, high), numerics={}, hardware=CPU)
    claim, finding = judge_claims(both, evidence)
    assert (claim.is_finding, finding.is_finding, finding.verdict) == (False, True, answer)
    assert (finding.asked, finding.threshold) == ("the speed of mixed in wide, beside float32", "at 2× or above")
    (elsewhere,) = judge_claims(
        both.model_copy(update={"claims": []}),
        evidence._replace(
            study=small_study(
                variants={
                    name: each
                    for name, each in small_study().model_dump(mode="json")["variants"].items()
                    if name != "mixed"
                }
            )
        ),
    )
    assert (elsewhere.verdict, elsewhere.reason) == ("open", "the study does not run mixed on wide")


def test_that_something_can_be_is_not_refuted_by_one_case():
    claim = SPEEDUP | {"existential": True}
    assert judged(claim, comparison(2.1, 2.5)).verdict == "reproduced"
    judgement = judged(claim, comparison(0.5, 0.9))
    assert (judgement.verdict, judgement.reason) == (
        "inconclusive",
        "the whole interval lies below 2×; that it can be so, one case where it is not does not refute",
    )


def test_what_a_source_says_of_intels_cpus_no_other_cpu_tells():
    claim = SPEEDUP | {"needs": {"hardware": "intel_cpu"}}
    assert judged(claim, comparison(2.1, 2.5), Hardware("cpu", "Intel(R) Xeon(R)")).verdict == "reproduced"
    judgement = judged(claim, comparison(2.1, 2.5), Hardware("cpu", "AMD EPYC"))
    assert (judgement.verdict, judgement.reason) == ("not testable here", "needs an Intel CPU")


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
    claim = {"kind": "late_skips", "benchmark": "wide", "candidate": "mixed", "at_most": 1.0}
    found = comparison()
    variants = [each.model_copy(update={"late_skips": skips}) for each in found.variants]
    assert judged(claim, found.model_copy(update={"variants": variants})).verdict == verdict


@pytest.mark.parametrize(
    ("count", "verdict"), [(8018, "reproduced"), (0, "not reproduced"), (None, "not testable here")]
)
def test_a_number_that_is_counted_has_no_interval(count, verdict):
    claim = {"kind": "sample", "sample": "notebook_split.num_trained_on", "at_least": 5001}
    facts = {} if count is None else {"notebook_split.num_trained_on": count}
    judgement = judged(claim, comparison(), numerics={"facts": facts})
    assert (judgement.verdict, judgement.evidence) == (verdict, None if count is None else "counted")
