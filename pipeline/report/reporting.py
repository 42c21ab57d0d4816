"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

from collections.abc import Callable
from statistics import mean
from typing import Any

from pipeline.claims.acceleration import DEVICES, device_of
from pipeline.claims.wording import describe_sample
from pipeline.machine.hardware import hardware_of
from pipeline.numerics.facts import POLICIES, TRIAL_SIZE, TYPES, describe_facts
from pipeline.report import answers, figures, words
from pipeline.report.claim_rows import claims_by_source, findings, tally
from pipeline.report.elsewhere import hardware_elsewhere
from pipeline.report.results import Results
from pipeline.report.step_profile import step_profile
from pipeline.report.templates import TEMPLATES, template_environment
from pipeline.statistics import intervals
from pipeline.statistics.sittings import NOT_MEASURED

SPLIT = "notebook_split.num_trained_on"
SECTIONS = ("answer", "judgements", "measurements", "arithmetic", "hardware", "elsewhere", "method", "surroundings")


def parts(results: Results) -> Callable[[str], str]:
    """Return a function that gives the HTML of a part of the report: the macro of that name in report/parts.html."""
    short = words.short_names(results.study)
    module = (
        template_environment([TEMPLATES], results.study, results.claims)
        .get_template("parts.html")
        .make_module(
            results._asdict()
            | {
                "short": short,
                "counts": tally(results),
                "sources": claims_by_source(results),
                "findings": findings(results),
                "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
                "policies": POLICIES,
                "assumed_spread": NOT_MEASURED.spread,
                "types": TYPES,
                "trial_size": str(TRIAL_SIZE),
                "samples": [
                    describe_sample(name, intervals.mean(values), len(values))
                    for name, values in results.numerics["samples"].items()
                ],
                "split": describe_facts({SPLIT: results.numerics["facts"][SPLIT]}),
                "gradient_charts": [
                    figures.exponent_histogram(name, short[name], g["exponents"], g["counts"], g["loss_scale"])
                    for name, g in results.numerics["gradients"].items()
                ],
                "elsewhere_found": hardware_elsewhere(results.compiled, results.checked),
                "devices": DEVICES,
                "device": device_of(hardware_of(results.environments)),
            }
        )
    )
    return lambda name: str(getattr(module, name)())


def _benchmark(results: Results, name: str) -> dict[str, Any]:
    """Return what the report tells of one benchmark, beside what is stored."""
    study, title = results.study, words.benchmark_name(results.study, name)
    rows = answers.answers(results, name)
    first = [row for row in rows if row.is_first]
    sentence = answers.advice(results, name)
    profile = step_profile(results, name)
    slower = {
        row.policy for row in first if row.batch_multiplier == 1 and row.pair and (row.pair.speedup.high or 1.0) < 1.0
    }
    is_completed = any(row.found.completed.count for row in rows)
    return {
        "name": name,
        "title": title,
        "dataset": words.dataset_name(study, name),
        "advice": sentence,
        "training": answers.describe_training(results, name),
        "answered_in": answers.ANSWERED_IN.get(name) if answers.OPEN in sentence else None,
        "first": first,
        "further": [row for row in rows if not row.is_first],
        "rows": rows,
        "words": {row.name: row.words for row in rows},
        "controls": answers.describe_controls(results, name),
        "charts": figures.answer_charts(name, title, first, accuracy_curves(results, name)) if is_completed else [],
        "num_parameters": max(run["num_parameters"] or 0 for run in rows[0].runs),
        "num_seeds": sorted({len(study.seeds_of(name, row.name)) for row in rows}),
        "near_chance": answers.near_chance(results, name),
        "pairs": [pair for pair in results.comparison.pairs if pair.benchmark == name],
        "published": [figure for figure in results.claims.figures if figure.benchmark == name],
        "step_profile": profile,
        "slowed_by": {policy: kind for policy, kind in profile["tells_most"].items() if policy in slower},
    }


def accuracy_curves(results: Results, benchmark: str) -> dict[str, dict[int, float]]:
    """Return the validation accuracy in [0, 1] by variant and epoch, the mean over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in results.epochs:
        if row["benchmark"] == benchmark and row["validation_accuracy"] is not None:
            of_variant = found.setdefault(row["variant"], {})
            of_variant.setdefault(row["epoch"], []).append(row["validation_accuracy"])
    return {name: {epoch: mean(values) for epoch, values in sorted(by.items())} for name, by in found.items()}
