"""Summarise a study in a sentence a pair, and in counts."""

from collections import Counter
from typing import get_args

from pipeline.claims.claim import EvidenceKind
from pipeline.claims.wording import (
    describe_difference,
    describe_kernels,
    describe_ratio,
    describe_speedup,
    failed_runs,
)
from pipeline.comparison.schema import Pair
from pipeline.numbers import interval
from pipeline.report.results import Results
from pipeline.statistics.equivalence import margin_means_something

# What follows an accuracy difference, with the margin in it.
_OUTCOMES = {
    "equivalent": "equivalent within {}",
    "equivalent but shifted": "shifted, yet equivalent within {}",
    "different": "different; whether by more than {} is open",
    "beyond": "different by more than {}",
    "inconclusive": "inconclusive for a margin of {}",
}


def headlines(results: Results, benchmark: str) -> list[str]:
    """Return a sentence a pair: each mixed policy at each batch, then float32 at the other batches.

    The last tells a loss of accuracy that belongs to the batch from one that belongs to the precision.
    """
    variants = results.study.variants_of(benchmark)
    mixed = dict.fromkeys(variant.policy for variant in variants.values() if variant.policy.startswith("mixed_"))
    baseline = variants[results.study.comparison.baseline].policy
    plain = [name for name, variant in variants.items() if variant.is_plain(results.study.engine)]
    names = [name for policy in dict.fromkeys((*mixed, baseline)) for name in plain if variants[name].policy == policy]
    pairs = [results.comparison.find(benchmark, name) for name in names]
    base = variants[results.study.comparison.baseline].batch_multiplier
    accuracy = results.comparison.variant(benchmark, results.study.comparison.baseline).test_accuracy.mean
    return [
        _sentence(pair, variants[pair.candidate].batch_multiplier / base, accuracy or 0.0) for pair in pairs if pair
    ]


def advice(results: Results, benchmark: str) -> str:
    """Advise on this hardware in one sentence: a mixed policy at the same batch, or float32.

    The fastest mixed policy that gains speed at the same accuracy; where none does, the fastest one. Those that keep
    their variables in 16 bits too are experiments, and no advice.
    """
    study = results.study
    baseline = study.comparison.baseline
    variants = study.variants_of(benchmark)
    pairs = [
        pair
        for name, variant in variants.items()
        if variant.is_plain(study.engine)
        and variant.policy.startswith("mixed_")
        and variant.batch_multiplier == variants[baseline].batch_multiplier
        and (pair := results.comparison.find(benchmark, name))
    ]
    timed = [pair for pair in pairs if pair.speedup.low is not None]
    if not timed and pairs and all(pair.speedup_at_most for pair in pairs):
        best = max(pairs, key=lambda pair: pair.speedup_at_most or 0.0)
        return f"Stay with {baseline}: {best.candidate} is {describe_speedup(best)}{describe_kernels(best)}."
    if not timed:
        return f"Nothing to advise: the speed of no mixed policy could be measured beside {baseline}."
    gains = [pair for pair in timed if (pair.speedup.low or 0.0) > 1]
    reached = results.comparison.variant(benchmark, baseline).test_accuracy.mean or 0.0
    accurate = [
        pair
        for pair in gains
        if pair.equivalence.outcome.startswith("equivalent")
        and margin_means_something(pair.equivalence.margin_pp, reached)
    ]
    best = max(accurate or gains or timed, key=lambda pair: pair.speedup.ratio or 0.0)
    low, high, ratio = best.speedup.low or 0.0, best.speedup.high or 0.0, best.speedup.ratio or 0.0
    accuracy = _accuracy_in_words(best, reached) + failed_runs(best)
    if low > 1:
        start = "Use" if best in accurate else "Faster, but look at the accuracy:"
        return f"{start} {best.candidate}: {describe_ratio(best.speedup, f'the speed of {baseline}')}, {accuracy}."
    if high < 1:
        which = f"{best.candidate}, the fastest mixed policy," if len(timed) > 1 else best.candidate
        time = f"{1 / ratio:.2f}× the time {interval(1 / high, 1 / low, '.2f')}"
        return f"Stay with {baseline}: {which} takes {time}, {accuracy}."
    return (
        f"Stay with {baseline} until more is known: {best.candidate} runs at "
        f"{describe_ratio(best.speedup, 'its speed')}, which may be no gain, {accuracy}."
    )


