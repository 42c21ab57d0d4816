"""A claim is worth its verdict only if a wrong world would change it: for each, evidence for it and against it."""

from copy import deepcopy
from typing import Any

import pytest
from comparisons import CPU, comparison, ratio
from conftest import REPOSITORY
from programs import made_up, program
from studies import composed

from pipeline.claims.claim import DEFAULT, check_variant
from pipeline.claims.compiled_claims import CONTRARY, KEEPS_MORE
from pipeline.claims.evidence import Evidence
from pipeline.claims.schema import load_claims
from pipeline.claims.verdicts import judge_claims, recipe_differences
from pipeline.compiled.schema import CompiledTarget
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import TRIALS
from pipeline.statistics import intervals
from pipeline.statistics.intervals import Mean, proportion
from pipeline.study.configuration import validate
from pipeline.study.schema import Study, load_study

CLAIMS = load_claims(REPOSITORY / "claims.yaml")
JUDGED = [claim for claim in CLAIMS.all if claim.kind != "untested"]
WITH_RECIPE = [claim for claim in JUDGED if claim.needs.recipe]
NIGHT = composed("profile=night")
ACCURACIES = ("accuracies", "float32_accuracies")
COMPILED = [c for c in JUDGED if "compiled" in c.judges and c.needs.hardware not in ("cpu", "intel_cpu", "intel_gpu")]


def identifiers(claims: list) -> list[str]:
    return [claim.id for claim in claims]


def hardware_for(claim) -> Hardware:
    """Hardware that the claim is about."""
    needs = claim.needs
    if needs.hardware in ("anything", "cpu"):
        return CPU
    if needs.hardware == "intel_cpu":
        return Hardware("cpu", "Intel Xeon")
    if needs.hardware == "tpu":
        return Hardware("tpu", "TPU v5e")
    capability = needs.max_compute_capability or needs.min_compute_capability or 7.0
    return Hardware("nvidia_gpu", "Example GPU", capability, memory_bytes=16 * 10**9)


def study_for(claim) -> Study:
    """The project's study by the recipe of the claim, with every variant that claims know."""
    values = load_study(REPOSITORY / "params.yaml").model_dump(mode="json")
    values["benchmarks"]["mnist_dense_scheduled"] = deepcopy(values["benchmarks"]["mnist_dense"])
    values["datasets"] |= NIGHT["datasets"]
    values["benchmarks"] |= deepcopy(NIGHT["benchmarks"])
    del values["benchmarks"]["cifar100_resnet9"]["augmentation"]  # a variant is compiled by XLA, which can't be
    values["comparison"]["margin_pp"] |= {"mnist_dense_scheduled": 0.5, "cifar100_resnet9": 1.0}
    for benchmark in values["benchmarks"].values():
        benchmark["steps_per_execution"] = 1
    for path, value in claim.needs.recipe.items():
        *folders, last = path.split(".")
        place = values["benchmarks"][claim.benchmark]
        for folder in folders:
            place = place[folder]
        place[last] = value
    values["variants"] |= {name: variant.model_dump(mode="json") for name, variant in CLAIMS.variants.items()}
    values["variants"]["float8"]["benchmarks"] = ["mnist_dense", "mnist_dense_scheduled"]
    return Study.model_validate(values | {"seeds": [0, 1, 2, 3, 4, 5], "num_seeds": {}})


def between(low: float, high: float) -> Mean:
    return Mean(mean=(low + high) / 2, low=low, high=high, new_low=low, new_high=high)


def speedups(claim, holds: bool) -> tuple[float, float]:
    if claim.at_least:
        return (1.1 * claim.at_least, 1.2 * claim.at_least) if holds else (0.5, 0.6)
    limit = claim.at_most
    return (0.8 * limit, 0.9 * limit) if holds else (1.1 * max(limit, 1), 1.2 * max(limit, 1))


def world(claim, holds: bool) -> Evidence:
    """Everything that this project can find, as it would be if the claim were true, or if it were false."""
    study, hardware = study_for(claim), hardware_for(claim)
    found = comparison(*(speedups(claim, holds) if claim.kind == "speedup" else (0.9, 1.1)))
    pair, variant, turns = found.pairs[0], found.variants[0], found.turns[0]
    changes: dict[str, Any] = {}
    if claim.kind == "speedup":
        changes = {"speedup": pair.speedup, "epoch_speedup": pair.speedup}
    if claim.kind == "same_accuracy":
        found_out = {"outcome": "equivalent"} if holds else {"outcome": "different", "beyond_p_value_holm": 0.01}
        changes = {"equivalence": pair.equivalence.model_copy(update=found_out)}
    if claim.kind == "memory":
        changes = {"memory_ratio": ratio(0.5, 0.48, 0.52) if holds else ratio(1.1, 1.05, 1.15)}
    pairs = [
        pair.model_copy(update={"benchmark": name, "baseline": baseline, "candidate": candidate} | changes)
        for name in CLAIMS.benchmarks
        for baseline in CLAIMS.variants
        for candidate in CLAIMS.variants
        if baseline != candidate
    ]
    ends = {"completed": proportion(6, 6), "outcomes": {"completed": 6}}
    if claim.kind == "value":
        near = between(claim.value - claim.tolerance / 2, claim.value + claim.tolerance / 2)
        far = between(claim.value + 2 * claim.tolerance, claim.value + 3 * claim.tolerance)
        ends |= {claim.quantity: near if holds else far}
    if claim.kind == "late_skips":
        ends |= {"late_skips": proportion(0 if holds else 500, 10_000)}
    if claim.kind == "outcome":
        ends |= {"outcomes": {claim.outcome if holds else CONTRARY[claim.outcome][0]: 6}}
    variants = [
        variant.model_copy(update={"benchmark": benchmark, "variant": name} | ends)
        for benchmark in CLAIMS.benchmarks
        for name in CLAIMS.variants
    ]
    facts = {} if claim.kind != "fact" else dict(claim.quantities)
    if not holds and facts:
        facts[next(iter(facts))] = "something else" if isinstance(next(iter(facts.values())), str) else 3.5
        facts = {name: ("65000.0" if value == "something else" else value) for name, value in facts.items()}
    trained = 6 if holds == getattr(claim, "trains", True) else 0
    limit = getattr(claim, "at_least", None) or getattr(claim, "at_most", None) or 1.0
    above = holds == bool(getattr(claim, "at_least", None))
    centre = 2 * limit if above else limit / 2
    counted = claim.kind == "sample" and claim.is_counted
    return Evidence(
        study=study,
        comparison=found.model_copy(
            update={
                "pairs": pairs,
                "variants": variants,
                "turns": [turns.model_copy(update={"benchmark": name}) for name in CLAIMS.benchmarks],
            }
        ),
        numerics={
            "facts": {claim.sample: round(centre)} if counted else facts,
            "samples": {} if claim.kind != "sample" else {claim.sample: [0.99 * centre, centre, 1.01 * centre]},
            "trials": [
                trial._asdict() | {"num_trained": trained, "num_trials": 6} | dict.fromkeys(ACCURACIES, 6 * [0.9])
                for trial in TRIALS
            ],
        },
        hardware=hardware,
        compiled=compiled_for(claim, holds) if "measured" not in claim.judges else (),
        recipes=recipes_for(claim),
    )


def recipes_for(claim) -> dict[str, dict[str, Any]]:
    return {name: benchmark.model_dump(mode="json") for name, benchmark in study_for(claim).benchmarks.items()}


def compiled_for(claim, holds: bool) -> list[CompiledTarget]:
    """What compilers of a V100 and of a TPU would say if the claim were true, or if it were false."""
    found = []
    for name, kind in (("v100-16gb", "gpu"), ("tpu-v5e", "tpu")):
        values = {"target": name, "kind": kind, "title": name, "memory_bytes": 16_935_682_048}
        found.append(made_up(*compiled_programs(claim, holds), **values))
    return found


def compiled_programs(claim, holds: bool) -> list:
    if claim.kind not in ("memory", "outcome", "rounding"):
        return []
    batch_size = recipes_for(claim)[claim.benchmark]["batch_size"]
    if claim.kind == "rounding":
        operands = "bfloat16 × float32" if holds else "float32"
        product = {"kind": "product", "operands": operands, "result": "float32", "count": 8}
        return [program("float32_default", 1000, batch_size, benchmark=claim.benchmark, operations=[product])]
    variant = CLAIMS.variants[claim.candidate]
    if claim.kind == "memory":
        ours = program(
            variant.policy, 500 if holds else 1100, variant.batch_multiplier * batch_size, benchmark=claim.benchmark
        )
        return [program("float32", 1000, batch_size, benchmark=claim.benchmark), ours]
    fits = holds == (claim.outcome == "completed")
    needed = (12 if fits else 18) * 10**9
    return [program(variant.policy, needed, variant.batch_multiplier * batch_size, benchmark=claim.benchmark)]


def elsewhere(claim, holds: bool) -> Evidence:
    """Everything that can be found on a CPU, and what the compilers of other hardware say."""
    return world(claim, not holds)._replace(hardware=CPU, compiled=compiled_for(claim, holds))


def judged(claim, evidence: Evidence):
    (judgement,) = judge_claims(CLAIMS.model_copy(update={"claims": [claim], "findings": []}), evidence)
    return judgement


@pytest.mark.parametrize("claim", JUDGED, ids=identifiers(JUDGED))
def test_evidence_decides_for_a_claim_and_against_it(claim):
    right, wrong = judged(claim, world(claim, holds=True)), judged(claim, world(claim, holds=False))
    is_existential = getattr(claim, "existential", False)  # which one case where it is not so refutes not
    assert right.verdict == "reproduced", right.reason
    assert wrong.verdict == ("inconclusive" if is_existential else "not reproduced"), wrong.reason
    for judgement in (right, wrong):
        assert judgement.evidence in claim.judges
        assert judgement.measured
        assert bool(judgement.would_change) == (judgement.verdict == "inconclusive")


@pytest.mark.parametrize("claim", COMPILED, ids=identifiers(COMPILED))
def test_compilers_decide_for_a_claim_and_against_it_where_there_is_no_such_hardware(claim):
    right, wrong = (judged(claim, elsewhere(claim, holds)) for holds in (True, False))
    # That a leaner program fits refutes no overflow of another one, and vouches for no fit of it.
    undecided = {"completed": right, "out_of_memory": wrong}.get(getattr(claim, "outcome", ""))
    expected = [
        "inconclusive" if each is undecided else verdict
        for each, verdict in ((right, "reproduced"), (wrong, "not reproduced"))
    ]
    assert [right.verdict, wrong.verdict] == expected, (right.reason, wrong.reason)
    for judgement in (right, wrong):
        assert judgement.evidence == "compiled"
        assert judgement.measured
        if claim.needs.hardware == "nvidia_gpu":
            assert KEEPS_MORE in judgement.reason
        runs = "Runs on such hardware: make repro PROFILE=paper ENGINE=cuda."
        assert judgement.would_change == (runs if judgement is undecided else None)


@pytest.mark.parametrize("claim", COMPILED, ids=identifiers(COMPILED))
def test_without_compiled_programs_it_is_said_how_they_are_made(claim):
    judgement = judged(claim, elsewhere(claim, holds=True)._replace(compiled=()))
    assert (judgement.verdict, judgement.evidence) == ("not testable here", None)
    assert "make compiled" in judgement.would_change


@pytest.mark.parametrize("claim", [c for c in COMPILED if "measured" in c.judges], ids=lambda c: c.id)
def test_what_was_measured_goes_before_what_was_compiled(claim):
    judgement = judged(claim, world(claim, holds=False)._replace(compiled=compiled_for(claim, holds=True)))
    assert (judgement.verdict, judgement.evidence) == ("not reproduced", "measured")


@pytest.mark.parametrize("claim", [c for c in COMPILED if c.needs.recipe], ids=lambda c: c.id)
def test_what_was_compiled_by_another_recipe_decides_nothing(claim):
    """Here nothing is measured either: by a study of this machine nobody would know."""
    recipes = recipes_for(claim)
    recipes[claim.benchmark]["model"]["name"] = "other"
    judgement = judged(claim, elsewhere(claim, holds=True)._replace(recipes=recipes))
    assert judgement.evidence is None
    assert "compiled" in judgement.would_change


