"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

from collections import Counter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import jinja2

from pipeline import figures
from pipeline.acceleration import DEVICES, device_of
from pipeline.facts import POLICIES, TYPES
from pipeline.hardware import hardware_of
from pipeline.headlines import headlines, outcome_counts, verdict_counts
from pipeline.results import Results
from pipeline.statistics import proportion

PARTS = Path("report")


def part(name: str, results: Results) -> str:
    """The HTML of one part of the report: the macro `name` of report/parts.html."""
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
                figures.gradient_exponents(name, gradients["exponents"], gradients["counts"], gradients["loss_scale"])
                for name, gradients in results.numerics["gradients"].items()
            ],
            "devices": DEVICES,
            "device": device_of(hardware_of(results.environments)),
            "verdict_counts": verdict_counts(results),
            "outcome_counts": outcome_counts(results),
            "environments": results.environments,
            "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
        }
    )
    return str(getattr(module, name)())


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

    seconds = [series(variant, _counted_seconds(results, name, variant, runs[variant])) for variant in variants]
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
        figures.by_variant(name, "seconds", "Training time of an epoch", "seconds", seconds),
        figures.by_variant(name, "memory", "Peak memory", "MiB", by_seed("peak_memory_bytes", 2**-20)),
    ]


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
