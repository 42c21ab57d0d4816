"""Lay out what compilers say of hardware that nothing ran on: a column of the matrix for each target."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.claims.claim import Assessment
from pipeline.claims.guards import recipe_differences
from pipeline.claims.schema import Claim, Claims
from pipeline.compiled.schema import CompiledProgram, CompiledTarget
from pipeline.publication.matrix import COMPILED, Cell, Column
from pipeline.study.variant import Variant

COMPILED_PAGES = "compiled"
Recipes = Mapping[str, Mapping[str, Any]]


class TargetPage(NamedTuple):
    """Hold a target's column, all that its compiler answered, and the reason of each verdict by claim."""

    column: Column
    made: CompiledTarget
    reasons: Mapping[str, str]

    @property
    def steps(self) -> list[CompiledProgram]:
        """List the training steps that were compiled, the smaller before the larger."""
        return sorted(self.made.programs, key=lambda step: (step.benchmark, step.numbers, step.batch_size))


class _Compiled(NamedTuple):
    """Hold the part of the evidence that judges by compilers read."""

    compiled: Sequence[CompiledTarget]
    recipes: Recipes
    variants: Mapping[str, Variant]


def target_pages(compiled: Sequence[CompiledTarget], recipes: Recipes, claims: Claims) -> list[TargetPage]:
    """Return a page for each target whose compiler, asked alone, decides at least one of the claims.

    Args:
        recipes: those that were compiled, by benchmark.
    """
    pages = []
    for made in compiled:
        page = f"{COMPILED_PAGES}/{made.target}.html"
        found = {claim.id: _judge(claim, claims, made, recipes) for claim in claims.claims}
        known = {name: assessment for name, assessment in found.items() if assessment}
        cells = {
            name: Cell(verdict, COMPILED, _without_title(made, measured or reason), f"{page}#claim-{name}", None)
            for name, (verdict, reason, measured) in known.items()
        }
        about = f"compiled by JAX {made.versions['jax']}" if "jax" in made.versions else "compiled"
        column = Column(made.target, made.title, "", about, page, cells, is_compiled=True)
        if cells:
            reasons = {name: each.reason for name, each in known.items()}
            pages.append(TargetPage(column, made, reasons))
    return pages


def _judge(claim: Claim, claims: Claims, made: CompiledTarget, recipes: Recipes) -> Assessment | None:
    """Judge a claim by what one target's compiler says; None where that decides nothing about it."""
    judge = claim.judges.get("compiled")
    if judge is None or recipe_differences(claim, recipes.get(getattr(claim, "benchmark", ""), {}), ""):
        return None
    found = judge.ask(_Compiled([made], recipes, claims.variants))
    return found if isinstance(found, Assessment) else None


def _without_title(made: CompiledTarget, found: str) -> str:
    """Return what was found without the name of the target, which stands above it."""
    return found.removeprefix(f"{made.title}: ")
