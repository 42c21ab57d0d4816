"""Recommend a policy if measurements show that the policy is faster than the default and loses little accuracy."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from pipeline.claims.kinds import accuracy_numbers
from pipeline.comparison.tables import Row, Tables, hardware_of_row
from pipeline.records.blocks import REPEAT
from pipeline.report.first_screen import peaks_of_runs
from pipeline.report.names import variant_name
from pipeline.statistics.circumstances import MAX_OTHER_CPU_SHARE, is_busy
from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study
from pipeline.study.variant import DEFAULT_POLICY
from pipeline.words.sentences import Said

UNTOLD = 1.05  # without an interval, speeds within this factor count as equal
MUCH_KERNEL = 0.2  # as a share of a variant's CPU time
MIN_RECOMMENDING_SEEDS = 5
UNSAID = ("no_runs", "too_few_seeds", "near_chance")  # reasons for an unknown loss that no sentence gives


def recommend(study: Study, tables: Tables, benchmark: str) -> list[Said]:
    """Return advice on a benchmark as sentences: a policy to use, and facts on speed, accuracy and memory.

    A policy is recommended if, at the baseline's batch size, the policy trains faster than the device's default
    precision and loses less accuracy than the margin. The tests must also have found the loss of each control (a
    variant made to lose accuracy). Policies that also keep variables in 16 bits are experiments and are never
    recommended.
    """
    strict, variants = study.comparison.baseline, study.variants_of(benchmark)
    default = study.plain(benchmark, DEFAULT_POLICY) or strict
    names = study.recommendable(benchmark)
    accuracies = [row for name in names if (row := tables.pair(benchmark, name, strict)) and row.num_seeds]
    speeds = [row for name in names if (row := tables.pair(benchmark, name, default)) and row.speedup.value is not None]
    has_control = _finds_controls(study, tables, benchmark)
    accurate = [row.candidate for row in accuracies if has_control and _loses_little(row)]
    gains = [row for row in speeds if row.speedup.lies_above(1)]
    best = alike([row for row in gains if row.candidate in accurate])
    numbers = {"default": variant_name(variants[default]), "strict": strict, "is_default": default != strict}
    if best:
        chosen = [row.candidate for row in best]
        losses = [accuracy_numbers(row) for row in accuracies if row.candidate in chosen]
        found = [Said("advice.use", numbers | _speed_numbers(best) | {"losses": losses})]
        accuracies = [row for row in accuracies if row.candidate not in chosen]
    else:
        found = _on_speed(gains or speeds, numbers, variants)
    if gains and (slower := [row for row in speeds if row.speedup.lies_below(1)]):
        found.append(Said("advice.others_slower", numbers | _speed_numbers(slower)))
    found += _on_layers(study, tables, benchmark, default)
    found += _on_accuracy(accuracies)
    found += _on_repairs(study, tables, benchmark)
    found = found or _on_memory(study, tables, benchmark)
    return [
        *found,
        *_on_starts(tables, benchmark),
        *_on_kernel(tables, benchmark, strict),
        *_on_other_work(tables, benchmark),
    ]


def _finds_controls(study: Study, tables: Tables, benchmark: str) -> bool:
    """Tell whether the benchmark has controls (see `recommend`), and a loss is shown for each control."""
    controls = [name for name in study.comparison.must_differ if name in study.variants_of(benchmark)]
    rows = [tables.pair(benchmark, name, study.comparison.baseline) for name in controls]
    return bool(rows) and all(row and row.difference_pp.lies_below(0) for row in rows)


def _loses_little(row: Row) -> bool:
    """Tell whether enough seeds, without a failed run, show that a candidate loses less than the margin."""
    return (
        row.most_loss_pp is not None
        and row.most_loss_pp < row.margin_pp
        and row.num_seeds >= MIN_RECOMMENDING_SEEDS
        and not (row.num_failed_candidate or row.num_failed_baseline)
    )


def alike(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest pair and the pairs that this measurement can't tell from the fastest, in order of speed."""
    ordered = sorted(rows, key=lambda row: -row.speedup.value)
    fastest = ordered[0].speedup.value if ordered else None
    return [row for row in ordered if (row.sitting.high or UNTOLD * row.speedup.value) >= fastest]