def test_only_targets_that_a_claim_is_about_judge_it():
    """What fits into 16 GB is not asked of 80 GB, nor what a GPU does of a TPU."""
    claim = next(claim for claim in CLAIMS.all if claim.id == "s3-float32-out-of-memory-at-256")
    evidence = elsewhere(claim, holds=True)
    (gpu,) = (made for made in evidence.compiled if made.kind == "gpu")
    large = gpu.model_copy(update={"target": "h100", "memory_bytes": 80 * 10**9})
    assert judged(claim, evidence._replace(compiled=[gpu])).measured == "v100-16gb: does not fit"
    assert judged(claim, evidence).measured == "v100-16gb: does not fit"
    assert judged(claim, evidence._replace(compiled=[large])).evidence is None


def test_targets_that_differ_are_no_verdict():
    claim = next(claim for claim in CLAIMS.all if claim.id == "s2-less-memory-in-training")
    evidence = elsewhere(claim, holds=True)
    other = compiled_for(claim, holds=False)[0].model_copy(update={"target": "h100", "title": "h100"})
    judgement = judged(claim, evidence._replace(compiled=[*evidence.compiled, other]))
    assert (judgement.verdict, judgement.evidence) == ("inconclusive", "compiled")
    assert judgement.measured == "v100-16gb: 0.50×; h100: 1.10×"


def test_no_compiler_judges_time():
    assert all(list(claim.judges) == ["measured"] for claim in JUDGED if claim.kind == "speedup")
    for claim in JUDGED:
        judges = list(claim.judges)
        assert judges
        assert judges == [kind for kind in ("measured", "compiled", "counted") if kind in judges]


@pytest.mark.parametrize("claim", WITH_RECIPE, ids=identifiers(WITH_RECIPE))
def test_a_study_by_another_recipe_gives_no_verdict(claim):
    """Each setting of the recipe counts: what differs is named, and what was measured is shown."""
    for path, value in claim.needs.recipe.items():
        other = {**claim.needs.recipe, path: 7 if value != 7 and not isinstance(value, str) else "other"}
        asks = claim.model_copy(update={"needs": claim.needs.model_copy(update={"recipe": other})})
        judgement = judged(asks, world(claim, holds=True))
        assert (judgement.verdict, judgement.evidence) == ("not this recipe", None)
        assert judgement.measured
        assert judgement.reason.endswith("in the source")
        by_compiler = "The recipe of the source, compiled" if claim.kind == "rounding" else ""
        by_profile = f"The profile {claim.needs.profile} on " if claim.needs.profile else ""
        assert judgement.would_change.startswith(by_compiler or by_profile or "A study in which what the reason names")


@pytest.mark.parametrize("claim", WITH_RECIPE, ids=identifiers(WITH_RECIPE))
def test_the_profile_that_a_claim_names_has_its_recipe_and_its_variants(claim):
    """Two claims have none that would decide them; a rounding is for the compiler to say."""
    if claim.needs.profile is None:
        assert claim.id in ("s2-small-models-gain-nothing", "s4-custom-loop-accuracy") or claim.kind == "rounding"
        return
    study = validate(Study, composed(f"profile={claim.needs.profile}"), claim.needs.profile)
    assert recipe_differences(claim, study.benchmarks[claim.benchmark].model_dump(), "here") == ""
    of_device = {"paper": "tf32", "tpu": "float32_default"}.get(claim.needs.profile, "float32")
    named = [getattr(claim, "baseline", None) or study.comparison.baseline, getattr(claim, "candidate", None)]
    for name in filter(None, named):
        known = of_device if name == DEFAULT else name
        check_variant(CLAIMS.variants, study, claim.benchmark, known)


PAPER = "The profile paper on an NVIDIA GPU of compute capability ≥ 7.0: make repro PROFILE=paper ENGINE=cuda."


@pytest.mark.parametrize(
    ("name", "lacks_recipe", "would_change"),
    [
        ("s1-faster-on-16-bit-hardware", False, "The same study on an NVIDIA GPU of compute capability ≥ 7.0."),
        ("s1-faster-on-16-bit-hardware", True, PAPER),
        ("s4-custom-loop-accuracy", True, "A study in which what the reason names is as in the source."),
    ],
)
def test_what_would_decide_is_a_study_that_can(name, lacks_recipe, would_change):
    claim = next(claim for claim in CLAIMS.all if claim.id == name)
    recipe = claim.needs.recipe | ({"model.units": 7} if lacks_recipe else {})
    asks = claim.model_copy(update={"needs": claim.needs.model_copy(update={"recipe": recipe})})
    judgement = judged(asks, world(claim, holds=True)._replace(hardware=CPU, compiled=[]))
    assert judgement.would_change == would_change


