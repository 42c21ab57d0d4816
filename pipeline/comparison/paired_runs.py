"""Turn runs into statistics: every variant meets the baseline at its own seed."""

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from pipeline.comparison.comparable import check_comparable, device, pairs_of
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.finished_speeds import summarise_turns
from pipeline.comparison.schema import Comparison, Pair
from pipeline.comparison.sittings import SittingRow, spread_between
from pipeline.comparison.variants import VariantRuns, by_variant, variant_statistics
from pipeline.statistics import intervals
from pipeline.statistics.equivalence import Contrast, PValues, adjust, difference, equivalence, p_values, paired
from pipeline.statistics.intervals import Ratio
from pipeline.statistics.sittings import on_another_day
from pipeline.statistics.speeds import NO_RATIO, Speeds
from pipeline.study.schema import RunKey, Study
from pipeline.study.variant import Variant, expected_dtypes


def compare(
    study: Study, runs: Mapping[RunKey, Run], speeds: Mapping[str, Speeds], sittings: Sequence[SittingRow] = ()
) -> Comparison:
    """Return the statistics of every variant and every pair of the study.

    Seeds decide about accuracy; `speeds`, by benchmark, about speed, and `sittings` how far another day's may be.

    Raises:
        InputError: runs differ in what the study does not vary, or are not what it says.
    """
    check_comparable(study, {key: run.record for key, run in runs.items()})
    benchmarks = {name: by_variant(study, name, runs) for name in study.benchmarks}
    pairs = {name: _pairs(study, name, variants, speeds[name], sittings) for name, variants in benchmarks.items()}
    return Comparison(
        study_sha256=study.digest,
        turns=[summarise_turns(study, name, speeds[name]) for name in benchmarks],
        variants=[
            variant_statistics(study, of, speeds[of.benchmark]) for each in benchmarks.values() for of in each.values()
        ],
        pairs=[pair for of_benchmark in pairs.values() for pair in of_benchmark],
    )


def _pairs(
    study: Study,
    benchmark: str,
    variants: Mapping[str, VariantRuns],
    speeds: Speeds,
    sittings: Sequence[SittingRow],
) -> list[Pair]:
    """Return every candidate against the study's baseline, then the further pairs that run on this benchmark."""
    margin_pp = study.comparison.margin_pp[benchmark]
    pairs = [(variants[baseline], variants[name]) for baseline, name in pairs_of(study, benchmark)]
    families = [_family(study, *pair) for pair in pairs]
    adjusted = adjust([p_values(_contrast_pp(*pair), margin_pp) for pair in pairs], families)
    return [
        _pair(study, *pair, speeds, sittings, families.count(family), of_pair)
        for pair, family, of_pair in zip(pairs, families, adjusted, strict=True)
    ]


def _family(study: Study, theirs: VariantRuns, ours: VariantRuns) -> Hashable:
    """Group candidates that answer one question.

    What do precision and batch do; does training work with variables in 16 bits; what does anything else do? A control
    is no candidate, and stands alone.
    """
    if ours.variant in study.comparison.must_differ:
        return theirs.variant, ours.variant
    variant = study.variants[ours.variant]
    keeps_float32 = expected_dtypes(variant.policy).variable == "float32"
    return theirs.variant, variant.is_plain(study.engine), keeps_float32


