"""From stored results to the parts of the report. It computes nothing that is not stored; it arranges."""

from collections.abc import Callable, Sequence
from datetime import datetime
from statistics import mean
from typing import Any

from pipeline.claims.acceleration import DEVICES, device_of
from pipeline.claims.schema import Claim, Source
from pipeline.claims.verdicts import Judgement
from pipeline.claims.wording import describe_sample
from pipeline.comparison.comparable import describe_device
from pipeline.compiled.answers import memory_ratio, multiplied_in
from pipeline.compiled.schema import CheckedStep, CompiledProgram, CompiledTarget
from pipeline.machine.hardware import hardware_of
from pipeline.numbers import UNKNOWN, listed, mebibytes, span
from pipeline.numerics.facts import DTYPES, KERAS_POLICIES, TRIAL_SIZE, describe_facts
from pipeline.records.step_profile import KINDS, ProfiledKind
from pipeline.report import answers, figures, words
from pipeline.report.results import Results, ended_at
from pipeline.report.status import tally
from pipeline.report.templates import TEMPLATES, template_environment
from pipeline.statistics import intervals
from pipeline.statistics.sittings import NOT_MEASURED

# The sources' own recipes, which are compiled whatever a study trains.
RECIPES = {
    "mnist_dense": "MNIST, dense network of 4,096 units",
    "cifar100_efficientnet_b0": "CIFAR-100, EfficientNet-B0",
}
MIN_MILLISECONDS = 0.05  # of a kind of operation under any policy: others round to nothing
Row = tuple[Claim, Judgement]
SPLIT = "notebook_split.num_trained_on"
SECTIONS = ("answer", "judgements", "measurements", "arithmetic", "hardware", "elsewhere", "method", "surroundings")


def parts(results: Results) -> Callable[[str], str]:
    """Return a function that gives the HTML of a part of the report: the macro of that name in report/parts.html."""
    short = words.short_names(results.study)
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
                "assumed_spread": NOT_MEASURED.spread,
                "types": DTYPES,
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


def claims_by_source(results: Results) -> list[tuple[str, Source, list[Row], list[Row]]]:
    """Return each source with its name and its claims: those with a short form, then the others, to be folded."""
    both = list(zip(results.claims.claims, results.verdicts, strict=False))  # findings come after the claims
    found = []
    for identifier, source in results.claims.sources.items():
        rows = [row for row in both if row[0].source == identifier]
        leading = [row for row in rows if row[0].short] or rows
        found.append((identifier, source, leading, [row for row in rows if row not in leading]))
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
        "tells_most": {
            policy: _in_a_sentence(_tells_most(of_policies[first], of_policies[policy])) for policy in others
        },
        "batch_size": next((row.batch_size for kinds in of_policies.values() for row in kinds.values()), None),
    }


def _milliseconds(kinds: dict[str, ProfiledKind], *names: str) -> float:
    return sum(kinds[kind].milliseconds for kind in names or kinds if kind in kinds)


def _tells_most(before: dict[str, ProfiledKind], kinds: dict[str, ProfiledKind]) -> str:
    """Name the kind of operation that costs the most time beside the first policy, or saves it the most."""
    sign = 1 if _milliseconds(kinds) > _milliseconds(before) else -1
    return max(KINDS, key=lambda kind: sign * (_milliseconds(kinds, kind) - _milliseconds(before, kind)))


def _in_a_sentence(kind: str) -> str:
    """Name a kind of operation as in "it loses the most time in matrix products"."""
    the = "the " if kind in ("rest", "optimizer and loss scale") else ""
    return f"{the}{kind}{'s' if kind.endswith(('convolution', 'product', 'cast')) else ''}"


def _beside(first: str, before: dict[str, ProfiledKind], policy: str, kinds: dict[str, ProfiledKind]) -> str:
    total, total_before, most = _milliseconds(kinds), _milliseconds(before), _tells_most(before, kinds)
    kernel = f", mainly in oneDNN's {kinds[most].kernel}" if most in kinds and kinds[most].kernel else ""
    words = "the most extra time is in" if total > total_before else "the most time is saved in"
    return (
        f"Under {policy} the operations of a step take {total:,.0f} ms, in {first} {total_before:,.0f} ms; {words} "
        f"{_in_a_sentence(most)}: {_milliseconds(kinds, most):,.0f} ms beside "
        f"{_milliseconds(before, most):,.0f} ms{kernel}."
    )


