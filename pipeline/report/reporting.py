"""Arrange stored results as the parts of the report."""

import json
from collections.abc import Callable, Set
from datetime import datetime
from typing import Any

from pipeline.claims.claim import Judgement
from pipeline.comparison.finished_runs import device_in_words
from pipeline.comparison.tables import Row
from pipeline.numerics.facts import DTYPES, KERAS_POLICIES, TRIAL_SIZE
from pipeline.numerics.in_words import facts_said, sample_said
from pipeline.records.blocks import REPEAT
from pipeline.report import figures
from pipeline.report.first_screen import FURTHER, OTHER_BATCH, SAME_BATCH, VariantRow, columns, variant_rows
from pipeline.report.names import benchmark_names, variant_name
from pipeline.report.pages import page_environment
from pipeline.report.recommendation import recommend
from pipeline.report.results import Results
from pipeline.report.status import tally
from pipeline.statistics.contrasts import MIN_LAUNCHES
from pipeline.statistics.equivalence import is_beyond
from pipeline.statistics.intervals import Estimate
from pipeline.study.benchmark import Dense
from pipeline.words.sentences import Said

ASKED_SINCE = "2026-11-29"  # earlier studies were planned to show that accuracies are equal
MIN_WIDTHS = 3
SECTIONS = ("answer", "verdicts", "measurements", "arithmetic", "method", "surroundings")
SPLIT = "notebook_split.num_trained_on"
SHOWN_SAMPLES = ("skipped_steps", "notebook_split_gain")


def parts(results: Results) -> Callable[[str], str]:
    """Return a function that takes the name of a macro in `parts.html` and renders the macro's part of the report."""
    module = page_environment(readable_names(results)).get_template("parts.html").make_module(contents(results))
    return lambda name: str(getattr(module, name)())


def readable_names(results: Results) -> dict[str, str]:
    """Map the name in YAML of each variant and benchmark to the name for readers.

    Include the variants and benchmarks of the study and of the claims.
    """
    variants = results.claims.variants | results.study.variants
    by_name = {name: variant_name(variant, with_batch=True) for name, variant in variants.items()}
    return {**by_name, **results.claims.benchmarks, **benchmark_names(results.study)}


def contents(results: Results) -> dict[str, Any]:
    """Return the values for the templates of a report or a study's page, by the names that the templates use."""
    titles = benchmark_names(results.study)
    judged = list(zip(results.claims.all, results.verdicts, strict=True))
    benchmarks = [_benchmark(results, name, title) for name, title in titles.items()]
    return results._asdict() | {
        "titles": titles,
        "ended_on": f"{datetime.fromisoformat(results.ended_at):%-d %B %Y}" if results.ended_at else "",
        "counts": tally(results),
        "tested": [row for row in judged if is_tested(row[1]) and not row[1].is_finding],
        "findings": [row for row in judged if is_tested(row[1]) and row[1].is_finding],
        "untested": [row for row in judged if not is_tested(row[1])],
        "benchmarks": benchmarks,
        "widths": [figures.width_chart(speeds)] if (speeds := speeds_by_width(results)) else [],
        "answered_first": results.study.answered_first,
        "runs": results.tables.runs,
        "legend": _legend(results, {column for each in benchmarks for column in each["columns"]}),
        "numerics": _numerics(results),
        "made_on": list(dict.fromkeys(map(device_in_words, results.environments))),
        "draw": figures.draw_svg,
        "is_beyond": is_beyond,
        "num_planned": len(results.study.runs()),
        "asked_afterwards": any((run.started_at or "") < ASKED_SINCE for run in results.tables.runs),
    }


def _legend(results: Results, shown: Set[str]) -> dict[str, Any]:
    """Return the values for the sentence under the tables. `shown` holds the names of the tables' columns."""
    pairs, runs = results.tables.pairs, results.tables.runs
    is_on_accelerator = any(each["accelerators"] for each in results.environments)
    return {
        "baseline": results.study.comparison.baseline,
        "shown": sorted(shown),
        "few_launches": min((row.num_launches for row in pairs if is_short(row)), default=0),
        "images_on_device": any(row.images_on_device for row in pairs),
        "own_share": not is_on_accelerator and all(run.memory_kind != "resident_set" for run in runs),
    }


