"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import jinja2
from markupsafe import Markup

from pipeline.claims.acceleration import DEVICES, device_of
from pipeline.claims.schema import Claims
from pipeline.claims.wording import describe_sample, plain
from pipeline.files.characters import escape_deceptive, shown_value
from pipeline.machine.hardware import hardware_of
from pipeline.numbers import UNKNOWN, digits, estimate, mean_and_spread, number, percent, percents, ranges, rare, span
from pipeline.numerics.facts import POLICIES, TRIAL_SIZE, TYPES, describe_facts
from pipeline.report import figures
from pipeline.report.answers import (
    ANSWERED_IN,
    OPEN,
    advice,
    answers,
    describe_controls,
    describe_seeds,
    is_of_itself,
    near_chance,
)
from pipeline.report.claim_rows import (
    claims_by_source,
    evidence_counts,
    finding_counts,
    findings,
    outcome_counts,
    verdict_counts,
)
from pipeline.report.elsewhere import hardware_elsewhere
from pipeline.report.results import Results
from pipeline.report.step_profile import step_profile
from pipeline.report.words import (
    benchmark_name,
    dataset_name,
    describe_faults,
    describe_variant,
    in_brackets,
    short_names,
)
from pipeline.statistics import intervals
from pipeline.study.schema import Study

PARTS = Path(__file__).parents[2] / "report"
SPLIT = "notebook_split.num_trained_on"
SECTIONS = ("answer", "judgements", "measurements", "arithmetic", "hardware", "elsewhere", "method", "surroundings")


def parts(results: Results) -> Callable[[str], str]:
    """Return a function that gives the HTML of a part of the report: the macro of that name in report/parts.html."""
    environment = template_environment([PARTS], results.study, results.claims)
    names = {benchmark: benchmark_name(results.study, benchmark) for benchmark in results.study.benchmarks}
    short = short_names(results.study)
    module = environment.get_template("parts.html").make_module(
        {
            "study": results.study,
            "names": names,
            "short": short,
            "sources": claims_by_source(results),
            "claims": results.claims,
            "numerics": results.numerics,
            "ceilings": results.ceilings["largest_batch"],
            "policies": POLICIES,
            "types": TYPES,
            "trial_size": str(TRIAL_SIZE),
            "samples": {
                name: describe_sample(name, intervals.mean(values), len(values))
                for name, values in results.numerics["samples"].items()
            },
            "split": describe_facts({SPLIT: results.numerics["facts"][SPLIT]}),
            "gradient_charts": [
                figures.exponent_histogram(name, short[name], g["exponents"], g["counts"], g["loss_scale"])
                for name, g in results.numerics["gradients"].items()
            ],
            "elsewhere_found": hardware_elsewhere(results.compiled, results.checked),
            "devices": DEVICES,
            "device": device_of(hardware_of(results.environments)),
            "verdict_counts": verdict_counts(results),
            "findings": findings(results),
            "finding_counts": finding_counts(results),
            "evidence_counts": evidence_counts(results),
            "outcome_counts": outcome_counts(results),
            "num_runs": len(results.runs),
            "num_resumed": sum(run["resumed"] for run in results.runs),
            "num_faults": sum(len(variant.timing_faults) for variant in results.comparison.variants),
            "environments": results.environments,
            "benchmarks": [_benchmark(results, benchmark) for benchmark in results.study.benchmarks],
        }
    )
    return lambda name: str(getattr(module, name)())


