import pytest
import yaml
from conftest import REPOSITORY

from pipeline.claims import Claims, load_claims
from pipeline.comparison import Comparison, Pair
from pipeline.configuration import validate
from pipeline.errors import InputError
from pipeline.hardware import Hardware, hardware_of
from pipeline.statistics import Difference, Equivalence, Ratio
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


def comparison(low=None, high=None, outcome="inconclusive", detectable=None) -> Comparison:
    ratio = 1.5 if low is None else (low + high) / 2
    pair = Pair(
        benchmark="wide",
        baseline="float32",
        candidate="mixed",
        num_seeds=3,
        speedup=Ratio(ratio=ratio, low=low, high=high),
        precision_effect=None,
        batch_effect=None,
        interaction=None,
        accuracy_difference_pp=Difference(mean=-0.1, low90=-0.2, high90=0.0, low95=-0.3, high95=0.1),
        equivalence=Equivalence(margin_pp=1.0, p_value=0.01, outcome=outcome, detectable_margin_pp=detectable),
        memory_ratio=None,
    )
    return Comparison(pairs=[pair])


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


def test_an_inconclusive_accuracy_says_what_could_have_been_shown():
    (judgement,) = judge(claims(kind="same_accuracy"), comparison(detectable=2.5), CPU)
    assert judgement.reason.endswith("3 seeds of this spread could establish ±2.5 pp")


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
