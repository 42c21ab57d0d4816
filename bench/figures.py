"""Compute a figure, the ratio of our cost to that of a stated peer."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any


def figure(
    name: str, unit: str, ours: Sequence[float], peer: Sequence[float], *, of: str, benchmark: str
) -> dict[str, Any]:
    """Compute one figure from interleaved repeats, in turn order: medians, their ratio, and the range of the ratios.

    Args:
        unit: what the values end in: seconds, peak_resident_bytes.
        of: what the peer is.
    """
    by_turn = [mine / other for mine, other in zip(ours, peer, strict=True)]
    return {
        "name": name,
        "benchmark": benchmark,
        "peer": of,
        f"ours_{unit}": _rounded(median(ours)),
        f"peer_{unit}": _rounded(median(peer)),
        "ratio": round(median(ours) / median(peer), 3),
        "ratio_low": round(min(by_turn), 3),
        "ratio_high": round(max(by_turn), 3),
        "repeats": len(ours),
    }


def line(row: Mapping[str, Any]) -> str:
    """Write a figure for people."""
    ours, peer = (next((name, row[name]) for name in row if name.startswith(side)) for side in ("ours_", "peer_"))
    unit = ours[0].removeprefix("ours_").replace("_", " ")
    return (
        f"{row['name']} {row['benchmark']} · {row['ratio']:.3f} ({row['ratio_low']:.3f} to {row['ratio_high']:.3f}) · "
        f"{ours[1]:,} / {peer[1]:,} {unit} against {row['peer']}"
    )


def _rounded(value: float) -> float:
    return round(value, 3) if value < 1000 else round(value)
