"""A claim is worth its verdict only if a wrong world would change it: for each, evidence for it and against it."""

import functools
from typing import Any

import pytest
from comparisons import CPU, altered, between, comparison, ratio
from conftest import REPOSITORY
from studies import composed

from pipeline.claims.evidence import Evidence
from pipeline.claims.measured_claims import CONTRARY
from pipeline.claims.claims_file import load_claims
from pipeline.claims.verdicts import judge_claims
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import TRIALS
from pipeline.statistics import intervals
from pipeline.statistics.intervals import Mean, proportion
from pipeline.study.schema import Study, load_study

CLAIMS = load_claims(REPOSITORY / "claims.yaml")
RESNET9 = composed("profile=resnet9")
BY_NAME = {claim.id: claim for claim in CLAIMS.all}
JUDGED = [claim for claim in CLAIMS.all if claim.kind != "untested"]


def for_each(claims: list) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("claim", claims, ids=[claim.id for claim in claims])


def hardware_for(claim) -> Hardware:
    """Hardware that the claim is about."""
    needs = claim.needs
    capability = needs.max_compute_capability or needs.min_compute_capability or 7.0
    return {
        "intel_cpu": Hardware("cpu", "Intel Xeon"),
        "tpu": Hardware("tpu", "TPU v5e"),
        "nvidia_gpu": Hardware("nvidia_gpu", "Example GPU", capability, memory_bytes=16 * 10**9),
    }.get(needs.hardware, CPU)


@functools.cache
def study_for(name: str) -> Study:
    """The project's study by the recipe of a claim, with every variant that claims know."""
    claim = BY_NAME[name]
    values = load_study(REPOSITORY / "params.yaml").model_dump(mode="json")
    benchmarks = values["benchmarks"]
    benchmarks["mnist_dense_scheduled"] = benchmarks["mnist_dense"] | {}
    benchmarks |= RESNET9["benchmarks"]
    # A variant is compiled by XLA, which its augmentation can't be.
    benchmarks["cifar100_resnet9"] = benchmarks["cifar100_resnet9"] | {"augmentation": []}
    values["datasets"] |= RESNET9["datasets"]
    values["comparison"]["margin_pp"] |= {"mnist_dense_scheduled": 0.5, "cifar100_resnet9": 1.0}
    for name in benchmarks:
        benchmarks[name] |= {"steps_per_execution": 1}
    for path, value in claim.needs.recipe.items():
        section, _, last = path.rpartition(".")
        recipe = benchmarks[claim.benchmark]
        recipe |= {section: recipe[section] | {last: value}} if section else {last: value}
    values["variants"] |= {name: variant.model_dump(mode="json") for name, variant in CLAIMS.variants.items()}
    values["variants"]["float8"]["benchmarks"] = ["mnist_dense", "mnist_dense_scheduled"]
    return Study.model_validate(values | {"seeds": [0, 1, 2, 3, 4, 5], "num_seeds": {}})


def around(low: float, high: float) -> Mean:
    return Mean(mean=(low + high) / 2, low=low, high=high, new_low=low, new_high=high)


def speedup_for(claim, holds: bool) -> tuple[float, float]:
    if claim.at_least:
        return (1.1 * claim.at_least, 1.2 * claim.at_least) if holds else (0.5, 0.6)
    limit = claim.at_most
    return (0.8 * limit, 0.9 * limit) if holds else (1.1 * max(limit, 1), 1.2 * max(limit, 1))


def world(claim, holds: bool) -> Evidence:
    """Everything that this project can find, as it would be if the claim were true, or if it were false."""
    found = comparison(0.9, 1.1)
    of_pair: dict[str, Any] = {}
    of_variant: dict[str, Any] = {"completed": proportion(6, 6), "outcomes": {"completed": 6}}
    facts: dict[str, Any] = {}
    samples: dict[str, list[float]] = {}
    limit = getattr(claim, "at_least", None) or getattr(claim, "at_most", None) or 1.0
    centre = 2 * limit if holds == bool(getattr(claim, "at_least", None)) else limit / 2
    match claim.kind:
        case "speedup":
            of_pair = dict.fromkeys(("speedup", "epoch_speedup"), between(*speedup_for(claim, holds)))
        case "same_accuracy":
            test = {"outcome": "equivalent"} if holds else {"outcome": "different", "beyond_p_value_holm": 0.01}
            of_pair = {"equivalence": found.pairs[0].equivalence.model_copy(update=test)}
        case "memory":
            of_pair = {"memory_ratio": ratio(0.5, 0.48, 0.52) if holds else ratio(1.1, 1.05, 1.15)}
        case "value":
            value, tolerance = claim.value, claim.tolerance
            near = around(value - tolerance / 2, value + tolerance / 2)
            of_variant |= {claim.quantity: near if holds else around(value + 2 * tolerance, value + 3 * tolerance)}
        case "late_skips":
            of_variant |= {"late_skips": proportion(0 if holds else 500, 10_000)}
        case "outcome":
            of_variant |= {"outcomes": {claim.outcome if holds else CONTRARY[claim.outcome][0]: 6}}
        case "fact":
            name, value = next(iter(claim.quantities.items()))
            facts = claim.quantities | ({} if holds else {name: "65000.0" if isinstance(value, str) else 3.5})
        case "sample" if claim.is_counted:
            facts = {claim.sample: round(centre)}
        case "sample":
            samples = {claim.sample: [0.99 * centre, centre, 1.01 * centre]}
    trial = {"num_trained": 6 if holds == getattr(claim, "trains", True) else 0, "num_trials": 6}
    trial |= dict.fromkeys(("accuracies", "float32_accuracies"), 6 * [0.9])
    found = altered(found, pairs=of_pair, variants=of_variant)
    names, benchmarks = list(CLAIMS.variants), CLAIMS.benchmarks
    every = {
        "pairs": [
            found.pairs[0].model_copy(update={"benchmark": benchmark, "baseline": baseline, "candidate": candidate})
            for benchmark in benchmarks
            for baseline in names
            for candidate in names
            if baseline != candidate
        ],
        "variants": [
            found.variants[0].model_copy(update={"benchmark": benchmark, "variant": name})
            for benchmark in benchmarks
            for name in names
        ],
        "turns": [found.turns[0].model_copy(update={"benchmark": benchmark}) for benchmark in benchmarks],
    }
    return Evidence(
        study=study_for(claim.id),
        comparison=found.model_copy(update=every),
        numerics={"facts": facts, "samples": samples, "trials": [each._asdict() | trial for each in TRIALS]},
        hardware=hardware_for(claim),
    )


