"""Make sentences about the results of the numerics stage. Nothing here needs an engine."""

from collections.abc import Mapping, Sequence

from pipeline.numerics.facts import Value
from pipeline.statistics.intervals import mean
from pipeline.words.sentences import Said


def facts_said(values: Mapping[str, Value]) -> list[Said]:
    """Return a sentence for each fact."""
    return [_fact_said(name, value) for name, value in values.items()]


def _fact_said(name: str, value: Value) -> Said:
    kind, place, *rest = f"{name}.".split(".")
    if kind == "weights_ratio":
        return Said("fact.weights_ratio", {"value": value, "benchmark": place, "policy": rest[0]})
    if kind == "gradients":
        return Said(f"fact.gradients.{rest[0]}", {"value": value, "benchmark": place})
    if kind in ("loss_scale", "notebook_split"):
        return Said(f"fact.{name}", {"value": value})
    return Said(f"fact.{kind}", {"value": value, "place": place})


def sample_said(name: str, values: Sequence[float]) -> Said:
    """Return a sentence about the mean of all tries of an experiment."""
    kind, _, benchmark = name.partition(".")
    return Said(f"sample.{kind}", {"mean": mean(values), "num_tries": len(values), "benchmark": benchmark})
