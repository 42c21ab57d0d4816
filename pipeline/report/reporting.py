"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pipeline.claims.acceleration import DEVICES, device_of
from pipeline.claims.wording import describe_sample, describe_speedup, plain
from pipeline.files.characters import escape_deceptive, shown_value
from pipeline.machine.hardware import hardware_of
from pipeline.numbers import mean_and_spread, mebibytes, number
from pipeline.numerics.facts import POLICIES, TRIAL_SIZE, TYPES, describe_facts
from pipeline.report import figures
from pipeline.report.baselines import far_apart, near_chance
from pipeline.report.charts import Chart, charts, completed, counted_seconds, known
from pipeline.report.claim_rows import claims_by_source
from pipeline.report.elsewhere import hardware_elsewhere
from pipeline.report.headlines import advice, evidence_counts, headlines, outcome_counts, verdict_counts
from pipeline.report.long_runs import long_run_charts
from pipeline.report.results import Results
from pipeline.report.words import describe_variant
from pipeline.statistics import intervals
from pipeline.statistics.intervals import Ratio, proportion

PARTS = Path(__file__).parents[2] / "report"
SPLIT = "notebook_split.num_trained_on"
SECTIONS = (
    "summary",
    "judgements",
    "design",
    "measurements",
    "arithmetic",
    "hardware",
    "elsewhere",
    "threats",
    "surroundings",
)


def parts(results: Results) -> Callable[[str], str]:
    """Return a function that gives the HTML of a part of the report: the macro of that name in report/parts.html."""
    loader = jinja2.FileSystemLoader(PARTS)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=shown_value
    )
    environment.filters |= {
        "number": mean_and_spread,
        "mebibytes": mebibytes,
        "plain": plain,
        "variant": describe_variant,
        "speedup": describe_speedup,
        "value": number,
        "prose": _prose(results),
    }
    template = environment.get_template("parts.html")
    module = template.make_module(
        {
            "study": results.study,
            "sources": claims_by_source(results),
            "claims": results.claims,
            "numerics": results.numerics,
            "ceilings": results.ceilings["largest_batch"],
            "policies": POLICIES,
            "types": TYPES,
            "trial_size": str(TRIAL_SIZE),
            "trials": [
                trial | {"share": proportion(trial["num_trained"], trial["num_trials"])}
                for trial in results.numerics["trials"]
            ],
            "samples": {
                name: describe_sample(name, intervals.mean(values), len(values))
                for name, values in results.numerics["samples"].items()
            },
            "split": describe_facts({SPLIT: results.numerics["facts"][SPLIT]}),
            "gradient_charts": list(_gradient_charts(results)),
            "elsewhere_found": hardware_elsewhere(results.compiled),
            "devices": DEVICES,
            "device": device_of(hardware_of(results.environments)),
            "measured": {dtype: list(_measured(results, dtype)) for dtype in ("float16", "bfloat16", "tf32")},
            "verdict_counts": verdict_counts(results),
            "own_verdict_counts": verdict_counts(results, "us"),
            "evidence_counts": evidence_counts(results),
            "num_definitions": sum(verdict["verdict"] == "definition" for verdict in results.verdicts),
            "outcome_counts": outcome_counts(results),
            "num_runs": len(results.runs),
            "num_completed": outcome_counts(results).get("completed", 0),
            "num_resumed": sum(run["resumed"] for run in results.runs),
            "num_faults": sum(len(variant.timing_faults) for variant in results.comparison.variants),
            "environments": results.environments,
            "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
        }
    )
    return lambda name: str(getattr(module, name)())


def _gradient_charts(results: Results) -> Iterator[Chart]:
    for name, found in results.numerics["gradients"].items():
        exponents, counts = found["exponents"], found["counts"]
        yield Chart(
            figures.exponent_histogram(name, exponents, counts, found["loss_scale"]),
            ["exponent", "gradients"],
            [[number(e), number(count)] for e, count in zip(exponents, counts, strict=True) if count],
        )