def judged(claim, evidence: Evidence):
    (judgement,) = judge_claims(CLAIMS.model_copy(update={"claims": [claim], "findings": []}), evidence)
    return judgement


def needing(claim, **needs):
    """The claim with other needs; `recipe` adds to its own."""
    recipe = claim.needs.recipe | needs.pop("recipe", {})
    return claim.model_copy(update={"needs": claim.needs.model_copy(update={"recipe": recipe} | needs)})


@for_each(JUDGED)
def test_evidence_decides_for_a_claim_and_against_it(claim):
    right, wrong = judged(claim, world(claim, holds=True)), judged(claim, world(claim, holds=False))
    is_existential = getattr(claim, "existential", False)  # which one case where it is not so refutes not
    assert right.verdict == "reproduced", right.reason
    assert wrong.verdict == ("inconclusive" if is_existential else "not reproduced"), wrong.reason
    for judgement in (right, wrong):
        assert judgement.evidence == claim.evidence
        assert judgement.measured
        assert bool(judgement.would_change) == (judgement.verdict == "inconclusive")


@for_each([claim for claim in JUDGED if claim.needs.recipe])
def test_a_study_by_another_recipe_gives_no_verdict(claim):
    """Each setting of the recipe counts: what differs is named, and what was measured is shown."""
    for path, value in claim.needs.recipe.items():
        other = 7 if value != 7 and not isinstance(value, str) else "other"
        judgement = judged(needing(claim, recipe={path: other}), world(claim, holds=True))
        assert (judgement.verdict, judgement.evidence) == ("not this recipe", None)
        assert judgement.measured
        assert judgement.reason.endswith("in the source")
        by_profile = f"The profile {claim.needs.profile} on " if claim.needs.profile else ""
        assert judgement.would_change.startswith(by_profile or "A study with the source's settings")


def without(names: list[str], evidence: Evidence) -> Evidence:
    values = evidence.study.model_dump(mode="json") | {"num_seeds_by_variant": {}}
    values["variants"] = {name: each for name, each in values["variants"].items() if name not in names}
    pairs = values["comparison"]["further_pairs"]
    values["comparison"]["further_pairs"] = [pair for pair in pairs if not {*names} & {*pair.values()}]
    return evidence._replace(study=Study.model_validate(values))


GPU_7 = "an NVIDIA GPU of compute capability ≥ 7.0"
PAPER = f"The profile paper on {GPU_7}: make repro PROFILE=paper."
OTHER_UNITS, DEFAULTS = {"model.units": 7}, ["tf32"]


