"""Compute a figure, the ratio of our cost to that of a stated peer, and compare ratios with those kept."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

TOLERANCE = 0.25  # two shared cores repeat a ratio of two runs to about 15 %
KEY = ("name", "benchmark", "num_runs", "peer")  # what tells figures apart


def figure(
    name: str, unit: str, ours: Sequence[float], peer: Sequence[float], *, of: str, **where: str | int
) -> dict[str, Any]:
    """Compute one figure from interleaved repeats, in turn order: medians, their ratio, and the range of the ratios.

    Args:
        unit: what the values end in: seconds, peak_resident_bytes.
        of: what the peer is.
    """
    by_turn = [mine / other for mine, other in zip(ours, peer, strict=True)]
    return {
        "name": name,
        **where,
        "peer": of,
        f"ours_{unit}": _rounded(median(ours)),
        f"peer_{unit}": _rounded(median(peer)),
        "ratio": round(median(ours) / median(peer), 3),
        "ratio_low": round(min(by_turn), 3),
        "ratio_high": round(max(by_turn), 3),
        "repeats": len(ours),
    }


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keep what later figures are compared with: no seconds, which are another machine's."""
    return {"figures": [{name: row[name] for name in (*KEY, "ratio") if name in row} for row in rows]}


def worse(rows: Sequence[Mapping[str, Any]], baseline: Mapping[str, Any]) -> Iterator[str]:
    """List each figure whose ratio is more than `TOLERANCE` worse than the one kept, or that only one side has."""
    kept = {_key(row): row["ratio"] for row in baseline["figures"]}
    for row in rows:
        before = kept.pop(_key(row), None)
        if before is None:
            yield f"NOT COMPARED {_title(row)}: the baseline has no such figure"
        elif row["ratio"] / before > 1 + TOLERANCE:
            yield f"WORSE {_title(row)}: ratio {row['ratio']:.3f}, was {before:.3f}"
    for row in baseline["figures"]:
        if _key(row) in kept:
            yield f"NOT COMPARED {_title(row)}: only the baseline has it"


def line(row: Mapping[str, Any]) -> str:
    """Write a figure for people."""
    ours, peer = (next((name, row[name]) for name in row if name.startswith(side)) for side in ("ours_", "peer_"))
    unit = ours[0].removeprefix("ours_").replace("_", " ")
    return (
        f"{_title(row)} · {row['ratio']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f}) · "
        f"{ours[1]:,} / {peer[1]:,} {unit} against {row['peer']}"
    )


def _title(row: Mapping[str, Any]) -> str:
    """Name what is measured, without the peer."""
    return " ".join(f"{row[name]} runs" if name == "num_runs" else row[name] for name in KEY[:-1] if name in row)


def _rounded(value: float) -> float:
    return round(value, 3) if value < 1000 else round(value)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in KEY)
