"""Statistics and claims to verdicts, where this machine and this study can give one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.claims.compiled_judges import read_compiled_evidence
from pipeline.claims.evidence import DEFAULTS, Assessment, Evidence, NotTestableError, lacking_hardware
from pipeline.claims.judges import JUDGES
from pipeline.claims.kinds import DEFAULT, Claim
from pipeline.claims.result_files import EvidenceKind, Judgement
from pipeline.claims.results import read_ceilings, read_comparison, read_environments, read_numerics
from pipeline.claims.rules import PROFILE_COMMANDS, rule, would_change
from pipeline.claims.schema import Claims, load_claims
from pipeline.comparison.vocabulary import describe_setting
from pipeline.machine.hardware import hardware_of
from pipeline.study.schema import load_study


def judge_results(root: Path = Path()) -> list[Judgement]:
    """Return a verdict for each claim under `root`, by the results that lie there.

    Raises:
        InputError: a file is missing, damaged, or of another study.
    """
    study = load_study(root / "params.yaml")
    compiled, recipes = read_compiled_evidence(root)
    evidence = Evidence(
        study=study,
        comparison=read_comparison(root),
        numerics=read_numerics(study, root),
        ceilings=read_ceilings(root),
        hardware=hardware_of(read_environments(root)),
        compiled=compiled,
        recipes=recipes,
    )
    return judge_claims(load_claims(root / "claims.yaml"), evidence)


def verdicts_text(judgements: Sequence[Judgement]) -> str:
    """Return the text of `verdicts.json`."""
    return json.dumps([judgement.model_dump() for judgement in judgements], indent=2, ensure_ascii=False) + "\n"


def judge_claims(claims: Claims, evidence: Evidence) -> list[Judgement]:
    """Return a verdict for each claim, in the order of the claims."""
    return [_judge(claim, claims, evidence) for claim in claims.claims]


def _judge(claim: Claim, claims: Claims, evidence: Evidence) -> Judgement:
    answers = [_ask(kind, claim, claims, evidence) for kind, judges in JUDGES.items() if claim.kind in judges]
    if claim.kind == "definition":
        answers.append(_Answer(Assessment("definition", claim.because, None), None, ""))
    elif claim.kind == "untested":
        answers.append(_Answer(Assessment("not testable here", claim.reason, None), None, claim.testable_by))
    # Where nothing decides, what was measured is shown all the same, and all that would decide.
    undecided = answers[0]._replace(testable_by=" ".join(dict.fromkeys(answer.testable_by for answer in answers)))
    answer = next((answer for answer in answers if answer.evidence), undecided)
    return Judgement(
        id=claim.id,
        source=claim.source,
        said_by=claim.said_by,
        evidence=answer.evidence,
        published=claim.published,
        rule=rule(claim, answer.evidence),
        would_change=answer.testable_by or would_change(claim, answer.assessment.verdict, answer.evidence),
        **answer.assessment._asdict(),
    )


class _Answer(NamedTuple):
    """An assessment and the kind of evidence it rests on: None where that decides nothing, and what would."""

    assessment: Assessment
    evidence: EvidenceKind | None
    testable_by: str


_BY_RECIPE = {
    "measured": "A study in which what the reason names is as in the source.",
    "compiled": "The recipe of the source, compiled: make compiled.",
}
_HARDWARE = {"cpu": "a CPU", "nvidia_gpu": "an NVIDIA GPU", "tpu": "a TPU"}
_MADE_FOR = {"quick": "any machine", "evening": "two CPU cores", "paper": "an NVIDIA GPU", "tpu": "a TPU"}


def _ask(kind: EvidenceKind, claim: Claim, claims: Claims, evidence: Evidence) -> _Answer:
    """Judge by evidence of one kind.

    What was measured counts on the claim's hardware alone, and what was measured or compiled by its recipe alone.
    """
    testable_by = ""
    try:
        assessment = JUDGES[kind][claim.kind](claim, claims, evidence)
    except NotTestableError as error:
        assessment, testable_by = Assessment("not testable here", str(error), None), error.testable_by
    other = _other_recipe(kind, claim, evidence)
    if kind == "measured" and (wanted := lacking_hardware(claim.needs, evidence.hardware)):
        assessment = assessment._replace(verdict="not testable here", reason=f"needs {wanted}")
        lacking = testable_by or _lacking_baseline(claim, evidence)
        testable_by = _decided_by(claim, wanted, _by_recipe(lacking, other))
    elif other and not testable_by:
        assessment = assessment._replace(verdict="not this recipe", reason=other)
        testable_by = _decided_by(claim, "", _BY_RECIPE[kind]) if kind == "measured" else _BY_RECIPE[kind]
    elif kind == "measured" and testable_by:
        testable_by = _decided_by(claim, "", _by_recipe(testable_by, other))
    return _Answer(assessment, None if testable_by else kind, testable_by)


def _by_recipe(lacking: str, other: str) -> str:
    """Say which study has what is lacking here, by the recipe of the source."""
    if lacking and other:
        return f"{lacking} Its recipe must be the source's: {other}."
    return lacking or (_BY_RECIPE["measured"] if other else "")


def _lacking_baseline(claim: Claim, evidence: Evidence) -> str:
    """Say which baseline this study lacks on the hardware of a claim about what is the default there."""
    needs = claim.needs
    if getattr(claim, "baseline", None) != DEFAULT or needs.hardware not in DEFAULTS:
        return ""
    name, benchmark = DEFAULTS[needs.hardware], getattr(claim, "benchmark", "")
    runs = benchmark in evidence.study.benchmarks and name in evidence.study.variants_of(benchmark)
    return "" if runs else f"A study that runs {name} on {benchmark}."


def _decided_by(claim: Claim, wanted: str, lacking: str) -> str:
    """Say which study decides: this one on the hardware that is wanted, or another where this one lacks more."""
    profile = claim.needs.profile
    if lacking and profile:
        device = wanted or _HARDWARE.get(claim.needs.hardware, _MADE_FOR[profile])
        return f"The profile {profile} on {device}: {PROFILE_COMMANDS[profile]}."
    if not wanted:
        return lacking
    return f"{lacking} It must run on {wanted}." if lacking else f"The same study on {wanted}."


def _other_recipe(kind: EvidenceKind, claim: Claim, evidence: Evidence) -> str:
    """Say in what the recipe of the evidence differs from that of the claim; empty where it does not."""
    name, where = getattr(claim, "benchmark", ""), "in this study"
    recipes: Mapping[str, Any] = {}
    if kind == "measured":
        recipes = {key: benchmark.model_dump() for key, benchmark in evidence.study.benchmarks.items()}
    elif kind == "compiled":
        recipes, where = evidence.recipes, "in what was compiled"
    return other_recipe(claim, recipes[name], where) if name in recipes else ""


def other_recipe(claim: Claim, recipe: Mapping[str, Any], where: str) -> str:
    """Say in what `recipe` differs from that of the claim; empty where it does not."""
    pairs = [(path, _at(recipe, path), theirs) for path, theirs in claim.needs.recipe.items()]
    return "; ".join(describe_setting(*pair, where) for pair in pairs if pair[1] != pair[2])


def _at(recipe: Any, path: str) -> Any:
    """Return the value at a key path; None where the recipe has no such key."""
    for part in path.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe
