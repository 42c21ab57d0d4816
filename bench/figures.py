"""Compute a figure, the ratio of our cost to that of a stated peer, and compare ratios with those kept."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

SCHEMA_VERSION = 1
TOLERANCE = 0.25  # two shared cores repeat a ratio of two runs to about 15 %

# What tells figures apart; the rest is measured, or follows from these.
KEY = ("name", "benchmark", "image_size", "variant", "num_runs", "peer")


def figure(
    name: str,
    unit: str,
    ours: Sequence[float],
    peer: Sequence[float],
    *,
    of: str,
    better: str = "lower",
    target: float | None = None,
    **where: str | int,
) -> dict[str, Any]:
    """Compute one figure from interleaved repeats, in turn order: medians, their ratio, and the range of the ratios.

    Args:
        unit: what the values end in: seconds, images_per_second, peak_resident_bytes.
        of: what the peer is.
        better: lower or higher; a target is met on that side of it, or at it.
    """
    low, *_, high = sorted(mine / other for mine, other in zip(ours, peer, strict=True)) * 2
    ratio = median(ours) / median(peer)
    measured = {
        f"ours_{unit}": _rounded(median(ours)),
        f"peer_{unit}": _rounded(median(peer)),
        "ratio": round(ratio, 3),
    }
    measured |= {"ratio_low": round(low, 3), "ratio_high": round(high, 3), "repeats": len(ours)}
    row = {"name": name, **where, "peer": of, "better": better} | measured
    if target is not None:
        row |= {"target": target, "met": ratio <= target if better == "lower" else ratio >= target}
    return row


def within(row: dict[str, Any], target_seconds: float) -> dict[str, Any]:
    """Add to `row` a limit on our own seconds, about which the ratio says nothing."""
    return row | {"target_seconds": target_seconds, "met": row["ours_seconds"] <= target_seconds}


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keep what later figures are compared with: no seconds, which are another machine's."""
    kept = [{name: row[name] for name in (*KEY, "better", "ratio") if name in row} for row in rows]
    return {"schema_version": SCHEMA_VERSION, "figures": kept}


def worse(rows: Sequence[Mapping[str, Any]], baseline: Mapping[str, Any]) -> Iterator[str]:
    """List each figure whose ratio is more than `TOLERANCE` worse than the one kept, or that only one side has.

    Raises:
        ValueError: `baseline` has another schema.
    """
    if baseline["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema_version: must be {SCHEMA_VERSION}. Received: {baseline['schema_version']}")
    kept = {_key(row): row["ratio"] for row in baseline["figures"]}
    for row in rows:
        before = kept.get(_key(row))
        if before is None:
            yield f"NOT COMPARED {title(row)}: the baseline has no such figure"
            continue
        change = row["ratio"] / before if row["better"] == "lower" else before / row["ratio"]
        if change > 1 + TOLERANCE:
            yield f"WORSE {title(row)}: ratio {row['ratio']:.3f}, was {before:.3f}"
    measured = {_key(row) for row in rows}
    for row in baseline["figures"]:
        if _key(row) not in measured:
            yield f"NOT COMPARED {title(row)}: only the baseline has it"


def title(row: Mapping[str, Any]) -> str:
    """Name what is measured, without the peer."""
    shown = {"image_size": "{0} × {0}", "num_runs": "{} runs"}
    return " ".join(shown.get(name, "{}").format(row[name]) for name in KEY[:-1] if name in row)


def line(row: Mapping[str, Any]) -> str:
    """Write a figure for people."""
    ours, peer = (next((name, row[name]) for name in row if name.startswith(side)) for side in ("ours_", "peer_"))
    unit = ours[0].removeprefix("ours_").replace("_", " ")
    limit = f"{'≤' if row['better'] == 'lower' else '≥'} {row['target']}" if "target" in row else ""
    limit += f" ≤ {row['target_seconds']} s" if "target_seconds" in row else ""
    verdict = f" · target {limit.strip()}: {'met' if row['met'] else 'MISSED'}" if limit else ""
    return (
        f"{title(row)} · {row['ratio']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f}) · "
        f"{ours[1]:,} / {peer[1]:,} {unit} against {row['peer']}{verdict}"
    )


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in KEY)


def _rounded(value: float) -> float:
    return round(value, 3) if value < 1000 else round(value)
