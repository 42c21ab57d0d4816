"""A claim is worth its verdict only if a wrong world would change it: for each, evidence for it and against it."""

import functools
from typing import Any

import pytest
from comparisons import CPU, between, pair, run
from conftest import REPOSITORY
from studies import composed

from pipeline.claims.claim import Evidence
from pipeline.claims.claims_file import load_claims
from pipeline.claims.kinds import CONTRARY
from pipeline.claims.verdicts import judge_claims
from pipeline.comparison.tables import Row, Tables
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import TRIALS
from pipeline.statistics.intervals import Estimate
from pipeline.study.schema import Study, load_study
from pipeline.words.sentences import sentence

CLAIMS = load_claims(REPOSITORY / "claims.yaml")
RESNET9 = composed("profile=resnet9")
BY_NAME = {claim.id: claim for claim in CLAIMS.all}
JUDGED = [claim for claim in CLAIMS.all if claim.kind != "untested"]


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
    benchmarks |= {name: dict(benchmarks["mnist_dense"]) for name in ("mnist_dense_scheduled", "mnist_dense_adam")}
    benchmarks |= RESNET9["benchmarks"]
    # A variant is compiled by XLA, which its augmentation can't be.
    benchmarks["cifar100_resnet9"] = benchmarks["cifar100_resnet9"] | {"augmentation": []}
    values["datasets"] |= RESNET9["datasets"]
    values["comparison"]["margin_pp"] |= {
        "mnist_dense_scheduled": 0.5,
        "mnist_dense_adam": 0.2,
        "cifar100_resnet9": 1.0,
    }
    for name in benchmarks:
        benchmarks[name] |= {"steps_per_execution": 1}
    for path, value in claim.needs.recipe.items():
        section, _, last = path.rpartition(".")
        recipe = benchmarks[claim.benchmark]
        recipe |= {section: recipe[section] | {last: value}} if section else {last: value}
    values["variants"] |= {name: variant.model_dump(mode="json") for name, variant in CLAIMS.variants.items()}
    values["variants"]["float8"]["benchmarks"] = ["mnist_dense", "mnist_dense_scheduled"]
    return Study.model_validate(values | {"seeds": [0, 1, 2, 3, 4, 5], "num_seeds": {}})


def around(centre: float, half: float) -> list[float]:
    """Values of which one more falls within `half` of their mean, `centre` (t(0.975, 2) √(1 + 1/3) = 4.968)."""
    return [centre + half / 4.9683 * place for place in (-1, 0, 1)]


def speedup_for(claim, holds: bool) -> tuple[float, float]:
    if claim.at_least:
        return (1.1 * claim.at_least, 1.2 * claim.at_least) if holds else (0.5, 0.6)
    limit = claim.at_most
    return (0.8 * limit, 0.9 * limit) if holds else (1.1 * max(limit, 1), 1.2 * max(limit, 1))


def world(claim, holds: bool, hardware: Hardware | None = None) -> Evidence:
    """Everything that this project can find, as it would be if the claim were true, or if it were false."""
    of_pair: dict[str, Any] = {"speedup": between(0.9, 1.1)}
    of_runs: list[dict[str, Any]] = 3 * [{}]
    facts: dict[str, Any] = {}
    samples: dict[str, list[float]] = {}
    limit = getattr(claim, "at_least", None) or getattr(claim, "at_most", None) or 1.0
    centre = 2 * limit if holds == bool(getattr(claim, "at_least", None)) else limit / 2
    match claim.kind:
        case "speedup":
            speedup = speedup_for(claim, holds)
            of_pair |= {"speedup": between(*speedup)} | {"epoch_speedup": between(*speedup)}
        case "same_accuracy":
            of_pair |= {"outcome": "equivalent"} if holds else {"outcome": "different", "p_beyond_margin": 0.01}
            of_runs = 3 * [{"skipped_steps": 2}]
        case "memory":
            of_pair |= {"memory_ratio": between(0.48, 0.52)} if holds else {"memory_ratio": between(1.05, 1.15)}
        case "value":
            tolerance = claim.tolerance
            values = around(claim.value + (0 if holds else 2.5 * tolerance), tolerance / 2)
            of_runs = [{claim.quantity: value} for value in values]
        case "late_skips":
            of_runs = 3 * [{"num_late_skips": 0 if holds else 500, "num_late_steps": 10_000}]
        case "outcome":
            of_runs = 3 * [{"outcome": claim.outcome if holds else CONTRARY[claim.outcome][0]}]
        case "fact":
            name, value = next(iter(claim.quantities.items()))
            facts = claim.quantities | ({} if holds else {name: "65000.0" if isinstance(value, str) else 3.5})
        case "sample" if claim.is_counted:
            facts = {claim.sample: round(centre)}
        case "sample":
            samples = {claim.sample: [0.99 * centre, centre, 1.01 * centre]}
        case kind if kind not in ("trial", "untested"):
            raise AssertionError(f"give this function data for and against claims of kind {kind}")
    trial = {"num_trained": 6 if holds == getattr(claim, "trains", True) else 0, "num_trials": 6}
    accuracy = 0.9 if holds or not getattr(claim, "margin_pp", None) else 0.8
    trial |= {"accuracies": 6 * [accuracy], "float32_accuracies": 6 * [0.9]}
    return Evidence(
        study=study_for(claim.id),
        tables=everywhere(of_pair, of_runs, hardware or hardware_for(claim)),
        numerics={"facts": facts, "samples": samples, "trials": [each._asdict() | trial for each in TRIALS]},
    )


