"""Say what keeps a study from deciding a claim, before its judge is asked: hardware, variants, recipe."""

from collections.abc import Mapping
from typing import Any

from pipeline.claims.claim import (
    DEFAULT,
    DEFAULTS,
    HARDWARE,
    BaseClaim,
    EvidenceKind,
    NotTestable,
    VariantClaim,
    profile_command,
)
from pipeline.claims.evidence import Evidence
from pipeline.claims.wording import describe_setting
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

_MADE_FOR = {"quick": "any machine", "evening": "two CPU cores", "paper": "an NVIDIA GPU", "tpu": "a TPU"}


def other_hardware(kind: EvidenceKind, claim: BaseClaim, evidence: Evidence) -> NotTestable | None:
    """Check the hardware, on which alone what was measured counts. Compilers choose their targets themselves."""
    wanted = claim.needs.lacking(evidence.hardware) if kind == "measured" else ""
    return NotTestable(f"needs {wanted}", f"The same study on {wanted}.") if wanted else None


def lacking_runs(kind: EvidenceKind, claim: BaseClaim, evidence: Evidence) -> NotTestable | None:
    """Check that the study runs and compares the variants of a claim, and means the same by their names."""
    if kind != "measured" or not isinstance(claim, VariantClaim):
        return None
    study, names = evidence.study, claim.variants_in(evidence.study, evidence.hardware)
    for name in names:
        if lacking := lacking_variant(evidence.variants, study, claim.benchmark, name):
            return lacking
    baseline, *compared = names
    if compared and evidence.comparison.find(claim.benchmark, claim.candidate, baseline) is None:
        return NotTestable(
            f"the study does not compare {claim.candidate} with {baseline}",
            f"A study that names {baseline} and {claim.candidate} as a further pair.",
        )
    return None


def lacking_variant(meant: Mapping[str, Variant], study: Study, benchmark: str, name: str) -> NotTestable | None:
    """Check that the study runs variant `name` on `benchmark`, and means by it what claims have `meant`."""
    if benchmark not in study.benchmarks or name not in study.variants_of(benchmark):
        return NotTestable(f"the study does not run {name} on {benchmark}", _runs(name, benchmark))
    # JAX compiles every step with XLA: there the choice is none.
    aside = {"benchmarks", "jit_compile"} if study.engine == "jax" else {"benchmarks"}
    if name not in meant or study.variants[name].model_dump(exclude=aside) != meant[name].model_dump(exclude=aside):
        return NotTestable(
            f"by {name} this study means something else than the claim",
            f"A study whose {name} is that of the variants in the file of claims.",
        )
    return None


def other_recipe(kind: EvidenceKind, claim: BaseClaim, evidence: Evidence) -> NotTestable | None:
    """Check the recipe, by which alone what was measured or compiled counts. What is counted has none."""
    benchmark = getattr(claim, "benchmark", "")
    if kind == "measured" and benchmark in evidence.study.benchmarks:
        differences = recipe_differences(claim, evidence.study.benchmarks[benchmark].model_dump(), "in this study")
        remedy = "A study in which what the reason names is as in the source."
    elif kind == "compiled" and benchmark in evidence.recipes:
        differences = recipe_differences(claim, evidence.recipes[benchmark], "in what was compiled")
        remedy = "The recipe of the source, compiled: make compiled."
    else:
        return None
    return NotTestable(differences, remedy, "not this recipe") if differences else None


def recipe_differences(claim: BaseClaim, recipe: Mapping[str, Any], where: str) -> str:
    """Say in what `recipe` differs from that of the claim; empty where it does not."""
    pairs = [(path, _at(recipe, path), theirs) for path, theirs in claim.needs.recipe.items()]
    return "; ".join(describe_setting(*pair, where) for pair in pairs if pair[1] != pair[2])


def _at(recipe: Any, path: str) -> Any:
    """Return the value at a key path; None where the recipe has no such key."""
    for part in path.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe


def deciding_study(
    claim: BaseClaim, evidence: Evidence, lacking: NotTestable | None, recipe: NotTestable | None
) -> str:
    """Say which study decides: this one on other hardware, a profile, or another where this one lacks more."""
    wanted = claim.needs.lacking(evidence.hardware)
    remedy = lacking.remedy if lacking else _lacking_default(claim, evidence) if wanted else ""
    if recipe:
        remedy = f"{remedy} Its recipe must be the source's: {recipe.reason}." if remedy else recipe.remedy
    if remedy and (profile := claim.needs.profile):
        device = wanted or HARDWARE.get(claim.needs.hardware, _MADE_FOR[profile])
        return f"The profile {profile} on {device}: {profile_command(profile)}."
    if wanted:
        return f"{remedy} It must run on {wanted}." if remedy else f"The same study on {wanted}."
    return remedy


def _lacking_default(claim: BaseClaim, evidence: Evidence) -> str:
    """Say which baseline this study lacks on the hardware of a claim about what is the default there."""
    if getattr(claim, "baseline", None) != DEFAULT or claim.needs.hardware not in DEFAULTS:
        return ""
    name, benchmark = DEFAULTS[claim.needs.hardware], getattr(claim, "benchmark", "")
    runs = benchmark in evidence.study.benchmarks and name in evidence.study.variants_of(benchmark)
    return "" if runs else _runs(name, benchmark)


def _runs(name: str, benchmark: str) -> str:
    return f"A study that runs {name} on {benchmark}."
