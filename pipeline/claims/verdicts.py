"""Read the results of a study, and give every claim a verdict, such as "not testable here" on other hardware."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pipeline.claims.claim import (
    ANSWERS,
    DEFAULT,
    TF32,
    Evidence,
    Judgement,
    NotTestableError,
    PairClaim,
    Verdict,
    study_lacks,
)
from pipeline.claims.claims_file import Claims, load_claims
from pipeline.claims.kinds import Claim, UntestedClaim
from pipeline.comparison.tables import read_tables
from pipeline.errors import InputError
from pipeline.files.places import NUMERICS, VERDICTS
from pipeline.files.untrusted import Untrusted, read_json
from pipeline.machine.hardware import hardware_of
from pipeline.machine.left_out import study_as_made
from pipeline.numerics.facts import is_measured
from pipeline.records.numerics import Numerics
from pipeline.study.schema import Study
from pipeline.words.sentences import Said

REMEDY = "Make it with: dvc repro numerics"


class Verdicts(Untrusted):
    """Hold the content of `verdicts.json`: judgements of claims, then of findings, in the order of `claims.yaml`."""

    schema_version: Literal[4] = 4
    judgements: list[Judgement]


def judge_results(root: Path = Path()) -> None:
    """Judge each claim and finding of `claims.yaml` by the results under `root`, and write `verdicts.json`.

    Raises:
        InputError: `claims.yaml`, `params.yaml` or a table of results is missing; or a file is damaged or belongs to
            another study.
    """
    verdicts = Verdicts(judgements=judge_claims(load_claims(root / "claims.yaml"), read_evidence(root)))
    (root / VERDICTS).write_text(verdicts.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_verdicts(root: Path = Path()) -> list[Judgement]:
    """Return the verdicts in `verdicts.json` under `root`. Raise `InputError` if the file is missing or damaged."""
    return read_json(Verdicts, root / VERDICTS, "Make it with: dvc repro judge").judgements


def read_evidence(root: Path = Path()) -> Evidence:
    """Return the results under `root` as evidence, with `variants` left empty.

    Measured values of the numerics are left out if the numerics were made on a kind of hardware that neither runs nor
    speed measurements used.

    Raises:
        InputError: `params.yaml` or a table of results is missing; or a file is damaged or belongs to another study.
    """
    study = study_as_made(root)
    tables, numerics = read_tables(study, root), read_numerics(study, root)
    made_on = numerics and numerics["environment"]
    if numerics and made_on and hardware_of(made_on).kind not in {each.kind for each in tables.hardware()}:
        numerics = without_measured(numerics)
    return Evidence(study, tables, numerics)


def read_numerics(study: Study, root: Path = Path()) -> dict[str, Any] | None:
    """Return the content of results/numerics.json under `root`, or None if there is no such file.

    Raises:
        InputError: the file is damaged, or belongs to a study other than `study`.
    """
    path = root / NUMERICS
    if not path.exists():
        return None
    numerics = read_json(Numerics, path, REMEDY)
    recipes = {name: study.benchmarks[name].recipe for name in study.numerics_on or study.benchmarks}
    if numerics.identity and {name: of["recipe"] for name, of in numerics.identity["benchmarks"].items()} != recipes:
        raise InputError(f"{path} belongs to a different study from the one in params.yaml. {REMEDY}")
    return numerics.model_dump()


def without_measured(numerics: Mapping[str, Any]) -> dict[str, Any]:
    """Return `numerics` without the values that were measured on a device."""
    facts = {name: value for name, value in numerics["facts"].items() if not is_measured(name)}
    return {**numerics, "facts": facts, "samples": {}, "gradients": {}, "trials": []}


def judge_claims(claims: Claims, evidence: Evidence) -> list[Judgement]:
    """Return the judgements of all claims, with verdicts, then those of all findings, with answers.

    The order is that of claims.yaml.
    """
    evidence = evidence._replace(variants=claims.variants)
    verdicts = [_judge(claim, evidence) for claim in claims.claims]
    findings = [_judge(claim, evidence) for claim in claims.findings]
    answers = [each.model_copy(update={"is_finding": True, "verdict": ANSWERS[each.verdict]}) for each in findings]
    return verdicts + answers


def _judge(claim: Claim, evidence: Evidence) -> Judgement:
    """Judge a claim, and check that the study has the hardware and the recipe of the claim.

    If the hardware or the recipe differs, the study does not decide the claim, but the judgement still reports the
    measured values. A counted claim (`is_counted`) depends on neither hardware nor recipe.
    """
    if isinstance(claim, UntestedClaim):
        return claim.judge(evidence)
    lack: NotTestableError | None = None
    try:
        judgement = claim.judge(evidence)
    except NotTestableError as error:
        lack, judgement = error, claim.judgement("not testable here", error.reason)
    if claim.is_counted:
        known = {"would_change": lack.remedy} if lack else {"would_change": None, "evidence": "counted"}
        return judgement.model_copy(update=known)
    benchmark = getattr(claim, "benchmark", "")
    differences = {}
    if benchmark in evidence.study.benchmarks:
        differences = recipe_differences(claim, evidence.study.benchmarks[benchmark].model_dump())
    is_elsewhere = not all(map(claim.needs.fits, evidence.tables.hardware()))
    if not (is_elsewhere or lack or differences):
        would_change = judgement.would_change if judgement.verdict == "inconclusive" else None
        return judgement.model_copy(update={"evidence": "measured", "would_change": would_change})
    remedy = _deciding_study(claim, evidence, is_elsewhere, lack.remedy if lack else None, differences)
    if is_elsewhere:
        reason = Said("lack.hardware", claim.needs.limits)
    else:
        reason = lack.reason if lack else Said("lack.recipe", {"differences": differences})
    verdict: Verdict = "not testable here" if is_elsewhere or lack else "not this recipe"
    return claim.judgement(verdict, reason, judgement.measured, remedy)


def recipe_differences(claim: Claim, recipe: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the settings in which `recipe` differs from the claim's recipe, by key path.

    Each setting is a list of two values: the value in `recipe`, then the claim's value.
    """
    pairs = {path: [_at(recipe, path), theirs] for path, theirs in claim.needs.recipe.items()}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def _at(recipe: Any, path: str) -> Any:
    """Return the value at a key path such as `optimizer.name`, or None if the recipe has no such key."""
    for part in path.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe


