"""Readers are told sentences: no key of a file or of our code stands where words belong."""

import json
import re
from html.parser import HTMLParser
from typing import get_args

import pytest
from conftest import REPOSITORY
from test_verdicts import comparison

from pipeline.claims.compiled_judges import read_compiled_evidence
from pipeline.claims.evidence import Evidence
from pipeline.claims.kinds import ValueClaim
from pipeline.claims.results import load_results
from pipeline.claims.rules import rule
from pipeline.claims.schema import _recipe_paths, load_claims
from pipeline.claims.verdicts import judge_claims
from pipeline.comparison.fact_words import describe_facts
from pipeline.comparison.vocabulary import (
    METRIC_NAMES,
    OPTIMIZERS,
    OUTCOMES,
    QUANTITIES,
    SAMPLES,
    SETTING_NAMES,
    describe_sample,
    describe_setting,
    describe_trial,
    describe_variant,
    number,
)
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import POLICIES, TRIALS, fact_names, sample_names
from pipeline.records import schema as records
from pipeline.report.reporting import SECTIONS, parts
from pipeline.statistics.intervals import mean
from pipeline.study import recipe
from pipeline.study.schema import load_study
from pipeline.study.variant import Variant

CLAIMS, STUDY = load_claims(REPOSITORY / "claims.yaml"), load_study(REPOSITORY / "params.yaml")
NAMES = {*POLICIES, *CLAIMS.benchmarks, *CLAIMS.variants, *STUDY.benchmarks, *STUDY.variants}
KEY = re.compile(r"\b[A-Za-z][\w-]*[._][\w.-]*\w")


def keys(text: str) -> list[str]:
    """What looks like a key in a text, other than names that a study gives."""
    return [found for found in KEY.findall(text) if found not in NAMES]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("square_of_256.float16: inf", ["square_of_256.float16"]),
        ("model.units is 64 in this study", ["model.units"]),
        ("3 runs out_of_memory", ["out_of_memory"]),
        ("the study's mixed is not the one of claims.yaml", ["claims.yaml"]),
        ("mixed_float16_2x ran out of memory on mnist_dense; 0.5 of it. So", []),
    ],
)
def test_a_key_is_told_from_a_word(text, found):
    assert keys(text) == found


def test_every_key_has_words():
    """A key that is added without words fails here, and not before a reader."""
    assert OUTCOMES.keys() >= set(get_args(records.Outcome))
    assert QUANTITIES.keys() == set(get_args(ValueClaim.model_fields["quantity"].annotation))
    assert SETTING_NAMES.keys() == _recipe_paths()
    assert SAMPLES.keys() == {name.partition(".")[0] for name in sample_names(CLAIMS.benchmarks)}
    assert OPTIMIZERS.keys() == set(get_args(recipe.OptimizerName))
    assert METRIC_NAMES.keys() == set(get_args(recipe.Metric))
    told = [
        *OUTCOMES.values(),
        *OPTIMIZERS.values(),
        *METRIC_NAMES.values(),
        *QUANTITIES.values(),
        *(words for words, _ in SAMPLES.values()),
    ]
    told += [describe_setting(path, None, 5) for path in SETTING_NAMES] + [
        describe_trial(trial.name) for trial in TRIALS
    ]
    assert [keys(text) for text in told if keys(text)] == []


VALUES = (True, False, 0, 0.5, 1, 2.0, -1, 2000, 65504.0, 3.4e38, "inf", "nan", "1e-10", "none", "float16")


@pytest.mark.parametrize("value", VALUES)
def test_every_fact_is_a_sentence_whatever_its_value(value):
    for name in sorted(fact_names(CLAIMS.benchmarks)):
        try:
            told = describe_facts({name: value})
        except ValueError:
            assert value in ("none", "float16")  # of a number, which no type's name is
            continue
        assert " " in told
        assert not keys(told), told


def test_facts_are_told_together():
    squares = {"square_of_256.float16": "inf", "square_of_256.bfloat16": "65536.0", "square_of_256.float32": "65536.0"}
    assert describe_facts(squares) == "256² is infinite in float16, 65,536 in bfloat16 and float32"
    scale = {"loss_scale.start": 32768.0, "loss_scale.growth_factor": 2.0, "loss_scale.factor_at_overflow": 0.25}
    assert describe_facts(scale) == (
        "the loss scale starts at 32,768, doubles when it grows and is multiplied by 0.25 at an overflow"
    )
    weights = {"weights_ratio.a.b.float16": 0.5, "weights_ratio.c.float16": 0.5}
    assert (
        describe_facts(weights) == "the weights under float16 take half the bytes of those under float32 in a.b and c"
    )
    assert describe_facts({"largest.bfloat16": 3.3895e38}) == "the largest value is 3.39 × 10³⁸ in bfloat16"


