"""The figures of one benchmark, each with the numbers in it."""

from collections.abc import Callable
from statistics import mean
from typing import Any, NamedTuple

from pipeline.numbers import significant
from pipeline.report import drawing, figures
from pipeline.report.results import Results


class Chart(NamedTuple):
    """A figure and the numbers in it."""

    svg: str
    columns: list[str]
    rows: list[list[Any]]


def charts(results: Results, name: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Chart]:
    """Return the figures of one benchmark, by name."""
    settings = results.study.comparison
    variants = results.study.variants_of(name)

    def series(variant: str, values: list[float]) -> drawing.Series:
        return drawing.Series(variant, variants[variant].policy, variants[variant].batch_multiplier == 1, values)

    def by_variant(quantity: str, title: str, unit: str, values: dict[str, list[float]]) -> Chart:
        svg = figures.by_variant(name, quantity, title, unit, [series(v, values[v]) for v in variants])
        return Chart(svg, ["variant", f"{unit}, a seed each"], [[v, *map(significant, values[v])] for v in variants])

    pairs = [pair for pair in results.comparison.pairs if (pair.benchmark, pair.baseline) == (name, settings.baseline)]
    ratios = [(pair.candidate, pair.speedup.ratio, pair.speedup.low, pair.speedup.high) for pair in pairs]
    found = [(pair.candidate, pair.accuracy_difference_pp) for pair in pairs]
    shifts = [(candidate, d.mean, d.low95, d.high95) for candidate, d in found]
    seeds = {candidate: _differences(runs[settings.baseline], runs[candidate]) for candidate, _ in found}
    memory = {v: [2**-20 * value for value in known(completed(runs[v]), "peak_memory_bytes")] for v in variants}
    seconds = {v: counted_seconds(results, name, v, runs[v]) for v in variants}
    return {
        "speedups": Chart(
            figures.speedups(name, [(series(c, []), ratio, low, high) for c, ratio, low, high in ratios]),
            ["candidate", "speedup", "low", "high"],
            [[candidate, *map(significant, ratio)] for candidate, *ratio in ratios],
        ),
        "differences": Chart(
            figures.differences(
                name,
                [(series(c, seeds[c]), mean, low, high) for c, mean, low, high in shifts],
                settings.margin_pp[name],
            ),
            ["candidate", "mean, pp", "low", "high", "a seed each"],
            [[c, *map(significant, shift), *map(significant, seeds[c])] for c, *shift in shifts],
        ),
        **_curves(results, name, series),
        "seconds": by_variant("seconds", "Training time of an epoch", "seconds", seconds),
        "memory": by_variant("memory", "Peak memory", "MiB", memory),
    }


def _differences(baseline: list[dict[str, Any]], candidate: list[dict[str, Any]]) -> list[float]:
    """Test accuracy of the candidate less that of the baseline by seed, in percentage points."""
    theirs = {run["seed"]: run["final_test_accuracy"] for run in baseline}
    ours = {run["seed"]: run["final_test_accuracy"] for run in candidate}
    known = [seed for seed in ours if ours[seed] is not None and theirs.get(seed) is not None]
    return [100 * (ours[seed] - theirs[seed]) for seed in known]


def _curves(results: Results, name: str, series: Callable[[str, list[float]], drawing.Series]) -> dict[str, Chart]:
    """Validation accuracy by epoch and by training time, means over seeds; and the time of every epoch."""
    accuracies: dict[str, dict[int, list[float]]] = {variant: {} for variant in results.study.variants_of(name)}
    elapsed: dict[str, dict[int, list[float]]] = {variant: {} for variant in accuracies}
    traces: dict[tuple[str, int], list[float]] = {}
    steady: list[float] = []
    num_warmup_epochs = results.study.comparison.num_warmup_epochs
    for row in results.epochs:
        if row["benchmark"] == name:
            trace = traces.setdefault((row["variant"], row["seed"]), [])
            trace.append(row["train_seconds"])
            if row["since_start"] > num_warmup_epochs:
                steady.append(row["train_seconds"])
            elapsed[row["variant"]].setdefault(row["epoch"], []).append(sum(trace))
            if row["validation_accuracy"] is not None:
                accuracies[row["variant"]].setdefault(row["epoch"], []).append(row["validation_accuracy"])
    epochs = sorted({epoch for curve in accuracies.values() for epoch in curve})
    means = {v: [mean(curve[epoch]) for epoch in epochs if epoch in curve] for v, curve in accuracies.items()}
    times = {v: [mean(elapsed[v][epoch]) for epoch in epochs if epoch in accuracies[v]] for v in means}
    return {
        "accuracy": Chart(
            figures.accuracy_by_epoch(name, {v: series(v, values) for v, values in means.items()}, epochs),
            ["variant", *(f"epoch {epoch}, %" for epoch in epochs)],
            [[variant, *(significant(100 * value) for value in values)] for variant, values in means.items()],
        ),
        "time": Chart(
            figures.accuracy_by_time(name, [(series(v, means[v]), times[v]) for v in means]),
            ["variant", *(f"seconds to the end of epoch {epoch}" for epoch in epochs)],
            [[variant, *map(significant, values)] for variant, values in times.items()],
        ),
        "traces": Chart(
            figures.epoch_traces(
                name, [series(v, trace) for (v, _), trace in traces.items()], num_warmup_epochs, steady
            ),
            ["variant", "seed", "seconds of each epoch"],
            [[variant, seed, *map(significant, trace)] for (variant, seed), trace in traces.items()],
        ),
    }


def counted_seconds(results: Results, benchmark: str, variant: str, runs: list[dict[str, Any]]) -> list[float]:
    faults = results.comparison.variant(benchmark, variant).timing_faults
    return known([run for run in completed(runs) if run["seed"] not in faults], "steady_epoch_seconds")


def completed(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs that trained to their end."""
    return [run for run in runs if run["outcome"] == "completed"]


def known(rows: list[dict[str, Any]], column: str) -> list[float]:
    return [row[column] for row in rows if row[column] is not None]