@pytest.mark.parametrize(
    ("name", "recipe", "lacking", "would_change"),
    [
        ("s1-faster-on-16-bit-hardware", {}, [], f"The same study on {GPU_7}."),
        ("s1-faster-on-16-bit-hardware", OTHER_UNITS, [], PAPER),
        ("s4-custom-loop-accuracy", OTHER_UNITS, [], "A study with the source's settings."),
        (
            "s5-fixed-scale-trains-equally-well",
            {},
            ["mixed_float16_fixed"],
            "The profile evening on two CPU cores: make repro PROFILE=evening.",
        ),
        # A study that would lack the default of other hardware is not sent there.
        ("s2-sixty-percent-on-tpus", {}, [], "The same study on a TPU."),
        ("s2-sixty-percent-on-tpus", {}, DEFAULTS, "The profile paper on a TPU: make repro PROFILE=paper."),
        ("s2-three-times-on-modern-gpus", {}, DEFAULTS, PAPER),
        # On JAX XLA is no choice.
        (
            "s2-xla-adds-speed",
            {},
            ["mixed_float16_xla"],
            "The profile paper on an NVIDIA GPU: make repro PROFILE=paper ENGINE=cuda.",
        ),
        (
            "s2-small-models-gain-nothing",
            {},
            DEFAULTS,
            f"A study that runs tf32 on mnist_dense. It must run on {GPU_7}.",
        ),
        # Hardware, a baseline and a recipe that are all missing are all named.
        (
            "s2-small-models-gain-nothing",
            OTHER_UNITS,
            DEFAULTS,
            "A study that runs tf32 on mnist_dense. Its recipe must be the source's: the width of the dense layers is "
            f"64 in this study, 7 in the source. It must run on {GPU_7}.",
        ),
    ],
)
def test_what_would_decide_is_a_study_that_can(name, recipe, lacking, would_change):
    evidence = without(lacking, world(BY_NAME[name], holds=True))._replace(hardware=CPU)
    assert judged(needing(BY_NAME[name], recipe=recipe), evidence).would_change == would_change


@pytest.mark.parametrize(
    ("changes", "numerics"),
    [
        ({}, {}),
        ({"pairs": {"speedup": ratio(), "epoch_speedup": ratio()}}, {"facts": {}, "samples": {}, "trials": []}),
        ({"pairs": {"failures": {"diverged": 1}}, "variants": {"outcomes": {"too_slow": 2, "completed": 1}}}, {}),
    ],
    ids=["found", "nothing found", "failed"],
)
def test_every_claim_gets_a_verdict_whatever_was_found(changes, numerics):
    """Claims first, then findings, which are never called reproduced; also without what they need."""
    evidence = world(JUDGED[0], holds=True)
    evidence = evidence._replace(
        comparison=altered(evidence.comparison, **changes), numerics=evidence.numerics | numerics
    )
    judgements = judge_claims(CLAIMS, evidence)
    order = [(claim.id, claim in CLAIMS.findings) for claim in CLAIMS.all]
    assert [(each.id, each.is_finding) for each in judgements] == order
    assert {each.verdict for each in judgements if each.is_finding} <= {"found", "not found", "open"}
    for claim in CLAIMS.all:
        assert judged(needing(claim, hardware="anything"), evidence).reason


@for_each([claim for claim in CLAIMS.all if claim.kind == "untested"])
def test_what_nothing_decides_is_shown_and_rests_on_no_evidence(claim):
    found = judged(claim, world(claim, holds=True))
    assert (found.verdict, found.evidence, found.measured) == ("not testable here", None, None)
    assert (found.reason, found.would_change) == (claim.reason, claim.testable_by)


@pytest.mark.parametrize(
    ("hardware", "verdict", "beside"),
    [
        (Hardware("nvidia_gpu", "V100", 7.0), "reproduced", "float32"),
        (Hardware("nvidia_gpu", "H200", 9.0), "inconclusive", "tf32"),
    ],
)
def test_the_baseline_is_what_the_device_does_unless_asked_for_more(hardware, verdict, beside):
    """4 times as fast as strict float32 and 2 times as fast as TF32, the default on Ampere and later, is no 3 times."""
    claim = BY_NAME["s2-three-times-on-modern-gpus"]
    evidence = world(claim, holds=True)._replace(hardware=hardware)
    pairs = [
        pair.model_copy(update={"speedup": between(1.9, 2.1) if pair.baseline == "tf32" else between(3.9, 4.1)})
        for pair in evidence.comparison.pairs
    ]
    judgement = judged(claim, evidence._replace(comparison=evidence.comparison.model_copy(update={"pairs": pairs})))
    assert judgement.verdict == verdict
    assert f"the speed of {beside} [" in judgement.measured


def test_noise_never_helps_a_value():
    """The wider the interval of one more run, the less is said: no width turns a verdict into the other."""
    claim = BY_NAME["s1-test-accuracy"]

    def verdict_of(accuracy: Mean) -> str:
        evidence = world(claim, holds=True)
        found = altered(evidence.comparison, variants={"test_accuracy": accuracy})
        return judged(claim, evidence._replace(comparison=found)).verdict

    for centre, first in ((claim.value, "reproduced"), (claim.value + 0.02, "not reproduced")):
        verdicts = [verdict_of(around(centre - half, centre + half)) for half in (0.001, 0.005, 0.009, 0.02, 0.1)]
        num_first = verdicts.count(first)
        assert verdicts == num_first * [first] + (5 - num_first) * ["inconclusive"]
        assert 0 < num_first < 5
    assert verdict_of(intervals.mean([claim.value] * 3)) == "reproduced"
    assert verdict_of(intervals.mean([claim.value] * 2)) == "inconclusive"


def test_no_claim_rests_on_the_epochs_of_runs():
    for claim in JUDGED:
        evidence = world(claim, holds=True)
        slow = altered(evidence.comparison, variants={"epoch_seconds": ratio(99.0, 98.0, 100.0)})
        assert judged(claim, evidence._replace(comparison=slow)) == judged(claim, evidence)
