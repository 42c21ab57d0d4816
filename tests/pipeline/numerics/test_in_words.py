"""Sentences about what the numerics stage finds."""

import pytest

from pipeline.numerics.facts import TRIALS, fact_names
from pipeline.numerics.in_words import facts_said, sample_said
from pipeline.words.sentences import Said, sentence, sentences

BOTH = ("mnist_dense", "cifar100_resnet9")


def test_each_fact_has_its_own_sentence():
    names = sorted(fact_names(BOTH))
    told = [sentence(said) for said in facts_said(dict.fromkeys(names, 1))]
    assert len(set(told)) == len(told) == len(names)
    assert all(any(benchmark in each for each in told) for benchmark in BOTH)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("square_of_1e-05.float16", "0.0", "(10⁻⁵)² is zero in float16."),
        ("loss_scale.growth_steps", -1, "The dynamic loss scale does not grow when Keras says it does."),
        ("gradients.mnist_dense.some_flushed", False, "mnist_dense: no gradient is too small for float16."),
    ],
)
def test_the_sentence_of_a_fact_gives_its_value(name, value, told):
    assert sentences(facts_said({name: value})) == told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([2.0] * 6, "2 of the first ten steps in each of 6 tries."),
        ([1.0, 2.0, 3.0], "2 of the first ten steps, [−0.48, 4.48] (3 tries)."),  # 2 ± 4.303 / √3
        ([2.0], "2 of the first ten steps (1 try, too few for an interval)."),
    ],
)
def test_the_sentence_of_a_sample_gives_its_interval_if_there_is_one(values, told):
    assert sentence(sample_said("skipped_steps.mnist_dense", values)) == f"mnist_dense: loss scaling skips {told}"


def test_each_trial_has_its_own_question():
    more = {"trains": True, "shortfall": 0.05, "margin_pp": None}
    assert len({sentence(Said("claim.trial.asked", trial._asdict() | more)) for trial in TRIALS}) == len(TRIALS)