def speeds_by_width(results: Results) -> dict[str, dict[int, Estimate]]:
    """Return each policy's speed relative to the baseline, by the width of the dense network, for a study of widths.

    A study of widths has three benchmarks or more, which differ only in the width of their dense network and in
    `steps_per_execution`. For any other study, return an empty dictionary.
    """
    study = results.study
    by_width = {of.model.units: name for name, of in study.benchmarks.items() if isinstance(of.model, Dense)}
    others = {json.dumps(of.recipe | {"model": None, "steps_per_execution": 0}) for of in study.benchmarks.values()}
    if len(by_width) < max(MIN_WIDTHS, len(study.benchmarks)) or len(others) > 1:
        return {}
    found: dict[str, dict[int, Estimate]] = {}
    for width, name in sorted(by_width.items()):
        for variant in study.variants_of(name).values():
            row = results.tables.pair(name, study.plain(name, variant.policy) or "", study.comparison.baseline)
            if row and row.speedup.value:
                found.setdefault(variant.policy, {})[width] = row.speedup
    return found


def is_short(pair: Row) -> bool:
    """Tell whether a pair has a speed, but from too few launches for an interval."""
    return pair.speedup.value is not None and pair.num_launches < MIN_LAUNCHES


def is_tested(verdict: Judgement) -> bool:
    """Tell whether this study tested a claim.

    An inconclusive test counts. A test of a different recipe or on a different kind of device does not.
    """
    return verdict.evidence is not None


def _benchmark(results: Results, name: str, title: str) -> dict[str, Any]:
    """Return the values that the templates need for one benchmark."""
    study, tables = results.study, results.tables
    rows = variant_rows(study, tables, name)
    blocks: dict[str, list[VariantRow]] = {}
    for row in rows:
        if row.is_known or row.notes:
            blocks.setdefault(row.group, []).append(row)
    first = blocks.get(SAME_BATCH, []) + blocks.get(OTHER_BATCH, [])
    again = tables.pair(name, REPEAT, study.comparison.baseline)
    curves = results.curves(name) if any(row.accuracy is not None for row in rows) else {}
    return {
        "name": name,
        "title": title,
        "recipe": study.benchmarks[name],
        "advice": recommend(study, tables, name),
        "beside_a_seed": _beside_a_seed(results, name),
        "repeated": _repeated(study.comparison.baseline, again),
        "rows": rows,
        "words": {row.name: row.full_words for row in rows},
        "same": blocks.get(SAME_BATCH, []),
        "other": blocks.get(OTHER_BATCH, []),
        "further": blocks.get(FURTHER, []),
        "columns": columns(first),
        "further_columns": columns(blocks.get(FURTHER, [])),
        "charts": figures.answer_charts(title, first, curves),
        "runs": tables.runs_of(name),
        "num_seeds": len([run for run in rows[0].runs if run.outcome == "completed"]),
        "pairs": [row for row in tables.pairs if row.benchmark == name and row.candidate != REPEAT],
        "again": again,
        "margin_pp": study.comparison.margin_pp[name],
    }


def _beside_a_seed(results: Results, benchmark: str) -> list[Said]:
    """Compare the share of predictions that each policy changes with the share that another seed changes."""
    baseline = results.study.comparison.baseline
    pairs = [results.tables.pair(benchmark, name, baseline) for name in results.study.recommendable(benchmark)]
    changed = [
        {
            "candidate": pair.candidate,
            "share": pair.changed_share,
            "least": pair.least_changed_share,
            "most": pair.most_changed_share,
        }
        for pair in pairs
        if pair and pair.changed_share is not None
    ]
    by_seed = next((pair.changed_by_seed_share for pair in pairs if pair and pair.changed_share is not None), None)
    return [Said("page.changed", {"changed": changed, "baseline": baseline, "by_seed": by_seed})] if changed else []


def _repeated(baseline: str, again: Row | None) -> list[Said]:
    """Say how the baseline's two processes compare. Where the variation from day to day is only assumed, say so."""
    if again is None or again.speedup.value is None:
        return []
    found = [Said("page.baseline_again", {"baseline": baseline, "ratio": again.speedup})]
    is_measured = again.device_kind == "cpu" and "AMD" in again.device
    return found if is_measured or not again.speedup.has_interval else [*found, Said("page.assumed_days")]


def _numerics(results: Results) -> dict[str, Any] | None:
    """Return the values for the report's part on 16-bit arithmetic, or None if there is no `numerics.json`."""
    if results.numerics is None:
        return None
    facts, titles = results.numerics["facts"], benchmark_names(results.study)
    shown = [
        sample_said(name, values)
        for name, values in results.numerics["samples"].items()
        if name.partition(".")[0] in SHOWN_SAMPLES
    ]
    return {
        **results.numerics,
        "policies": KERAS_POLICIES,
        "types": DTYPES,
        "trial_size": TRIAL_SIZE,
        "said": shown + facts_said({SPLIT: facts[SPLIT]} if SPLIT in facts else {}),
        "charts": [
            figures.exponent_histogram(name, titles[name], of["exponents"], of["counts"], of["loss_scale"])
            for name, of in results.numerics["gradients"].items()
        ],
    }
