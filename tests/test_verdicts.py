import pytest
import yaml
from conftest import REPOSITORY

from pipeline.claims import Claims, load_claims
from pipeline.comparison import Comparison, Pair, VariantStatistics
from pipeline.configuration import validate
from pipeline.equivalence import Equivalence
from pipeline.errors import InputError
from pipeline.hardware import Hardware, hardware_of
from pipeline.statistics import Difference, Mean, Proportion, Ratio
from pipeline.verdicts import judge

CPU = Hardware("cpu", "Example CPU", None)


def claims(**changes) -> Claims:
    claim = {
        "id": "a",
        "source": "S",
        "statement": "It is faster.",
        "kind": "faster",
        "benchmark": "wide",
        "candidate": "mixed",
        "threshold": 2.0,
        "published": "2×",
        "needs": "anything",
    }
    source = {"title": "T", "hardware": "H"}
    return validate(Claims, {"sources": {"S": source}, "figures": [], "claims": [claim | changes]}, "claims.yaml")


def ratio(value=None, low=None, high=None) -> Ratio:
    return Ratio(ratio=value, low=low, high=high, new_low=None, new_high=None)


def comparison(low=None, high=None, outcome="inconclusive", needed=None, failures=None, accuracy=0.9) -> Comparison:
    baseline = VariantStatistics(
        benchmark="wide",
        variant="float32",
        completed=Proportion(count=3, total=3, low=0.3, high=1.0),
        test_accuracy=Mean(mean=accuracy, low=None, high=None, new_low=None, new_high=None),
        epoch_seconds=ratio(),
        slope_percent=Mean(mean=None, low=None, high=None, new_low=None, new_high=None),
        time_to_accuracy=None,
        timing_faults={},
    )
    pair = Pair(
        benchmark="wide",
        baseline="float32",
        candidate="mixed",
        repeats_baseline=False,
        num_seeds=3,
        num_timed_seeds=3,
        num_split_seeds=0,
        failures=failures or {},
        baseline_failures={},
        speedup=ratio(1.5) if low is None else ratio((low + high) / 2, low, high),
        precision_effect=None,
        batch_effect=None,
        interaction=None,
        accuracy_difference_pp=Difference(
            mean=-0.1, low90=-0.2, high90=0.0, low95=-0.3, high95=0.1, p_value=0.2, p_value_holm=0.4
        ),
        bootstrap_pp=None,
        equivalence=Equivalence(
            margin_pp=1.0,
            p_value=0.01,
            p_value_holm=0.02,
            outcome=outcome,
            spread_pp=0.5,
            detectable_margin_pp=2.5,
            num_seeds_needed=needed,
        ),
        memory_ratio=ratio(),
    )
    return Comparison(variants=[baseline], pairs=[pair])


@pytest.mark.parametrize(
    ("kind", "low", "high", "verdict"),
    [
        ("faster", 2.1, 2.5, "reproduced"),
        ("faster", 1.2, 1.8, "in direction only"),
        ("faster", 0.5, 0.9, "not reproduced"),
        ("faster", 0.9, 1.1, "not reproduced"),
        ("faster", 0.9, 2.1, "inconclusive"),
        ("faster", 1.9, 2.1, "inconclusive"),
        ("faster", None, None, "inconclusive"),
        ("slower", 0.5, 0.9, "reproduced"),
        ("slower", 1.1, 1.2, "not reproduced"),
        ("slower", 0.9, 1.1, "inconclusive"),
    ],
)
def test_speed(kind, low, high, verdict):
    (judgement,) = judge(claims(kind=kind), comparison(low, high), CPU)
    assert judgement.verdict == verdict
    assert judgement.reason


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("equivalent", "reproduced"),
        ("equivalent but shifted", "reproduced"),
        ("different", "not reproduced"),
        ("inconclusive", "inconclusive"),
    ],
)
def test_accuracy(outcome, verdict):
    (judgement,) = judge(claims(kind="same_accuracy"), comparison(outcome=outcome), CPU)
    assert judgement.verdict == verdict
    assert judgement.measured == "−0.10 pp [−0.30, +0.10]"