def template_environment(folders: Sequence[Path], study: Study, claims: Claims) -> jinja2.Environment:
    """Return what renders templates in `folders`: everything is escaped, and numbers and names are as the report's."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=shown_value,
    )
    environment.tests["of_itself"] = is_of_itself
    environment.filters |= {
        "spread": mean_and_spread,
        "plain": plain,
        "variant": describe_variant,
        "value": number,
        "digits": lambda value: UNKNOWN if value is None else digits(value),
        "estimate": _estimate,
        "percent": percent,
        "percents": percents,
        "ranges": ranges,
        "seeds": describe_seeds,
        "faults": describe_faults,
        "rare": rare,
        "span": span,
        "prose": _prose(study, claims),
    }
    return environment


def _estimate(found: Any, how: str, unit: str = "") -> str:
    """Write a ratio, mean or difference with its interval; a dash where it is unknown."""
    value = found.ratio if hasattr(found, "ratio") else found.mean
    ends = (found.low95, found.high95) if hasattr(found, "low95") else (found.low, found.high)
    return UNKNOWN if value is None else estimate(value, *ends, how, unit)


def _prose(study: Study, claims: Claims) -> Callable[[str], Markup]:
    """Return a filter: keys of benchmarks and variants become words, policies code; a number keeps what belongs to it.

    A key that is a word, as float32 is, becomes code only where it stands alone.
    """
    variants = {name: describe_variant(variant) for name, variant in (claims.variants | study.variants).items()}
    words = dict.fromkeys(claims.benchmarks, "") | short_names(study) | variants | dict.fromkeys(POLICIES, "")
    no_words = sorted((name for name in words if not name.isalnum()), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, no_words))})(?!\w|\.\w)")

    def told(key: str) -> str:
        return Markup("<code>{}</code>").format(key) if words[key] in ("", key) else in_brackets(words[key])

    def prose(text: str) -> Markup:
        whole = re.sub(
            r"\[[^]]*\]( %)?|\d (%|(pp|s|ms|MiB)\b)",
            lambda numbers: numbers.group().replace(" ", "\N{NO-BREAK SPACE}"),
            escape_deceptive(str(text)),
        )
        parts = ["", whole, ""] if text in words else pattern.split(whole)  # every second one is a key
        return Markup().join(told(part) if index % 2 else part for index, part in enumerate(parts))

    return prose


def _benchmark(results: Results, name: str) -> dict[str, Any]:
    """Return everything the report shows of one benchmark."""
    study = results.study
    rows = answers(results, name)
    first = [row for row in rows if row.is_first]
    runs = [run for row in rows for run in row.runs]
    sentence = advice(results, name)
    profile = step_profile(results, name)
    title = benchmark_name(study, name)
    slower = {
        row.policy for row in first if row.batch_multiplier == 1 and row.pair and (row.pair.speedup.high or 1.0) < 1.0
    }
    is_completed = any(row.found.completed.count for row in rows)
    return {
        "name": name,
        "dataset": dataset_name(study, name),
        "recipe": study.benchmarks[name],
        "advice": sentence,
        "answered_in": ANSWERED_IN.get(name) if OPEN in sentence else None,
        "first": first,
        "further": [row for row in rows if not row.is_first],
        "rows": rows,
        "words": {row.name: row.words for row in rows},
        "controls": describe_controls(results, name),
        "charts": figures.answer_charts(name, title, first, accuracy_curves(results, name)) if is_completed else [],
        "runs": runs,
        "seeds": study.seeds_of(name, study.comparison.baseline),
        "num_seeds": sorted({len(study.seeds_of(name, row.name)) for row in rows}),
        "num_parameters": max((run["num_parameters"] for run in runs if run["num_parameters"]), default=None),
        "near_chance": near_chance(results, name),
        "pairs": [pair for pair in results.comparison.pairs if pair.benchmark == name],
        "turns": results.comparison.turns_of(name),
        "target": study.comparison.target_accuracy.get(name),
        "published": [figure for figure in results.claims.figures if figure.benchmark == name],
        "step_profile": profile,
        "slowed_by": {policy: kind for policy, kind in profile["tells_most"].items() if policy in slower},
        "deviations": study.deviations.get(name, []),
    }


def accuracy_curves(results: Results, benchmark: str) -> dict[str, dict[int, float]]:
    """Return the validation accuracy in [0, 1] by variant and epoch, the mean over seeds."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in results.epochs:
        if row["benchmark"] == benchmark and row["validation_accuracy"] is not None:
            of_variant = found.setdefault(row["variant"], {})
            of_variant.setdefault(row["epoch"], []).append(row["validation_accuracy"])
    return {name: {epoch: mean(values) for epoch, values in sorted(by.items())} for name, by in found.items()}