def test_hardware_a_baseline_and_a_recipe_that_are_all_missing_are_all_named():
    claim = next(claim for claim in CLAIMS.all if claim.id == "s2-small-models-gain-nothing")
    asks = claim.model_copy(update={"needs": claim.needs.model_copy(update={"recipe": {"model.units": 7}})})
    judgement = judged(asks, without("tf32", world(claim, holds=True))._replace(hardware=CPU))
    assert judgement.would_change == (
        "A study that runs tf32 on mnist_dense. Its recipe must be the source's: the width of the dense layers is 64 "
        "in this study, 7 in the source. It must run on an NVIDIA GPU of compute capability ≥ 7.0."
    )


def without(name: str, right: Evidence) -> Evidence:
    values = right.study.model_dump(mode="json")
    del values["variants"][name]
    values["num_seeds_by_variant"] = {}
    pairs = values["comparison"]["further_pairs"]
    values["comparison"]["further_pairs"] = [pair for pair in pairs if name not in pair.values()]
    return right._replace(study=Study.model_validate(values))


def test_a_variant_that_is_missing_asks_for_the_profile_that_has_it_or_for_a_study_by_the_recipe():
    claim = next(claim for claim in CLAIMS.all if claim.id == "s5-fixed-scale-trains-equally-well")
    judgement = judged(claim, without("mixed_float16_fixed", world(claim, holds=True)))
    assert judgement.would_change == "The profile evening on two CPU cores: make repro PROFILE=evening."
    custom = next(claim for claim in CLAIMS.all if claim.id == "s4-custom-loop-accuracy")
    recipe = custom.needs.recipe | {"split.num_train_examples": 7}
    asks = custom.model_copy(update={"needs": custom.needs.model_copy(update={"recipe": recipe})})
    judgement = judged(asks, without("mixed_float16_custom", world(custom, holds=True)))
    assert judgement.would_change.startswith(
        "A study that runs mixed_float16_custom on mnist_dense. Its recipe must be"
    )
    assert judgement.would_change.endswith("in this study, 7 in the source.")


@pytest.mark.parametrize(
    ("name", "would_change"),
    [
        ("s2-sixty-percent-on-tpus", "The profile tpu on a TPU: make repro PROFILE=tpu."),
        ("s2-three-times-on-modern-gpus", PAPER),
        (
            "s2-small-models-gain-nothing",
            "A study that runs tf32 on mnist_dense. It must run on an NVIDIA GPU of compute capability ≥ 7.0.",
        ),
    ],
)
def test_a_study_that_would_lack_the_default_of_other_hardware_is_not_sent_there(name, would_change):
    claim = next(claim for claim in CLAIMS.all if claim.id == name)
    right = world(claim, holds=True)._replace(hardware=CPU)
    assert judged(claim, right).would_change.startswith("The same study on ")
    lacking = without("tf32", without("float32_default", right))
    assert judged(claim, lacking).would_change == would_change


def test_a_claim_of_hardware_and_a_variant_that_are_both_missing_asks_for_both():
    claim = next(claim for claim in CLAIMS.all if claim.id == "s2-xla-adds-speed")
    asks = claim.model_copy(update={"needs": claim.needs.model_copy(update={"profile": None})})
    judgement = judged(asks, without("mixed_float16_xla", world(claim, holds=True))._replace(hardware=CPU))
    assert judgement.would_change == (
        "A study that runs mixed_float16_xla on mnist_dense. It must run on an NVIDIA GPU."
    )


@pytest.mark.parametrize("claim", [c for c in CLAIMS.all if c.kind == "untested"], ids=lambda c: c.id)
def test_what_nothing_decides_is_shown_and_rests_on_no_evidence(claim):
    judgement = judged(claim, world(claim, holds=True))
    assert (judgement.verdict, judgement.evidence, judgement.measured) == ("not testable here", None, None)
    assert judgement.would_change == claim.testable_by