def _prose(results: Results) -> Callable[[str], Markup]:
    """Return a filter: names of policies, variants and benchmarks become code, and an interval stays on its line.

    A name that is a word, as float32 is, becomes code only where it stands alone.
    """
    study, claims = results.study, results.claims
    names = {*POLICIES, *study.benchmarks, *study.variants, *claims.benchmarks, *claims.variants}
    no_words = sorted((name for name in names if not name.isalnum()), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, no_words))})(?!\w|\.\w)")

    def prose(text: str) -> Markup:
        whole = re.sub(
            r"\[[^]]*\]",
            lambda interval: interval.group().replace(" ", "\N{NO-BREAK SPACE}"),
            escape_deceptive(str(text)),
        )
        parts = ["", whole, ""] if text in names else pattern.split(whole)  # every second one is a name
        code = Markup("<code>{}</code>")
        return Markup().join(code.format(part) if index % 2 else part for index, part in enumerate(parts))

    return prose


def _benchmark(results: Results, name: str) -> dict[str, Any]:
    """Everything the report shows of one benchmark."""
    study = results.study
    runs = {variant: [] for variant in study.variants_of(name)}  # type: dict[str, list[dict[str, Any]]]
    for run in results.runs:
        if run["benchmark"] == name:
            runs[run["variant"]].append(run)
    pairs = [pair for pair in results.comparison.pairs if pair.benchmark == name]
    num_seeds = {variant: len(study.seeds_of(name, variant)) for variant in runs}
    seeds = study.seeds[: max(num_seeds.values())]
    return {
        "name": name,
        "recipe": study.benchmarks[name],
        "advice": advice(results, name),
        "headlines": headlines(results, name),
        "rows": [
            {
                "variant": variant,
                "run": runs[variant][0],
                "accuracies": known(runs[variant], "final_test_accuracy"),
                "seconds": counted_seconds(results, name, variant, runs[variant]),
                "memory": known(completed(runs[variant]), "peak_memory_bytes"),
                "other_cpu_share": max(known(runs[variant], "other_cpu_share"), default=None),
                "throttling": _throttling(runs[variant]),
                "statistics": results.comparison.variant(name, variant),
                "pair": results.comparison.find(name, variant),
            }
            for variant in runs
        ],
        "seeds": seeds,
        "fewer_seeds": {variant: number for variant, number in num_seeds.items() if number < len(seeds)},
        "data_source": next((run["data_source"] for rows in runs.values() for run in rows), None),
        "num_parameters": max(known([run for rows in runs.values() for run in rows], "num_parameters"), default=None),
        "num_completed": sum(run["outcome"] == "completed" for rows in runs.values() for run in rows),
        "near_chance": near_chance(results, name),
        "far_apart": far_apart(results, name, runs),
        "pairs": pairs,
        "turns": results.comparison.turns_of(name),
        "split": [pair for pair in pairs if pair.precision_effect],
        "target": study.comparison.target_accuracy.get(name),
        "charts": charts(results, name, runs),
        "agreements": [each for each in results.agreements if each.benchmark == name],
        "long_runs": long_run_charts(results, name),
        "published": [figure for figure in results.claims.figures if figure.benchmark == name],
        "deviations": study.deviations.get(name, []),
    }


def _measured(results: Results, dtype: str) -> Iterator[tuple[str, Ratio]]:
    """Benchmark and speedup of every candidate that differs from the float32 baseline in its products alone."""
    wanted = ("float32", True) if dtype == "tf32" else (f"mixed_{dtype}", False)
    for benchmark in results.study.benchmarks:
        variants = results.study.variants_of(benchmark)
        baseline = variants[results.study.comparison.baseline]
        for name, variant in variants.items():
            alone = variant.batch_multiplier == baseline.batch_multiplier
            alone = alone and variant.model_copy(update={"tf32": False}).is_plain(results.study.engine)
            pair = results.comparison.find(benchmark, name)
            if pair and alone and baseline.policy == "float32" and (variant.policy, variant.tf32) == wanted:
                yield benchmark, pair.speedup


def _throttling(runs: list[dict[str, Any]]) -> str:
    """Name what held the machine back during these runs; empty where nothing was seen."""
    seen = []
    if seconds := sum(known(runs, "cpu_quota_seconds")):
        seen.append(f"{seconds:.1f} s lost to a CPU quota")
    if events := sum(known(runs, "num_thermal_events")):
        seen.append(f"{events} times slowed for heat")
    reasons = sorted({run["gpu_throttle_reasons"] for run in runs if run["gpu_throttle_reasons"]})
    return ", ".join(seen + [f"GPU clock held down by {reason}" for reason in reasons])
