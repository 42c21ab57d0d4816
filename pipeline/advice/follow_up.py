"""Propose further studies of a user's model: which layers make 16 bits slow, and what would keep a run finite?

Functions take the study as it is in params.yaml (`planned`), and as this machine made it (`made`), without the variants
that it leaves out. They return the planned study with what is to be tried next, or None if there is nothing to try.
"""

from collections.abc import Sequence
from typing import Any

from pipeline.advice.proposal import YOURS
from pipeline.comparison.tables import Row, Tables
from pipeline.study.configuration import validate
from pipeline.study.schema import Study
from pipeline.study.variant import DEFAULT_POLICY

LAYERS = "yours_layers"  # the benchmark of mixtures
BUDGET_SECONDS = 100.0


def slow_policy(made: Study, tables: Tables) -> str | None:
    """Return the fastest 16-bit variant, or None if one is faster than the default or mixtures were tried already."""
    rows = _speeds(made, tables, YOURS)
    if LAYERS in made.benchmarks or not rows or any(row.speedup.lies_above(1) for row in rows):
        return None
    return str(rows[0].candidate)


def with_mixtures(planned: Study, policy: str, kinds: Sequence[str]) -> Study:
    """Add a benchmark that times `policy` with each of two kinds of layers in float32, and with both.

    The benchmark trains no runs. It times the same model at the same batch.
    """
    values, chosen = _values(planned), planned.variants[policy]
    timed = {planned.comparison.baseline, planned.plain(YOURS, DEFAULT_POLICY), policy}
    for name, variant in values["variants"].items():
        variant["benchmarks"] = [YOURS, LAYERS] if name in timed else [YOURS]
    for layers in [[kind] for kind in kinds[:2]] + [list(kinds[:2])] * (len(kinds) > 1):
        values["variants"]["_".join([policy, *map(str.lower, layers), "in_float32"])] = {
            "policy": chosen.policy,
            "batch_multiplier": chosen.batch_multiplier,
            "float32_layers": layers,
            "benchmarks": [LAYERS],
        }
    values["benchmarks"][LAYERS] = values["benchmarks"][YOURS]
    values["comparison"]["margin_pp"][LAYERS] = values["comparison"]["margin_pp"][YOURS]
    values["deviations"] = dict.fromkeys((YOURS, LAYERS), values["deviations"][YOURS])
    values.setdefault("num_seeds", {})[LAYERS] = 0
    values["speed"].setdefault("budgets", {})[LAYERS] = BUDGET_SECONDS
    return validate(Study, values, LAYERS)


def with_best_mixture(planned: Study, made: Study, tables: Tables) -> Study | None:
    """Add the fastest mixture to the user's benchmark if it is faster than the default.

    There it is trained, and timed in new launches, because the best of several owes its speed partly to luck.
    """
    if LAYERS not in made.benchmarks or any(variant.float32_layers for variant in made.variants_of(YOURS).values()):
        return None
    rows = [row for row in _speeds(made, tables, LAYERS) if made.variants[row.candidate].float32_layers]
    if not rows or not rows[0].speedup.lies_above(1):
        return None
    values = _values(planned)
    values["variants"][rows[0].candidate]["benchmarks"] = [YOURS, LAYERS]
    return validate(Study, values, rows[0].candidate)


def with_repair(planned: Study, made: Study, tables: Tables) -> Study | None:
    """Add one run of each 16-bit policy that diverged, with the layer that was first not finite kept in float32."""
    values, is_new = _values(planned), False
    for name in made.recommendable(YOURS):
        where = [run.first_not_finite for run in tables.runs_of(YOURS, name) if run.first_not_finite]
        if not where or made.variants[name].float32_layers or f"{name}_repaired" in made.variants:
            continue
        repaired = {"float32_layers": [layer_of(where[0])], "benchmarks": [YOURS]}
        values["variants"][f"{name}_repaired"] = values["variants"][name] | repaired
        values.setdefault("num_seeds_by_variant", {}).setdefault(YOURS, {})[f"{name}_repaired"] = 1
        is_new = True
    return validate(Study, values, YOURS) if is_new else None


def layer_of(where: str) -> str:
    """Return the name of the layer in words such as "the output of block/attend" or "the gradient of attend/kernel"."""
    what, _, path = where.partition(" of ")
    parts = path.split("/")
    return parts[-2] if what == "the gradient" and len(parts) > 1 else parts[-1]


def _speeds(study: Study, tables: Tables, benchmark: str) -> list[Row]:
    """Return the rows that compare the speed of 16-bit policies with the default's, fastest first."""
    default = study.plain(benchmark, DEFAULT_POLICY) or study.comparison.baseline
    rows = [tables.pair(benchmark, name, default) for name in study.recommendable(benchmark)]
    timed = [row for row in rows if row and row.speedup.value is not None]
    return sorted(timed, key=lambda row: -row.speedup.value)


def _values(study: Study) -> dict[str, Any]:
    return study.model_dump(mode="json", exclude_unset=True)
