"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import jinja2

from pipeline import figures
from pipeline.claims import Claims, load_claims
from pipeline.comparison import Comparison, Pair
from pipeline.errors import InputError
from pipeline.study import Study, load_study
from pipeline.wording import describe_difference, describe_ratio, failed_runs, margin_means_something

PARTS = Path("report")
# What stands between an accuracy difference and the margin.
_OUTCOMES = {
    "equivalent": "equivalent within",
    "equivalent but shifted": "shifted, yet equivalent within",
    "different": "different, and not equivalent within",
    "inconclusive": "inconclusive for a margin of",
}


class Results(NamedTuple):
    """What the report prints: the study, and everything under `results/`."""

    study: Study
    claims: Claims
    comparison: Comparison
    verdicts: list[dict[str, Any]]
    environments: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    epochs: list[dict[str, Any]]


def load_results(root: Path = Path()) -> Results:
    """Reads the results under `root`. Raises `InputError` that names the file that is missing or damaged."""
    results = root / "results"

    def read(name: str, parse: Callable[[str], Any]) -> Any:
        path = results / name
        try:
            return parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path} is missing. Make it with: dvc repro") from None
        except ValueError as error:
            raise InputError(
                f"{path} is damaged ({error}). Make it again: dvc repro --force --single-item compare judge"
            ) from None

    return Results(
        study=load_study(root / "params.yaml"),
        claims=load_claims(root / "claims.yaml"),
        comparison=read("comparison.json", Comparison.model_validate_json),
        verdicts=read("verdicts.json", json.loads),
        environments=read("environments.json", json.loads),
        runs=read("runs.csv", _rows),
        epochs=read("epochs.csv", _rows),
    )


def _rows(text: str) -> list[dict[str, Any]]:
    return [{name: _value(cell) for name, cell in row.items()} for row in csv.DictReader(text.splitlines())]


def _value(cell: str) -> Any:
    if cell == "":
        return None
    for convert in (int, float):
        try:
            return convert(cell)
        except ValueError:
            pass
    return cell


def headlines(results: Results, benchmark: str) -> list[str]:
    """What was found, a sentence a pair: the first mixed policy at each batch, then float32 at the other batches.

    The last tells a loss of accuracy that belongs to the batch from one that belongs to the precision.
    """
    variants = results.study.variants_of(benchmark)
    mixed = next((variant.policy for variant in variants.values() if variant.policy.startswith("mixed_")), None)
    baseline = variants[results.study.comparison.baseline].policy
    names = [name for policy in (mixed, baseline) for name in variants if variants[name].policy == policy]
    pairs = [results.comparison.find(benchmark, name) for name in names if not variants[name].tf32]
    base = variants[results.study.comparison.baseline].batch_multiplier
    accuracy = results.comparison.variant(benchmark, results.study.comparison.baseline).test_accuracy.mean
    return [
        _sentence(pair, variants[pair.candidate].batch_multiplier / base, accuracy or 0.0)
        for pair in pairs
        if pair and not pair.repeats_baseline
    ]


def _sentence(pair: Pair, batch_multiple: float, baseline_accuracy: float) -> str:
    words = {1.0: "at the same batch", 2.0: "at double the batch"}
    batch = words.get(batch_multiple, f"at {batch_multiple:g}× the batch")
    failed = failed_runs(pair)
    if not pair.num_seeds:
        return f"{pair.candidate}, {batch}: nothing to compare with {pair.baseline}{failed}"
    margin_pp = pair.equivalence.margin_pp
    little = ""
    if not margin_means_something(margin_pp, baseline_accuracy):
        little = f" (which shows little: {pair.baseline} itself reaches {baseline_accuracy:.1%})"
    return (
        f"{pair.candidate}, {batch}: {describe_ratio(pair.speedup)} the speed of {pair.baseline}, "
        f"test accuracy {describe_difference(pair)}, {_OUTCOMES[pair.equivalence.outcome]} "
        f"±{margin_pp:g} pp{little}{failed}"
    )


def verdict_counts(results: Results) -> dict[str, int]:
    """Number of claims by verdict, most frequent first."""
    return dict(Counter(verdict["verdict"] for verdict in results.verdicts).most_common())


def outcome_counts(results: Results) -> dict[str, int]:
    """Number of runs by outcome."""
    return dict(Counter(run["outcome"] for run in results.runs).most_common())


def part(name: str, results: Results) -> str:
    """The HTML of one part of the report: the macro `name` of report/parts.html."""
    loader = jinja2.FileSystemLoader(PARTS)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"number": _number, "mebibytes": _mebibytes}
    template = environment.get_template("parts.html")
    module = template.make_module(
        {
            "study": results.study,
            "claims": results.claims,
            "verdicts": results.verdicts,
            "verdict_counts": verdict_counts(results),
            "outcome_counts": outcome_counts(results),
            "environments": results.environments,
            "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
        }
    )
    return str(getattr(module, name)())


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
        "headlines": headlines(results, name),
        "rows": [
            {
                "variant": variant,
                "run": runs[variant][0],
                "accuracies": _known(runs[variant], "final_test_accuracy"),
                "seconds": _known(runs[variant], "steady_epoch_seconds"),
                "memory": _known(runs[variant], "peak_memory_bytes"),
                "other_cpu_share": max(_known(runs[variant], "other_cpu_share"), default=None),
                "throttling": _throttling(runs[variant]),
                "statistics": results.comparison.variant(name, variant),
                "pair": results.comparison.find(name, variant),
            }
            for variant in runs
        ],
        "pairs": pairs,
        "split": [pair for pair in pairs if pair.precision_effect],
        "target": study.comparison.target_accuracy.get(name),
        "charts": _charts(results, name, runs),
        "published": [figure for figure in results.claims.figures if figure.benchmark == name],
        "deviations": study.deviations.get(name, []),
    }


def _charts(results: Results, name: str, runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    variants = results.study.variants_of(name)

    def series(variant: str, values: list[float]) -> figures.Series:
        return figures.Series(variant, variants[variant].policy, variants[variant].batch_multiplier == 1, values)

    def by_seed(column: str, scale: float = 1.0) -> list[figures.Series]:
        return [series(variant, [scale * value for value in _known(runs[variant], column)]) for variant in variants]

    epochs = sorted({row["epoch"] for row in results.epochs if row["benchmark"] == name})
    curves = {}
    for variant in variants:
        of_variant = [row for row in results.epochs if (row["benchmark"], row["variant"]) == (name, variant)]
        by_epoch = [_known([r for r in of_variant if r["epoch"] == epoch], "validation_accuracy") for epoch in epochs]
        curves[variant] = series(variant, [mean(values) for values in by_epoch if values])
    ratios = [(p, p.speedup) for p in results.comparison.pairs if p.benchmark == name]
    return [
        figures.accuracy_by_epoch(name, curves, epochs),
        figures.speedups(name, [(series(p.candidate, []), r.ratio, r.low, r.high) for p, r in ratios]),
        figures.by_variant(name, "seconds", "Training time of an epoch", "seconds", by_seed("steady_epoch_seconds")),
        figures.by_variant(name, "memory", "Peak memory", "MiB", by_seed("peak_memory_bytes", 2**-20)),
    ]


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