def _speed_numbers(rows: Sequence[Row]) -> dict[str, Any]:
    ratios = [row.speedup.value for row in rows]
    return {
        "candidates": [row.candidate for row in rows],
        "least": min(ratios),
        "most": max(ratios),
        "num_launches": rows[0].num_launches,
    }


def _on_speed(rows: Sequence[Row], numbers: dict[str, Any], variants: Any) -> list[Said]:
    """Say how fast the fastest of `rows` are, for a benchmark without a recommended policy."""
    if not rows:
        return []
    fastest = alike(rows)
    numbers = numbers | _speed_numbers(fastest) | {"fastest": fastest[0].speedup}
    intervals = [row.speedup for row in fastest if row.speedup.has_interval]
    if not intervals:
        return [Said("advice.no_interval", numbers)]
    if all(speedup.lies_above(1) for speedup in intervals):
        return [Said("advice.faster", numbers)]
    is_slower = all(speedup.lies_below(1) for speedup in intervals)
    formats = {POLICIES[variants[row.candidate].policy].products for row in rows}
    if rows[0].device_kind == "cpu" and not any(map(hardware_of_row(rows[0]).multiplies, formats)):
        return [Said("advice.no_arithmetic", numbers | {"formats": sorted(formats)})]
    return [Said("advice.slower" if is_slower else "advice.open", numbers)]


def _on_layers(study: Study, tables: Tables, benchmark: str, default: str) -> list[Said]:
    """Say for each policy whether variants with some layers in float32 are faster than the variant without such layers.

    If several of these variants are about equally fast, take the variant with the fewest kinds of layers in float32.
    """
    names = [name for name in study.recommendable(benchmark) if study.variants[name].float32_layers]
    rows = [row for name in names if (row := tables.pair(benchmark, name, default)) and row.speedup.value is not None]
    found = []
    for policy in dict.fromkeys(study.variants[row.candidate].policy for row in rows):
        plain = tables.pair(benchmark, study.plain(benchmark, policy) or "", default)
        if plain is None or plain.speedup.value is None:
            continue
        mixtures = [row for row in rows if study.variants[row.candidate].policy == policy]
        best = min(alike(mixtures), key=lambda row: len(study.variants[row.candidate].float32_layers))
        numbers = {"policy": plain.candidate, "default": variant_name(study.variants[default])}
        numbers |= {"plain_speed": plain.speedup.value, "mixed_speed": best.speedup.value}
        if (best.sitting.low or best.speedup.value) > (plain.sitting.high or plain.speedup.value):
            found.append(Said("advice.layers", numbers | {"layers": study.variants[best.candidate].float32_layers}))
        else:
            layers = {layer for row in mixtures for layer in study.variants[row.candidate].float32_layers}
            found.append(Said("advice.no_layers", numbers | {"layers": sorted(layers)}))
    return found


def _on_repairs(study: Study, tables: Tables, benchmark: str) -> list[Said]:
    """Say how each run with some layers in float32 ended, if the run without such layers diverged at the same seed."""
    found = []
    for name in study.recommendable(benchmark):
        variant = study.variants[name]
        plain = study.plain(benchmark, variant.policy)
        if not variant.float32_layers or not plain:
            continue
        failed = {run.seed for run in tables.runs_of(benchmark, plain) if run.outcome == "diverged"}
        for run in tables.runs_of(benchmark, name):
            if run.seed in failed:
                numbers = {"policy": plain, "layers": variant.float32_layers, "seed": run.seed, "outcome": run.outcome}
                found.append(Said("advice.repaired", numbers))
    return found