def test_findings_of_ours_stand_after_the_claims_and_are_never_called_reproduced():
    judgements = judge_claims(CLAIMS, world(JUDGED[0], holds=True))
    assert [(each.id, each.is_finding) for each in judgements] == [
        (claim.id, claim in CLAIMS.findings) for claim in CLAIMS.all
    ]
    assert {each.verdict for each in judgements if each.is_finding} <= {"found", "not found", "open"}


@pytest.mark.parametrize(
    ("hardware", "verdict", "beside"),
    [
        (Hardware("nvidia_gpu", "V100", 7.0), "reproduced", "float32"),
        (Hardware("nvidia_gpu", "H200", 9.0), "inconclusive", "tf32"),
    ],
)
def test_the_baseline_is_what_the_device_does_unless_asked_for_more(hardware, verdict, beside):
    """4 times as fast as strict float32 and 2 times as fast as TF32, the default on Ampere and later, is no 3 times."""
    claim = next(claim for claim in CLAIMS.all if claim.id == "s2-three-times-on-modern-gpus")
    evidence = world(claim, holds=True)._replace(hardware=hardware)
    beside_tf32 = ratio(2.0, 1.9, 2.1)
    pairs = [
        pair.model_copy(update={"speedup": beside_tf32 if pair.baseline == "tf32" else ratio(4.0, 3.9, 4.1)})
        for pair in evidence.comparison.pairs
    ]
    evidence = evidence._replace(comparison=evidence.comparison.model_copy(update={"pairs": pairs}))
    judgement = judged(claim, evidence)
    assert judgement.verdict == verdict
    assert f"the speed of {beside} [" in judgement.measured


def test_noise_never_helps_a_value():
    """The wider the interval of one more run, the less is said: no width turns a verdict into the other."""
    claim = next(claim for claim in CLAIMS.all if claim.id == "s1-test-accuracy")
    order = {"reproduced": 0, "not reproduced": 0, "inconclusive": 1}

    def verdict_of(accuracy: Mean) -> str:
        evidence = world(claim, holds=True)
        found = {"test_accuracy": accuracy}
        variants = [variant.model_copy(update=found) for variant in evidence.comparison.variants]
        comparison = evidence.comparison.model_copy(update={"variants": variants})
        return judged(claim, evidence._replace(comparison=comparison)).verdict

    for centre, first in ((claim.value, "reproduced"), (claim.value + 0.02, "not reproduced")):
        verdicts = [verdict_of(between(centre - half, centre + half)) for half in (0.001, 0.005, 0.009, 0.02, 0.1)]
        assert verdicts[0] == first
        assert set(verdicts) == {first, "inconclusive"}
        assert [order[found] for found in verdicts] == sorted(order[found] for found in verdicts)
    assert verdict_of(intervals.mean([claim.value] * 3)) == "reproduced"
    assert verdict_of(intervals.mean([claim.value] * 2)) == "inconclusive"


def test_significantly_slower_is_a_size_and_not_a_sign():
    claim = next(claim for claim in CLAIMS.all if claim.id == "s2-slower-on-cpus")

    def verdict(low: float, high: float) -> str:
        evidence = world(claim, holds=True)
        pairs = [
            pair.model_copy(update={"speedup": ratio((low + high) / 2, low, high)})
            for pair in evidence.comparison.pairs
        ]
        return judged(
            claim, evidence._replace(comparison=evidence.comparison.model_copy(update={"pairs": pairs}))
        ).verdict

    assert verdict(0.985, 0.995) == "in direction only"
    assert verdict(0.6, 0.79) == "reproduced"
    assert verdict(0.7, 0.9) == "inconclusive"
    assert verdict(1.0, 1.1) == "not reproduced"


def test_no_claim_rests_on_the_epochs_of_runs():
    for claim in JUDGED:
        evidence = world(claim, holds=True)
        slow = [
            variant.model_copy(update={"epoch_seconds": ratio(99.0, 98.0, 100.0)})
            for variant in evidence.comparison.variants
        ]
        changed = evidence._replace(comparison=evidence.comparison.model_copy(update={"variants": slow}))
        assert judged(claim, changed) == judged(claim, evidence)
