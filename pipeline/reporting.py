"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import jinja2

from pipeline import figures
from pipeline.acceleration import DEVICES, device_of
from pipeline.facts import POLICIES, TYPES
from pipeline.hardware import hardware_of
from pipeline.headlines import advice, headlines, outcome_counts, verdict_counts
from pipeline.results import Results
from pipeline.statistics import proportion
from pipeline.wording import margin_means_something

PARTS = Path(__file__).parent.parent / "report"


def parts(results: Results) -> Callable[[str], str]:
    """A function that gives the HTML of one part of the report: the macro of that name in report/parts.html."""
    loader = jinja2.FileSystemLoader(PARTS)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"number": _number, "mebibytes": _mebibytes}
    template = environment.get_template("parts.html")
    module = template.make_module(
        {
            "study": results.study,
            "sources": _sources(results),
            "claims": results.claims,
            "numerics": results.numerics,
            "ceilings": results.ceilings["largest_batch"],
            "policies": POLICIES,
            "types": TYPES,
            "trials": [
                trial | {"share": proportion(trial["num_trained"], trial["num_trials"])}
                for trial in results.numerics["trials"]
            ],
            "gradient_charts": [
                Chart(
                    figures.gradient_exponents(name, found["exponents"], found["counts"], found["loss_scale"]),
                    ["exponent", "gradients"],
                    [[e, count] for e, count in zip(found["exponents"], found["counts"], strict=True) if count],
                )
                for name, found in results.numerics["gradients"].items()
            ],
            "devices": DEVICES,
            "device": device_of(hardware_of(results.environments)),
            "verdict_counts": verdict_counts(results),
            "outcome_counts": outcome_counts(results),
            "num_runs": len(results.runs),
            "num_completed": outcome_counts(results).get("completed", 0),
            "num_faults": sum(len(variant.timing_faults) for variant in results.comparison.variants),
            "environments": results.environments,
            "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
        }
    )
    return lambda name: str(getattr(module, name)())


def _sources(results: Results) -> list[dict[str, Any]]:
    """The claims of each source with their verdicts, and how many there are of each verdict."""
    rows = list(zip(results.claims.claims, results.verdicts, strict=True))
    return [
        {
            "source": source,
            "claims": [(claim, verdict) for claim, verdict in rows if claim.source == identifier],
            "counts": Counter(verdict["verdict"] for claim, verdict in rows if claim.source == identifier),
        }
        for identifier, source in results.claims.sources.items()
    ]


def _benchmark(results: Results, name: str) -> dict[str, Any]:
    """Everything the report shows of one benchmark."""
    study = results.study
    runs = {variant: [] for variant in study.variants_of(name)}  # type: dict[str, list[dict[str, Any]]]
    for run in results.runs:
        if run["benchmark"] == name:
            runs[run["variant"]].append(run)
    pairs = [pair for pair in results.comparison.pairs if pair.benchmark == name]
    return {
        "name": name,
        "recipe": study.benchmarks[name],
        "advice": advice(results, name),
        "headlines": headlines(results, name),
        "rows": [
            {
                "variant": variant,
                "run": runs[variant][0],
                "accuracies": _known(runs[variant], "final_test_accuracy"),
                "seconds": _counted_seconds(results, name, variant, runs[variant]),
                "memory": _known(runs[variant], "peak_memory_bytes"),
                "other_cpu_share": max(_known(runs[variant], "other_cpu_share"), default=None),
                "throttling": _throttling(runs[variant]),
                "statistics": results.comparison.variant(name, variant),
                "pair": results.comparison.find(name, variant),
            }
            for variant in runs
        ],
        "num_completed": sum(run["outcome"] == "completed" for rows in runs.values() for run in rows),
        "near_chance": _near_chance(results, name),
        "pairs": pairs,
        "split": [pair for pair in pairs if pair.precision_effect],
        "target": study.comparison.target_accuracy.get(name),
        "charts": _charts(results, name, runs),
        "published": [figure for figure in results.claims.figures if figure.benchmark == name],
        "deviations": study.deviations.get(name, []),
    }


def _near_chance(results: Results, benchmark: str) -> float | None:
    """The baseline's accuracy in [0, 1], where the margin is wide beside it."""
    settings = results.study.comparison
    accuracy = results.comparison.variant(benchmark, settings.baseline).test_accuracy.mean
    if accuracy is None or margin_means_something(settings.margin_pp[benchmark], accuracy):
        return None
    return accuracy


class Chart(NamedTuple):
    """A figure and the numbers in it."""

    svg: str
    columns: list[str]
    rows: list[list[Any]]


