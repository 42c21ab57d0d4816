"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

from collections.abc import Callable
from datetime import datetime
from statistics import mean
from typing import Any

from pipeline.claims.schema import Claim, Source
from pipeline.claims.verdicts import Judgement
from pipeline.claims.wording import describe_sample
from pipeline.comparison.comparable import describe_device
from pipeline.machine.acceleration import DEVICES, device_of
from pipeline.machine.hardware import hardware_of
from pipeline.numerics.facts import DTYPES, KERAS_POLICIES, TRIAL_SIZE, describe_facts
from pipeline.report import answers, figures, words
from pipeline.report.results import Results, ended_at
from pipeline.report.status import tally
from pipeline.report.templates import TEMPLATES, template_environment
from pipeline.statistics import intervals

Row = tuple[Claim, Judgement]
SPLIT = "notebook_split.num_trained_on"
SECTIONS = ("answer", "judgements", "measurements", "arithmetic", "hardware", "method", "surroundings")


def parts(results: Results) -> Callable[[str], str]:
    """Return a function that gives the HTML of a part of the report: the macro of that name in report/parts.html."""
    short, facts = words.short_names(results.study), results.numerics["facts"]
    module = (
        template_environment([TEMPLATES], results.study, results.claims, short)
        .get_template("parts.html")
        .make_module(
            results._asdict()
            | {
                "short": short,
                "ended_on": f"{datetime.fromisoformat(ended_at(results)):%-d %B %Y}",
                "counts": tally(results),
                "sources": claims_by_source(results),
                "findings": list(zip(results.claims.all, results.verdicts, strict=True))[len(results.claims.claims) :],
                "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
                "policies": KERAS_POLICIES,
                "types": DTYPES,
                "trial_size": str(TRIAL_SIZE),
                "samples": [
                    describe_sample(name, intervals.mean(values), len(values))
                    for name, values in results.numerics["samples"].items()
                ],
                "split": describe_facts({SPLIT: facts[SPLIT]}) if SPLIT in facts else None,
                "gradient_charts": [
                    figures.exponent_histogram(name, short[name], g["exponents"], g["counts"], g["loss_scale"])
                    for name, g in results.numerics["gradients"].items()
                ],
                "devices": DEVICES,
                "device": device_of(hardware_of(results.environments)),
                "made_on": list(dict.fromkeys(map(describe_device, results.environments))),
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
    is_completed = any(row.found.completed.count for row in rows)
    return {
        "name": name,
        "title": title,
        "dataset": words.dataset_name(study, name),
        "advice": sentence,
        "caution": answers.caution(results, name),
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
        "left_out": results.left_out,
        "pairs": [pair for pair in results.comparison.pairs if pair.benchmark == name],
        "published": [figure for figure in results.claims.figures if figure.benchmark == name],
    }


def accuracy_curves(results: Results, benchmark: str) -> dict[str, dict[int, float]]:
    """Return the validation accuracy in [0, 1] by variant and epoch, the mean over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in results.epochs:
        if row["benchmark"] == benchmark and row["validation_accuracy"] is not None:
            of_variant = found.setdefault(row["variant"], {})
            of_variant.setdefault(row["epoch"], []).append(row["validation_accuracy"])
    return {name: {epoch: mean(values) for epoch, values in sorted(by.items())} for name, by in found.items()}


def claims_by_source(results: Results) -> list[tuple[str, Source, list[Row], list[Row]]]:
    """Return each source with its name and its claims: those with a short form, then the others, to be folded."""
    both = list(zip(results.claims.claims, results.verdicts, strict=False))  # findings come after the claims
    found = []
    for identifier, source in results.claims.sources.items():
        rows = [row for row in both if row[0].source == identifier]
        leading = [row for row in rows if row[0].short] or rows
        found.append((identifier, source, leading, [row for row in rows if row not in leading]))
    return found