def everywhere(of_pair: dict[str, Any], of_runs: list[dict[str, Any]], hardware: Hardware) -> Tables:
    """The same of each variant of each benchmark, and of each two of them."""
    places = [(benchmark, name) for benchmark in CLAIMS.benchmarks for name in CLAIMS.variants]
    return Tables(
        [
            run(name, seed, hardware, benchmark=benchmark, **cells)
            for benchmark, name in places
            for seed, cells in enumerate(of_runs)
        ],
        [
            pair(hardware, benchmark=benchmark, baseline=baseline, candidate=candidate, **of_pair)
            for benchmark, baseline in places
            for candidate in CLAIMS.variants
            if baseline != candidate
        ],
    )


def judged(claim, evidence: Evidence):
    (judgement,) = judge_claims(CLAIMS.model_copy(update={"claims": [claim], "findings": []}), evidence)
    for said in (judgement.reason, *judgement.measured, judgement.would_change):
        assert said is None or sentence(said)
    return judgement


def needing(claim, **needs):
    """The claim with other needs; `recipe` adds to its own."""
    recipe = claim.needs.recipe | needs.pop("recipe", {})
    return claim.model_copy(update={"needs": claim.needs.model_copy(update={"recipe": recipe} | needs)})


@pytest.mark.parametrize("claim", JUDGED, ids=[claim.id for claim in JUDGED])
def test_evidence_for_and_against_a_claim_changes_its_verdict(claim):
    right, wrong = judged(claim, world(claim, holds=True)), judged(claim, world(claim, holds=False))
    networks = getattr(claim, "networks", "this")
    # No case confirms what is said of every network, and none refutes what is said of some.
    assert right.verdict == ("inconclusive" if networks == "every" else "reproduced"), right.reason
    assert wrong.verdict == ("inconclusive" if networks == "some" else "not reproduced"), wrong.reason
    for judgement in (right, wrong):
        assert judgement.evidence == ("counted" if claim.is_counted else "measured")
        assert judgement.measured
        assert bool(judgement.would_change) == (judgement.verdict == "inconclusive")


@pytest.mark.parametrize("name", ["s1-test-accuracy", "s4-custom-loop-accuracy"])
def test_a_study_with_another_recipe_gives_no_verdict(name):
    """Each setting of the recipe counts. The reason names the difference, and what was measured is shown."""
    claim = BY_NAME[name]
    for path, value in claim.needs.recipe.items():
        other = 7 if value != 7 and not isinstance(value, str) else "other"
        judgement = judged(needing(claim, recipe={path: other}), world(claim, holds=True))
        assert (judgement.verdict, judgement.evidence) == ("not this recipe", None)
        assert judgement.measured
        assert list(judgement.reason.numbers["differences"]) == [path]
        assert judgement.would_change.code == ("remedy.profile" if claim.needs.profile else "remedy.recipe")


OTHER_UNITS, DEFAULTS = {"model.units": 7}, ["tf32"]