def _on_accuracy(rows: Sequence[Row]) -> list[Said]:
    """Say how much accuracy policies lose, or why the loss is unknown."""
    failed = [row for row in rows if row.num_failed_candidate or row.num_failed_baseline]
    known = [row for row in rows if row.most_loss_pp is not None and row not in failed]
    groups: dict[str, list[Row]] = {"loss": known} if known else {}
    for row in rows:
        if row in failed:
            groups.setdefault("runs_failed", []).append(row)
        elif row not in known and row.reason not in (None, *UNSAID):
            groups.setdefault(row.reason, []).append(row)
    found = []
    for reason, alike_rows in groups.items():
        together = {
            "candidates": [row.candidate for row in alike_rows],
            "losses": [accuracy_numbers(row) for row in alike_rows],
            "open": [accuracy_numbers(row) for row in alike_rows if _is_open(row)],
            "margin_pp": alike_rows[0].margin_pp,
            "baseline": alike_rows[0].baseline,
        }
        found.append(Said(f"advice.accuracy.{reason}", together))
    return found


def _is_open(row: Row) -> bool:
    """Tell whether the largest loss that is still possible reaches the margin, but no loss is shown."""
    return bool(
        row.most_loss_pp is not None and row.most_loss_pp >= row.margin_pp and not row.difference_pp.lies_below(0)
    )


def _on_memory(study: Study, tables: Tables, benchmark: str) -> list[Said]:
    """Say how much memory policies take in a run, relative to the baseline.

    A control needs as much memory as the baseline. A ratio no further from 1 than a control's is treated as chance.
    """
    strict, controls = study.comparison.baseline, study.comparison.must_differ
    peaks = {
        name: median(bytes_of_runs)
        for name in (strict, *study.recommendable(benchmark), *controls)
        if (bytes_of_runs := peaks_of_runs(tables.runs_of(benchmark, name)))
    }
    if strict not in peaks:
        return []
    sizes = {name: abs(math.log(peak / peaks[strict])) for name, peak in peaks.items()}
    by_chance = max((sizes[name] for name in controls if name in sizes), default=0.0)
    ratios = {
        name: peak / peaks[strict]
        for name, peak in peaks.items()
        if name not in (strict, *controls) and sizes[name] > by_chance
    }
    return [Said("advice.memory", {"ratios": ratios, "baseline": strict})] if ratios else []


def _on_starts(tables: Tables, benchmark: str) -> list[Said]:
    """Say so if runs with different seeds all start from the same weights, as with a checkpoint."""
    runs = [run for run in tables.runs_of(benchmark) if run.initial_weights_sha256]
    is_one = len({run.seed for run in runs}) > 1 and len({run.initial_weights_sha256 for run in runs}) == 1
    return [Said("advice.same_start")] if is_one else []


def _on_kernel(tables: Tables, benchmark: str, strict: str) -> list[Said]:
    """Say how much faster a CPU could train a variant, if the system's kernel takes much of the variant's CPU time.

    Only the variant with the largest share is named.
    """
    here = benchmark, strict, "cpu"
    rows = [row for row in tables.pairs if (row.benchmark, row.baseline, row.device_kind) == here]
    names = {REPEAT: strict}  # the second process trains the baseline, too
    shares = {
        names.get(row.candidate, row.candidate): row.candidate_kernel_share
        for row in rows
        if row.candidate_kernel_share
    }
    worst = max(shares, key=lambda name: shares[name], default=None)
    if worst is None or shares[worst] < MUCH_KERNEL:
        return []
    return [Said("advice.kernel", {"candidate": worst, "share": shares[worst], "most": 1 / (1 - shares[worst])})]


def _on_other_work(tables: Tables, benchmark: str) -> list[Said]:
    """Say how to measure again if other work took so much CPU time that times don't count."""
    shares = [row.other_cpu_share for row in tables.pairs if row.benchmark == benchmark and row.other_cpu_share]
    if not shares or not is_busy(shares[0]):
        return []
    numbers = {"share": shares[0], "most": MAX_OTHER_CPU_SHARE, "benchmark": benchmark}
    return [Said("advice.busy", numbers)]