def _charts(results: Results, name: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Chart]:
    """The figures of one benchmark, by name."""
    settings = results.study.comparison
    variants = results.study.variants_of(name)

    def series(variant: str, values: list[float]) -> figures.Series:
        return figures.Series(variant, variants[variant].policy, variants[variant].batch_multiplier == 1, values)

    def by_variant(quantity: str, title: str, unit: str, values: dict[str, list[float]]) -> Chart:
        svg = figures.by_variant(name, quantity, title, unit, [series(v, values[v]) for v in variants])
        return Chart(svg, ["variant", f"{unit}, a seed each"], [[v, *map(_rounded, values[v])] for v in variants])

    pairs = [pair for pair in results.comparison.pairs if (pair.benchmark, pair.baseline) == (name, settings.baseline)]
    ratios = [(pair.candidate, pair.speedup.ratio, pair.speedup.low, pair.speedup.high) for pair in pairs]
    found = [(pair.candidate, pair.accuracy_difference_pp) for pair in pairs]
    shifts = [(candidate, d.mean, d.low95, d.high95) for candidate, d in found]
    seeds = {candidate: _differences(runs[settings.baseline], runs[candidate]) for candidate, _ in found}
    memory = {v: [2**-20 * value for value in _known(runs[v], "peak_memory_bytes")] for v in variants}
    seconds = {v: _counted_seconds(results, name, v, runs[v]) for v in variants}
    return {
        "speedups": Chart(
            figures.speedups(name, [(series(c, []), ratio, low, high) for c, ratio, low, high in ratios]),
            ["candidate", "speedup", "low", "high"],
            [[candidate, *map(_rounded, ratio)] for candidate, *ratio in ratios],
        ),
        "differences": Chart(
            figures.differences(
                name,
                [(series(c, seeds[c]), mean, low, high) for c, mean, low, high in shifts],
                settings.margin_pp[name],
            ),
            ["candidate", "mean, pp", "low", "high", "a seed each"],
            [[c, *map(_rounded, shift), *map(_rounded, seeds[c])] for c, *shift in shifts],
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


def _curves(results: Results, name: str, series: Callable[[str, list[float]], figures.Series]) -> dict[str, Chart]:
    """Validation accuracy by epoch and by training time, means over seeds; and the time of every epoch."""
    accuracies: dict[str, dict[int, list[float]]] = {variant: {} for variant in results.study.variants_of(name)}
    elapsed: dict[str, dict[int, list[float]]] = {variant: {} for variant in accuracies}
    traces: dict[tuple[str, int], list[float]] = {}
    for row in results.epochs:
        if row["benchmark"] == name:
            trace = traces.setdefault((row["variant"], row["seed"]), [])
            trace.append(row["train_seconds"])
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
            [[variant, *(_rounded(100 * value) for value in values)] for variant, values in means.items()],
        ),
        "time": Chart(
            figures.accuracy_by_time(name, [(series(v, means[v]), times[v]) for v in means]),
            ["variant", *(f"seconds to the end of epoch {epoch}" for epoch in epochs)],
            [[variant, *map(_rounded, values)] for variant, values in times.items()],
        ),
        "traces": Chart(
            figures.epoch_traces(
                name, [series(v, trace) for (v, _), trace in traces.items()], results.study.comparison.num_warmup_epochs
            ),
            ["variant", "seed", "seconds of each epoch"],
            [[variant, seed, *map(_rounded, trace)] for (variant, seed), trace in traces.items()],
        ),
    }


def _rounded(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _counted_seconds(results: Results, benchmark: str, variant: str, runs: list[dict[str, Any]]) -> list[float]:
    faults = results.comparison.variant(benchmark, variant).timing_faults
    return _known([run for run in runs if run["seed"] not in faults], "steady_epoch_seconds")


def _throttling(runs: list[dict[str, Any]]) -> str:
    """What held the machine back during these runs, in words; empty where nothing was seen."""
    seen = []
    if seconds := sum(_known(runs, "cpu_quota_seconds")):
        seen.append(f"{seconds:.1f} s lost to a CPU quota")
    if events := sum(_known(runs, "num_thermal_events")):
        seen.append(f"{events} times slowed for heat")
    reasons = sorted({run["gpu_throttle_reasons"] for run in runs if run["gpu_throttle_reasons"]})
    return ", ".join(seen + [f"GPU clock held down by {reason}" for reason in reasons])


def _known(rows: list[dict[str, Any]], column: str) -> list[float]:
    return [row[column] for row in rows if row[column] is not None]


def _number(values: list[float], digits: int = 2, scale: float = 1.0) -> str:
    """Mean and standard deviation over seeds, as in "12.3 ± 0.4"."""
    if not values:
        return "–"
    scaled = [scale * value for value in values]
    spread = f" ± {stdev(scaled):.{digits}f}" if len(scaled) > 1 else ""
    return f"{mean(scaled):.{digits}f}{spread}"


def _mebibytes(values: list[float]) -> str:
    return f"{mean(values) / 2**20:,.0f}" if values else "–"
