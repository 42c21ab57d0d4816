"""Readers are told something of every key, and of every claim whatever was found."""

from typing import get_args

import pytest
from comparisons import comparison
from conftest import REPOSITORY

from pipeline.claims.evidence import Evidence, read_compiled_evidence
from pipeline.claims.schema import load_claims
from pipeline.claims.verdicts import judge_claims
from pipeline.claims.wording import OUTCOMES, describe_trial
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import SAMPLES, TRIALS, sample_names
from pipeline.records import schema as records
from pipeline.study.schema import load_study

CLAIMS, STUDY = load_claims(REPOSITORY / "claims.yaml"), load_study(REPOSITORY / "params.yaml")


def test_every_key_has_words():
    """A key without words would end the report with a traceback."""
    assert OUTCOMES.keys() >= set(get_args(records.Outcome))
    assert SAMPLES.keys() == {name.partition(".")[0] for name in sample_names(CLAIMS.benchmarks)}
    assert all(describe_trial(trial.name) for trial in TRIALS)


GPU = Hardware("nvidia_gpu", "Tesla V100-SXM2-16GB", 7.0, memory_bytes=2**34)


def evidence(hardware=GPU, facts=None, trained=0, outcome="completed", failures=None, interval=(0.9, 2.1)) -> Evidence:
    """Everything that the claims ask for, found for every variant of the project's study."""
    found = comparison(*interval, failures=failures)
    pair, variant = found.pairs[0], found.variants[0]
    runs = [(benchmark, name) for benchmark in CLAIMS.benchmarks for name in STUDY.variants_of(benchmark)]
    pairs = [
        pair.model_copy(update={"benchmark": benchmark, "candidate": name, "baseline": baseline})
        for benchmark, name in runs
        for baseline in ("float32", "mixed_float16")
    ]
    variants = [
        variant.model_copy(update={"benchmark": benchmark, "variant": name, "outcomes": {outcome: 2, "completed": 1}})
        for benchmark, name in runs
    ]
    turns = [found.turns[0].model_copy(update={"benchmark": benchmark}) for benchmark in CLAIMS.benchmarks]
    accuracies = dict.fromkeys(("accuracies", "float32_accuracies"), 6 * [0.9])
    trials = [trial._asdict() | {"num_trained": trained, "num_trials": 6} | accuracies for trial in TRIALS]
    return Evidence(
        study=STUDY,
        comparison=found.model_copy(update={"pairs": pairs, "variants": variants, "turns": turns}),
        numerics={
            "facts": facts or {},
            "samples": {name: [0.9, 1.0, 1.2] for name in sample_names(CLAIMS.benchmarks)} if facts else {},
            "trials": trials if facts else [],
        },
        hardware=hardware,
    )


COMPILED, RECIPES = read_compiled_evidence(REPOSITORY)
OTHER_RECIPES = {name: recipe | {"optimizer": {}, "batch_size": 256} for name, recipe in RECIPES.items()}
CLAIMED = {name: value for claim in CLAIMS.all for name, value in getattr(claim, "quantities", {}).items()}


@pytest.mark.parametrize(
    "found",
    [
        evidence(facts=CLAIMED),
        evidence(facts=dict.fromkeys(CLAIMED, 3.0), trained=6, outcome="out_of_memory", failures={"out_of_memory": 2}),
        evidence(facts=CLAIMED, trained=3, outcome="too_slow", failures={"diverged": 1}, interval=(None, None)),
        evidence(facts=None, hardware=Hardware("cpu", "Example CPU")),
        evidence(facts=CLAIMED, hardware=Hardware("tpu", "TPU v5e"), interval=(3.1, 3.3)),
        evidence(facts=None, hardware=Hardware("cpu", "Example CPU"))._replace(compiled=COMPILED, recipes=RECIPES),
        evidence(facts=None, hardware=Hardware("cpu", "Example CPU"))._replace(
            compiled=COMPILED, recipes=OTHER_RECIPES
        ),
    ],
    ids=["as claimed", "other than claimed", "failed", "nothing found", "on a TPU", "compiled", "another recipe"],
)
def test_every_claim_gets_a_verdict_whatever_was_found(found):
    asked = CLAIMS.model_copy(update={"claims": [*CLAIMS.all, *(at_any_scale(claim) for claim in CLAIMS.all)]})
    judgements = judge_claims(asked.model_copy(update={"findings": []}), found)
    assert len(judgements) == 2 * len(CLAIMS.all)
    assert all(judgement.reason for judgement in judgements)


def at_any_scale(claim):
    """The claim without what it needs, so that what was measured is judged."""
    return claim.model_copy(update={"needs": claim.needs.model_copy(update={"hardware": "anything", "recipe": {}})})