def _accuracy_in_words(pair: Pair, baseline_accuracy: float) -> str:
    margin = f"±{pair.equivalence.margin_pp:g} pp"
    if not margin_means_something(pair.equivalence.margin_pp, baseline_accuracy):
        return f"and at an accuracy of {baseline_accuracy:.1%} little can be said about its accuracy"
    return {
        "equivalent": f"at the same accuracy within {margin}",
        "equivalent but shifted": f"at the same accuracy within {margin}, though shifted",
        "different": f"at another accuracy ({describe_difference(pair)}), by more than {margin} or less",
        "beyond": f"at another accuracy ({describe_difference(pair)})",
        "inconclusive": f"and these seeds cannot tell whether the accuracy is the same within {margin}",
    }["beyond" if pair.equivalence.is_beyond else pair.equivalence.outcome]


def _adjusted(pair: Pair) -> str:
    """Say why an interval that leaves out zero is inconclusive: it is one of several."""
    low, high = pair.accuracy_difference_pp.low95, pair.accuracy_difference_pp.high95
    apart = low is not None and high is not None and (low > 0 or high < 0)
    if not apart or pair.equivalence.outcome != "inconclusive":
        return ""
    return f" once it is one of {pair.equivalence.num_candidates} candidates"


def _sentence(pair: Pair, batch_multiple: float, baseline_accuracy: float) -> str:
    words = {1.0: "at the same batch", 2.0: "at double the batch"}
    batch = words.get(batch_multiple, f"at {batch_multiple:g}× the batch")
    failed = failed_runs(pair)
    if not pair.num_seeds and pair.speedup_at_most:
        return f"{pair.candidate}, {batch}: {describe_speedup(pair)}{failed}"
    if not pair.num_seeds:
        return f"{pair.candidate}, {batch}: nothing to compare with {pair.baseline}{failed}"
    margin_pp = pair.equivalence.margin_pp
    little = ""
    if pair.equivalence.outcome.startswith("equivalent") and not margin_means_something(margin_pp, baseline_accuracy):
        little = f" (which shows little: {pair.baseline} itself reaches {baseline_accuracy:.1%})"
    outcome = "beyond" if pair.equivalence.is_beyond else pair.equivalence.outcome
    speed = describe_speedup(pair)
    if pair.speedup.ratio is None and pair.speedup_at_most is None:
        speed = "its speed is not known"
    return (
        f"{pair.candidate}, {batch}: {speed}, "
        f"test accuracy {describe_difference(pair)}, {_OUTCOMES[outcome].format(f'±{margin_pp:g} pp')}"
        f"{_adjusted(pair)}{little}{failed}{describe_kernels(pair)}"
    )


def verdict_counts(results: Results, said_by: str = "source", source: str | None = None) -> dict[str, int]:
    """Number of claims by verdict, most frequent first: published ones, or those `said_by` us.

    Definitions are not counted. With `source`, those of one source alone.
    """
    counted = [verdict for verdict in results.verdicts if verdict["verdict"] != "definition"]
    chosen = [v["verdict"] for v in counted if v["said_by"] == said_by and source in (None, v["source"])]
    return dict(Counter(chosen).most_common())


def evidence_counts(results: Results) -> dict[str | None, int]:
    """Return the number of verdicts on published claims by the evidence that they rest on, and of those on none."""
    published = [v for v in results.verdicts if v["verdict"] != "definition" and v["said_by"] == "source"]
    counts = Counter(verdict["evidence"] for verdict in published)
    return {name: counts[name] for name in (*get_args(EvidenceKind), None) if counts[name]}


def outcome_counts(results: Results) -> dict[str, int]:
    """Number of runs by outcome."""
    return dict(Counter(run["outcome"] for run in results.runs).most_common())