def test_an_inconclusive_accuracy_says_how_many_seeds_would_decide():
    (judgement,) = judge(claims(kind="same_accuracy"), comparison(needed=12), CPU)
    assert judgement.reason.endswith("12 seeds of this spread would establish ±1 pp if nothing differs")
    (judgement,) = judge(claims(kind="same_accuracy"), comparison(), CPU)
    assert judgement.reason.endswith("more than 1000 seeds of this spread would be needed for ±1 pp")


@pytest.mark.parametrize(
    ("failures", "verdict", "reason"),
    [
        ({"diverged": 1}, "not reproduced", "diverged at 1 seed at which float32 did not"),
        ({"out_of_memory": 2}, "inconclusive", "only some runs completed; mixed ran out of memory at 2 seeds"),
    ],
)
def test_runs_that_failed_are_not_dropped_from_the_verdict(failures, verdict, reason):
    claim = claims(kind="same_accuracy")
    (judgement,) = judge(claim, comparison(outcome="equivalent", failures=failures), CPU)
    assert (judgement.verdict, judgement.reason) == (verdict, reason)


def test_a_speed_verdict_names_the_runs_that_failed():
    (judgement,) = judge(claims(), comparison(2.1, 2.5, failures={"diverged": 2}), CPU)
    assert judgement.verdict == "reproduced"
    assert judgement.reason.endswith("; mixed diverged at 2 seeds")


def test_near_chance_equivalence_shows_nothing():
    claim = claims(kind="same_accuracy")
    (judgement,) = judge(claim, comparison(outcome="equivalent", accuracy=0.05), CPU)
    assert judgement.verdict == "inconclusive"
    assert judgement.reason == "float32 itself reaches 5.0%: to be within ±1 pp of that shows little"
    (judgement,) = judge(claim, comparison(outcome="different", accuracy=0.05), CPU)
    assert judgement.verdict == "not reproduced"


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
    claim = claims(needs="nvidia_gpu", min_compute_capability=7.0)
    (judgement,) = judge(claim, comparison(2.1, 2.5), hardware)
    assert (judgement.verdict == "reproduced") is testable
    if not testable:
        assert judgement.verdict == "not testable here"
        assert judgement.reason == "needs an NVIDIA GPU of compute capability ≥ 7.0"


def test_a_study_without_the_candidate_cannot_test_the_claim():
    (judgement,) = judge(claims(candidate="other"), comparison(2.1, 2.5), CPU)
    assert (judgement.verdict, judgement.measured) == ("not testable here", None)
    assert judgement.reason == "the study does not run other on wide"


def test_hardware_is_read_off_the_environment():
    gpu = {"accelerators": [{"name": "V100", "compute_capability": "7.0"}], "cpu": "X", "machine": "x86_64"}
    assert hardware_of([gpu]) == Hardware("nvidia_gpu", "V100", 7.0)
    assert hardware_of([gpu | {"accelerators": []}]) == Hardware("cpu", "X", None)


def test_the_projects_claims_are_valid_and_every_source_has_one():
    loaded = load_claims(REPOSITORY / "claims.yaml")
    assert {claim.source for claim in loaded.claims} == set(loaded.sources) == {"S1", "S2", "S3", "S4", "S5"}


def test_all_faults_of_a_claim_file_are_reported_at_once():
    values = yaml.safe_load((REPOSITORY / "claims.yaml").read_text())
    values["claims"][0]["source"] = "S9"
    values["claims"][1]["id"] = values["claims"][2]["id"]
    del values["claims"][5]["threshold"]
    with pytest.raises(InputError) as caught:
        validate(Claims, values, "claims.yaml")
    for line in ("claims.0.source: must be one of S1", "stands twice", "claims.5.threshold: missing"):
        assert line in str(caught.value)