@pytest.mark.parametrize(
    ("name", "recipe", "lacking", "would_change"),
    [
        ("s1-faster-on-16-bit-hardware", {}, [], "The same study on an NVIDIA GPU of compute capability 7.0 or more."),
        ("s1-faster-on-16-bit-hardware", OTHER_UNITS, [], "make repro PROFILE=gpu, on an NVIDIA GPU of compute"),
        ("s4-custom-loop-accuracy", OTHER_UNITS, [], "A study with the source's settings."),
        # A study that would lack the default of other hardware is not sent there.
        ("s2-sixty-percent-on-tpus", {}, [], "The same study on a TPU."),
        ("s2-sixty-percent-on-tpus", {}, DEFAULTS, "make repro PROFILE=paper, on a TPU."),
        # On JAX XLA is no choice.
        ("s2-xla-adds-speed", {}, ["mixed_float16_xla"], "make repro PROFILE=paper ENGINE=cuda, on an NVIDIA GPU"),
        (
            "s2-small-models-gain-nothing",
            {},
            DEFAULTS,
            "A study that runs tf32 on mnist_dense. It must run on an NVIDIA GPU of compute capability 7.0 or more.",
        ),
    ],
)
def test_would_change_names_a_study_that_can_decide(name, recipe, lacking, would_change):
    evidence = world(BY_NAME[name], holds=True, hardware=CPU)
    lacks = evidence._replace(study=evidence.study.without(lacking))
    found = judged(needing(BY_NAME[name], recipe=recipe), lacks)
    assert sentence(found.would_change).startswith(would_change)


NO_SPEED = {"speedup": Estimate(), "epoch_speedup": Estimate()}


@pytest.mark.parametrize(
    ("part", "cells", "numerics"),
    [
        ("pairs", {}, {}),
        ("pairs", NO_SPEED, {"facts": {}, "samples": {}, "trials": []}),
        ("pairs", {"num_seeds": 0, "outcome": None, "reason": "no_runs", "difference_pp": None}, None),
        ("runs", {"outcome": "too_slow", "test_accuracy": None, "test_loss": None}, {}),
    ],
    ids=["everything found", "no speed", "no runs", "failed runs"],
)
def test_every_claim_gets_a_verdict_whatever_was_found(part, cells, numerics):
    """Claims come first, then findings, which are never called reproduced."""
    evidence = world(JUDGED[0], holds=True)
    rows = [Row(**vars(row) | cells) for row in getattr(evidence.tables, part)]
    tables = evidence.tables._replace(**{part: rows})
    evidence = evidence._replace(tables=tables, numerics=None if numerics is None else evidence.numerics | numerics)
    judgements = judge_claims(CLAIMS, evidence)
    order = [(claim.id, claim in CLAIMS.findings) for claim in CLAIMS.all]
    assert [(each.id, each.is_finding) for each in judgements] == order
    assert {each.verdict for each in judgements if each.is_finding} <= {"found", "not found", "open"}
    for claim in CLAIMS.all:
        assert judged(needing(claim, hardware="anything"), evidence).reason


def test_an_untested_claim_is_shown_without_evidence():
    claim = BY_NAME["s2-tpus-gain-less"]
    found = judged(claim, world(claim, holds=True))
    assert (found.verdict, found.evidence, found.measured) == ("not testable here", None, [])
    assert (found.reason.numbers, found.would_change.numbers) == (
        {"reason": claim.reason},
        {"testable_by": claim.testable_by},
    )


@pytest.mark.parametrize(
    ("name", "hardware", "verdict", "beside"),
    [
        ("s2-three-times-on-modern-gpus", Hardware("nvidia_gpu", "V100", 7.0), "reproduced", "float32"),
        ("s2-three-times-on-modern-gpus", Hardware("nvidia_gpu", "H200", 9.0), "inconclusive", "tf32"),
        ("s2-sixty-percent-on-tpus", Hardware("tpu", "TPU v5e"), "reproduced", "tf32"),
    ],
)
def test_a_speedup_is_measured_against_the_devices_default_precision(name, hardware, verdict, beside):
    """4 times as fast as strict float32 is only 2 times as fast as TF32, the default on Ampere and later."""
    claim = BY_NAME[name]
    evidence = world(claim, holds=True, hardware=hardware)
    pairs = [
        Row(
            **vars(row) | ({"speedup": between(1.9, 2.1)} if row.baseline == "tf32" else {"speedup": between(3.9, 4.1)})
        )
        for row in evidence.tables.pairs
    ]
    judgement = judged(claim, evidence._replace(tables=evidence.tables._replace(pairs=pairs)))
    assert judgement.verdict == verdict
    assert judgement.measured[0].numbers["baseline"] == beside