def hardware_elsewhere(
    compiled: Sequence[CompiledTarget], checked: Sequence[CheckedStep] = ()
) -> dict[str, Any] | None:
    """Return the table of the section; None where nothing was compiled."""
    if not compiled:
        return None
    sizes: dict[str, int] = {}
    for program in (program for made in compiled for program in made.programs if program.precision == "float32"):
        sizes[program.benchmark] = min(program.batch_size, sizes.get(program.benchmark, program.batch_size))
    rows = [
        {"target": made.title, "cells": [_cell(made, name, size) for name, size in sizes.items()]} for made in compiled
    ]
    return {
        "benchmarks": [(RECIPES.get(name, name), size) for name, size in sizes.items()],
        "rows": rows,
        "in_8_bits": describe_8_bits(compiled),
        "checked": describe_check(checked),
        "versions": {key: value for made in compiled for key, value in made.versions.items()},
    }


def describe_8_bits(compiled: Sequence[CompiledTarget]) -> str:
    """Say what float8 makes of a step: its products, and its memory; nothing where none was compiled in it."""
    found = [(made, program) for made in compiled for program in made.programs if program.precision == "float8"]
    told = []
    for name in dict.fromkeys(program.benchmark for _, program in found):
        shares, ratios, titles = [], [], []
        for made, program in found:
            ratio = memory_ratio(made, name, "float8", program.batch_size)
            if program.benchmark == name and ratio is not None:
                shares.append("{} of {}".format(*multiplied_in(program, 8)))
                ratios.append(round(ratio, 2))
                titles.append(made.title)
        if shares:
            told.append(
                f"{RECIPES.get(name, name)}, under float8: {listed(dict.fromkeys(shares))} products are in 8 bits, "
                f"and a step takes {span(ratios)} times the memory of float32 ({' · '.join(dict.fromkeys(titles))})."
            )
    return " ".join(told)


def describe_check(checked: Sequence[CheckedStep]) -> str:
    """Say how far off the compiler is on a CPU, where its steps ran; nothing where nobody tried."""
    if not checked:
        return ""
    told = []
    for name, size in dict.fromkeys((step.benchmark, step.image_size) for step in checked):
        steps = [step for step in checked if step.benchmark == name]
        batches = [f"{each:,}" for each in sorted({step.batch_size for step in steps})]
        what = f"{RECIPES.get(name, name)}, {size} × {size}, batches {', '.join(batches)}"
        told.append(f"{span([round(step.ratio, 2) for step in steps])}× ({what})")
    kept = span([round(step.once_bytes / 2**20) for step in checked])
    first, precisions = checked[0], " and ".join(dict.fromkeys(step.precision for step in checked))
    return (
        f"On a CPU, where a step can run ({first.cpu}, JAX {first.jax}, {first.day}), in {precisions}, the compiler "
        f"predicts {' and '.join(told)} the memory that a step took. The process itself keeps another {kept} MiB after "
        "the first step."
    )


def _cell(made: CompiledTarget, benchmark: str, batch_size: int) -> dict[str, Any]:
    """Return what the compiler says of a benchmark in float32 and in 16 bits, at a batch and at the doubled one."""
    both = ("float32", "mixed_bfloat16" if made.kind == "tpu" else "mixed_float16")
    program = made.find(benchmark, both[1], batch_size)
    told = [_mebibytes(made, made.find(benchmark, each, n * batch_size)) for n in (1, 2) for each in both]
    ratio = memory_ratio(made, benchmark, both[1], batch_size)
    told[1] += "" if ratio is None else f" ({ratio:.2f}×)"
    return {
        "mebibytes": told,
        "in_16_bits": multiplied_in(program, 16) if program and program.memory else None,
    }


def _mebibytes(made: CompiledTarget, program: CompiledProgram | None) -> str:
    if program is None:
        return UNKNOWN
    if program.memory is None:
        return "does not fit" if made.fits(program) is False else "refused"
    return mebibytes(program.memory.total) + ("" if made.fits(program) else ", does not fit")