def _pair(
    study: Study,
    theirs: VariantRuns,
    ours: VariantRuns,
    speeds: Speeds,
    sittings: Sequence[SittingRow],
    num_candidates: int,
    adjusted: PValues,
) -> Pair:
    """Set a candidate's runs and speed, `ours`, beside those of its baseline, `theirs`."""
    benchmark, baseline, candidate = ours.benchmark, theirs.variant, ours.variant
    both, contrast_pp = _both(theirs, ours), _contrast_pp(theirs, ours)
    failures, baseline_failures = ours.failures_beside(theirs), theirs.failures_beside(ours)
    is_selection = bool(failures or baseline_failures)
    margin_pp = study.comparison.margin_pp[benchmark]
    memory = [
        (run.record.memory.peak_bytes, other.record.memory.peak_bytes)
        for other, run in both
        if run.record.warm == other.record.warm  # a fork has not touched every page of the libraries
        and not (run.record.resumed or other.record.resumed)  # whose last process alone was looked at
    ]
    where = device(next(iter(ours.runs.values())).record.environment)
    between = spread_between(sittings, study, benchmark, baseline, candidate, where)
    precision_effect, batch_effect, interaction = _effects(study.variants_of(benchmark), baseline, candidate, speeds)
    return Pair(
        benchmark=benchmark,
        baseline=baseline,
        candidate=candidate,
        num_seeds=len(both),
        failures=failures,
        baseline_failures=baseline_failures,
        speedup=on_another_day(speeds.log_speedup(baseline, candidate), between),
        epoch_speedup=on_another_day(speeds.log_speedup(baseline, candidate, whole_epochs=True), between),
        sitting_speedup=speeds.speedup(baseline, candidate),
        between_sittings=between,
        speedup_at_most=_speedup_at_most(study, theirs, ours),
        baseline_kernels=theirs.kernels,
        candidate_kernels=ours.kernels,
        precision_effect=precision_effect,
        batch_effect=batch_effect,
        interaction=interaction,
        accuracy_difference_pp=difference(contrast_pp, adjusted.differs),
        equivalence=equivalence(contrast_pp, margin_pp, num_candidates, adjusted, is_selection),
        memory_ratio=intervals.ratio([math.log(a / b) for a, b in memory if a and b]),
    )


def _both(theirs: VariantRuns, ours: VariantRuns) -> list[tuple[Run, Run]]:
    """Return the runs of the two at every seed that both completed."""
    completed = ours.completed
    return [(run, completed[seed]) for seed, run in theirs.completed.items() if seed in completed]


def _contrast_pp(theirs: VariantRuns, ours: VariantRuns) -> Contrast:
    """Return by how much the candidate's test accuracy is above the baseline's."""
    accuracies = [[run.record.scores.test_accuracy for run in pair] for pair in _both(theirs, ours)]
    baseline, candidate = np.array(accuracies, dtype=np.float64).reshape(-1, 2).T
    return paired(100 * (candidate - baseline))


def _speedup_at_most(study: Study, theirs: VariantRuns, ours: VariantRuns) -> float | None:
    """Bound the speedup by whole runs, where those of the candidate were ended as too slow.

    Both start alike and train as many epochs, so that training alone differs by no less; else there is no bound.
    """
    baseline, candidate = study.variants[theirs.variant], study.variants[ours.variant]
    if (baseline.jit_compile, baseline.epoch_multiplier) != (candidate.jit_compile, candidate.epoch_multiplier):
        return None
    completed = theirs.completed
    bounds = [
        completed[seed].record.times.run_seconds / slow.record.times.run_seconds
        for seed, slow in ours.ended("too_slow").items()
        if seed in completed and completed[seed].record.warm == slow.record.warm and seed not in ours.faults
    ]
    return max(bounds, default=None)


def _effects(
    variants: Mapping[str, Variant], baseline: str, candidate: str, speeds: Speeds
) -> tuple[Ratio, Ratio, Ratio] | tuple[None, None, None]:
    """Return the effects on speed of precision, of batch, and of both beyond each.

    They are known where policy and batch differ and nothing else does, and the study has a variant that changes the
    policy alone, and one that changes the batch alone.
    """
    settings = {name: variant.model_dump(exclude={"benchmarks"}) for name, variant in variants.items()}
    first, last = settings[baseline], settings[candidate]
    of_policy = {name: last[name] for name in ("policy", "loss_scale")}  # the scale belongs to the policy
    of_batch = {"batch_multiplier": last["batch_multiplier"]}
    either = (first | of_policy, first | of_batch)
    alone = [[name for name, each in settings.items() if each == one][:1] for one in either]
    if last != first | of_policy | of_batch or last in either or not all(alone):
        return None, None, None
    ((policy_alone,), (batch_alone,)) = alone
    beyond = speeds.contrast({baseline: -1.0, candidate: -1.0, policy_alone: 1.0, batch_alone: 1.0})
    interaction = beyond.ratio if beyond else NO_RATIO
    return speeds.speedup(baseline, policy_alone), speeds.speedup(baseline, batch_alone), interaction
