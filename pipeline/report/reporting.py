"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

from collections.abc import Callable
from statistics import mean
from typing import Any

from pipeline.claims.acceleration import DEVICES, device_of
from pipeline.claims.schema import Claim, Source
from pipeline.claims.verdicts import Judgement
from pipeline.claims.wording import describe_sample
from pipeline.machine.hardware import hardware_of
from pipeline.numerics.facts import POLICIES, TRIAL_SIZE, TYPES, describe_facts
from pipeline.records.step_profile import KINDS, ProfiledKind
from pipeline.report import answers, figures, words
from pipeline.report.elsewhere import hardware_elsewhere
from pipeline.report.results import Results
from pipeline.report.status import tally
from pipeline.report.templates import TEMPLATES, template_environment
from pipeline.statistics import intervals
from pipeline.statistics.sittings import NOT_MEASURED

MIN_MILLISECONDS = 0.05  # of a kind of operation under any policy: others round to nothing
Row = tuple[Claim, Judgement]
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
                "findings": list(zip(results.claims.all, results.verdicts, strict=True))[len(results.claims.claims) :],
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


def claims_by_source(results: Results) -> list[tuple[Source, list[Row], list[Row]]]:
    """Return each source with its claims and their verdicts: those with a short form, then the others, to be folded."""
    both = list(zip(results.claims.claims, results.verdicts, strict=False))  # findings come after the claims
    found = []
    for identifier, source in results.claims.sources.items():
        rows = [row for row in both if row[0].source == identifier]
        leading = [row for row in rows if row[0].short] or rows
        found.append((source, leading, [row for row in rows if row not in leading]))
    return found


def step_profile(results: Results, benchmark: str) -> dict[str, Any]:
    """Return the table of a benchmark, and for each policy beside the first a sentence and the kind that tells most.

    `policies` is empty where nothing was profiled.
    """
    of_policies: dict[str, dict[str, ProfiledKind]] = {}
    for row in results.step_profile:
        if row.benchmark == benchmark:
            of_policies.setdefault(row.policy, {})[row.kind] = row
    rows = [(kind, [kinds.get(kind) for kinds in of_policies.values()]) for kind in KINDS]
    first, *others = of_policies or [""]
    return {
        "policies": list(of_policies),
        "rows": [row for row in rows if any(cell and cell.milliseconds >= MIN_MILLISECONDS for cell in row[1])],
        "sentences": [_beside(first, of_policies[first], policy, of_policies[policy]) for policy in others],
        "tells_most": {policy: _tells_most(of_policies[first], of_policies[policy]) for policy in others},
        "batch_size": next((row.batch_size for kinds in of_policies.values() for row in kinds.values()), None),
    }


def _milliseconds(kinds: dict[str, ProfiledKind], *names: str) -> float:
    return sum(kinds[kind].milliseconds for kind in names or kinds if kind in kinds)


def _tells_most(before: dict[str, ProfiledKind], kinds: dict[str, ProfiledKind]) -> str:
    """Name the kind of operation that costs the most time beside the first policy, or saves it the most."""
    sign = 1 if _milliseconds(kinds) > _milliseconds(before) else -1
    return max(KINDS, key=lambda kind: sign * (_milliseconds(kinds, kind) - _milliseconds(before, kind)))


def _beside(first: str, before: dict[str, ProfiledKind], policy: str, kinds: dict[str, ProfiledKind]) -> str:
    total, total_before, most = _milliseconds(kinds), _milliseconds(before), _tells_most(before, kinds)
    kernel = f", most of it in oneDNN's {kinds[most].kernel}" if most in kinds and kinds[most].kernel else ""
    words = "most of the extra time is" if total > total_before else "most is saved by"
    return (
        f"Under {policy} the operations of a step take {total:,.0f} ms, in {first} {total_before:,.0f} ms; {words} "
        f"{most}: {_milliseconds(kinds, most):,.0f} ms beside {_milliseconds(before, most):,.0f} ms{kernel}."
    )