def test_numbers_are_read_and_words_stay():
    values = (65504.0, "1e-10", -0.5, 0.001, 4096, "inf", "dynamic", None, True)
    told = ("65,504", "1.00 × 10⁻¹⁰", "−0.5", "0.001", "4,096", "infinite", "dynamic", "not set", "on")
    assert tuple(map(number, values)) == told


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
    sizes = {"float32": 1000, "mixed_float16": 1500}
    trials = [
        trial._asdict() | {"num_trained": trained, "num_trials": 6, "float32_accuracies": 6 * [0.9]} for trial in TRIALS
    ]
    return Evidence(
        study=STUDY,
        comparison=found.model_copy(update={"pairs": pairs, "variants": variants, "turns": turns}),
        numerics={
            "facts": facts or {},
            "samples": {name: [0.9, 1.0, 1.2] for name in sample_names(CLAIMS.benchmarks)} if facts else {},
            "trials": trials if facts else [],
        },
        ceilings={"largest_batch": dict.fromkeys(CLAIMS.benchmarks, sizes) if facts else {}},
        hardware=hardware,
    )


COMPILED, RECIPES = read_compiled_evidence(REPOSITORY)
OTHER_RECIPES = {name: recipe | {"optimizer": {}, "batch_size": 256} for name, recipe in RECIPES.items()}
CLAIMED = {name: value for claim in CLAIMS.claims for name, value in getattr(claim, "quantities", {}).items()}


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
def test_a_verdict_is_words_for_every_claim(found):
    asked = CLAIMS.model_copy(update={"claims": [*CLAIMS.claims, *(at_any_scale(claim) for claim in CLAIMS.claims)]})
    judgements = judge_claims(asked, found)
    assert len(judgements) == 2 * len(CLAIMS.claims)
    for judgement in judgements:
        told = (judgement.reason, judgement.measured or "", judgement.published, judgement.rule, judgement.would_change)
        for text in told:
            assert not keys(text), (judgement.id, text)
        assert judgement.reason
        assert judgement.reason not in ("exactly so", "every run", "unknown")


def at_any_scale(claim):
    """The claim without what it needs, so that what was measured is judged."""
    return claim.model_copy(update={"needs": claim.needs.model_copy(update={"hardware": "anything", "recipe": {}})})


def test_what_sources_say_is_words():
    texts = [text for claim in CLAIMS.claims for text in (claim.statement, claim.published)]
    texts += [claim.short for claim in CLAIMS.claims if claim.short]
    texts += [claim.because for claim in CLAIMS.claims if claim.kind == "definition"]
    texts += [text for figure in CLAIMS.figures for text in (figure.condition, figure.quantity, figure.value)]
    assert [keys(text) for text in texts if keys(text)] == []


class Text(HTMLParser):
    """The text of a page, less what is shown as code, styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped, self.found = 0, []

    def handle_starttag(self, tag, _attributes):
        self.skipped += tag in ("code", "style", "script")

    def handle_endtag(self, tag):
        self.skipped -= tag in ("code", "style", "script")

    def handle_data(self, data):
        if not self.skipped:
            self.found.append(data)


def test_no_page_has_a_key_outside_of_code(written_out):
    """Charts name variants and benchmarks too, and nothing else; letters of a chart can't be code."""
    part = parts(load_results(written_out))
    html = "".join(map(part, SECTIONS))
    charts = re.compile(r"<svg.*?</svg>", re.DOTALL)
    page, drawn = Text(), Text()
    page.feed(charts.sub("", html))
    drawn.feed(" ".join(charts.findall(html)))
    text = " ".join(page.found)
    assert len(text) > 20_000
    assert KEY.findall(text) == []
    assert keys(" ".join(drawn.found)) == []
    verdicts = json.loads((written_out / "results" / "verdicts.json").read_text())
    assert len(verdicts) == len(CLAIMS.claims)
    for text in ("256² is infinite in float16", "ran out of memory", "AVX512-FP16", "other process on its GPU"):
        assert text in html, text


def test_a_number_of_steps_has_its_unit():
    told = describe_sample("skipped_steps.mnist_dense", mean([3.0, 3.0, 3.0]), 3)
    assert told == "the number of first steps that the loss scale skips in mnist_dense is 3 steps in each of 3 tries"
    claim = next(claim for claim in CLAIMS.claims if claim.id == "s2-first-steps-are-skipped")
    assert "lies at 1 step or above" in rule(claim)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policy": "mixed_float16"}, "mixed_float16"),
        (
            {"batch_multiplier": 2, "learning_rate_multiplier": 2.0},
            "float32, double the batch, double the learning rate",
        ),
        ({"policy": "float16", "loss_scale": {"mode": "dynamic"}}, "float16, a dynamic loss scale"),
        ({"policy": "mixed_float16", "loss_scale": {"mode": "none"}}, "mixed_float16, no loss scale"),
        (
            {"policy": "mixed_float16", "batch_multiplier": 3, "loss_scale": {"mode": "fixed", "value": 1024.0}},
            "mixed_float16, 3 times the batch, a fixed loss scale of 1,024",
        ),
        (
            {"tf32": True, "jit_compile": True, "loop": "custom"},
            "float32, TF32 allowed, compiled by XLA, a custom loop",
        ),
    ],
)
def test_a_variant_is_told_by_what_it_sets(settings, words):
    assert describe_variant(Variant(**{"policy": "float32", "batch_multiplier": 1} | settings)) == words