def _deciding_study(
    claim: Claim, evidence: Evidence, is_elsewhere: bool, remedy: Said | None, differences: Mapping[str, Any]
) -> Said:
    """Return a sentence on the study that would decide the claim.

    The sentence names a profile, a study with the claim's recipe, an addition to this study, or other hardware.

    Args:
        is_elsewhere: the claim is about other hardware than the study's.
        remedy: the sentence on the addition that this study needs, or None if nothing is missing.
        differences: the settings in which the study's recipe differs from the claim's recipe.
    """
    if is_elsewhere and not remedy and isinstance(claim, PairClaim) and claim.baseline == DEFAULT:
        names = {"benchmark": claim.benchmark, "variant": TF32}
        remedy = Said("remedy.variant", names) if study_lacks(evidence.study, *names.values()) else None
    if (remedy or differences) and claim.needs.profile:
        meant = evidence.variants.get(getattr(claim, "candidate", ""))
        # Only TensorFlow has a choice: JAX always compiles with XLA.
        by_xla = {"profile": claim.needs.profile, "xla": bool(meant and meant.xla)}
        return Said("remedy.profile", claim.needs.limits | by_xla)
    needed = claim.needs.limits | {"is_elsewhere": is_elsewhere}
    if differences:
        return Said("remedy.recipe", needed)
    return Said(remedy.code, {**remedy.numbers, **needed}) if remedy else Said("remedy.hardware", needed)
