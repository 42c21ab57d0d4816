"""Recommend a policy for a benchmark, if pairs show it faster than the default and as accurate as the baseline."""

from collections.abc import Sequence
from typing import Any

from pipeline.claims.kinds import accuracy_numbers
from pipeline.comparison.tables import Row, Tables, hardware_of_row
from pipeline.records.blocks import REPEAT
from pipeline.report.names import variant_name
from pipeline.statistics.circumstances import MAX_OTHER_CPU_SHARE, is_busy
from pipeline.statistics.equivalence import is_beyond
from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study
from pipeline.study.variant import DEFAULT_POLICY, MIXED
from pipeline.words.sentences import Said

UNTOLD = 1.05  # without an interval, speeds within this factor count as equal
MUCH_KERNEL = 0.2  # as a share of a variant's CPU time
UNSAID = ("no_runs", "too_few_seeds", "near_chance")  # reasons that the first screen leaves out


def recommend(study: Study, tables: Tables, benchmark: str) -> list[Said]:
    """Return sentences that recommend, on this hardware, a 16-bit policy at the same batch or the default precision.

    A policy is recommended if it trains faster than the device's default precision, and its accuracy equals float32's
    within the margin. Policies that also keep variables in 16 bits are experiments and are never recommended.
    """
    strict, variants = study.comparison.baseline, study.variants_of(benchmark)
    default = study.plain(benchmark, DEFAULT_POLICY) or strict
    names = [name for name in variants if name in [study.plain(benchmark, policy) for policy in MIXED]]
    accuracies = [row for name in names if (row := tables.pair(benchmark, name, strict)) and row.num_seeds]
    speeds = [row for name in names if (row := tables.pair(benchmark, name, default)) and row.speedup.value is not None]
    same = [row.candidate for row in accuracies if row.outcome.startswith("equivalent")]
    gains = [row for row in speeds if row.speedup.lies_above(1)]
    best = alike([row for row in gains if row.candidate in same])
    numbers = {"default": variant_name(variants[default]), "strict": strict, "is_default": default != strict}
    if best:
        by_accuracy = [row for row in accuracies if row.candidate in {each.candidate for each in best}]
        settled = {"margin_pp": by_accuracy[0].margin_pp, "num_seeds": min(row.num_seeds for row in by_accuracy)}
        found = [Said("advice.use", numbers | _speed_numbers(best) | settled)]
        accuracies = [row for row in accuracies if row not in by_accuracy]
    else:
        found = _on_speed(gains or speeds, numbers, variants)
    found += _on_accuracy(accuracies)
    found = found or _on_memory(tables, benchmark, strict, names)
    return [
        *found,
        *_on_starts(tables, benchmark),
        *_on_kernel(tables, benchmark, strict),
        *_on_other_work(tables, benchmark),
    ]


def alike(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest pair, and the pairs that this measurement can't tell from it, fastest first."""
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
    """Say whether a policy is faster, if none can be recommended outright."""
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


def _on_accuracy(rows: Sequence[Row]) -> list[Said]:
    """Say how accurate policies are. One sentence per outcome names the policies with that outcome."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.num_failed_candidate or row.num_failed_baseline:
            groups.setdefault("runs_failed", []).append(row)
        elif row.reason not in UNSAID:
            outcome = "beyond" if is_beyond(row.p_beyond_margin) else row.outcome
            groups.setdefault(row.reason or outcome, []).append(row)
    found = []
    for outcome, alike_rows in groups.items():
        together = {
            "candidates": [row.candidate for row in alike_rows],
            "differences": [accuracy_numbers(row) for row in alike_rows],
            "num_seeds": min(row.num_seeds for row in alike_rows),
            "needed": [f"about {row.num_seeds_needed}" if row.num_seeds_needed else "over 1,000" for row in alike_rows],
            "margin_pp": alike_rows[0].margin_pp,
            "baseline": alike_rows[0].baseline,
        }
        found.append(Said(f"advice.accuracy.{outcome.replace(' ', '_')}", together))
    return found


def _on_memory(tables: Tables, benchmark: str, strict: str, names: Sequence[str]) -> list[Said]:
    """Say how much memory policies take in a run, if nothing else is known about them."""
    peaks = {
        name: min(found)
        for name in (strict, *names)
        if (found := [run.peak_memory_bytes for run in tables.runs_of(benchmark, name) if run.outcome == "completed"])
        and all(found)
    }
    if strict not in peaks or len(peaks) < 2:
        return []
    ratios = {name: peak / peaks[strict] for name, peak in peaks.items() if name != strict}
    return [Said("advice.memory", {"ratios": ratios, "baseline": strict})]


def _on_starts(tables: Tables, benchmark: str) -> list[Said]:
    """Say so if all seeds start from the same weights, as with a checkpoint or with fixed initial values."""
    runs = [run for run in tables.runs_of(benchmark) if run.initial_weights_sha256]
    is_one = len({run.seed for run in runs}) > 1 and len({run.initial_weights_sha256 for run in runs}) == 1
    return [Said("advice.same_start")] if is_one else []


def _on_kernel(tables: Tables, benchmark: str, strict: str) -> list[Said]:
    """Say how much faster a variant could be if the system's kernel spends much time handing out memory."""
    here = benchmark, strict, "cpu"
    rows = [row for row in tables.pairs if (row.benchmark, row.baseline, row.device_kind) == here]
    names = {REPEAT: strict}  # the baseline's second process
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
