"""Statistics and claims to verdicts, where this machine and this study can give one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pipeline.claims.claim import (
    ANSWERS,
    DEFAULT,
    DEFAULTS,
    HARDWARE,
    Answer,
    Assessment,
    EvidenceKind,
    NotTestableError,
    PairClaim,
    UntestedClaim,
    Verdict,
    profile_command,
    study_to_run,
)
from pipeline.claims.evidence import Evidence, read_evidence
from pipeline.claims.schema import Claim, Claims, load_claims
from pipeline.claims.wording import describe_setting
from pipeline.files.untrusted import Untrusted

_MADE_FOR = {
    "quick": "any machine",
    "evening": "two CPU cores",
    "float8": "two CPU cores",
    "resnet9": "two CPU cores",
    "paper": "an NVIDIA GPU",
}


class Judgement(Untrusted):
    """The verdict on a source's claim, or the answer that an experiment of ours found.

    `asked` is what was measured or counted for it, `threshold` the result by which it holds; both are empty where
    nothing here can test it. `evidence` is the kind that the verdict rests on, None where there is none. `would_change`
    is what would decide where nothing did.
    """

    id: str
    source: str
    is_finding: bool
    asked: str
    threshold: str
    verdict: Verdict | Answer
    evidence: EvidenceKind | None
    reason: str
    measured: str | None
    would_change: str | None


class Verdicts(Untrusted):
    """The contents of `verdicts.json`: claims first, then findings, in the order of `claims.yaml`."""

    schema_version: Literal[2] = 2
    judgements: list[Judgement]


def judge_results(root: Path = Path()) -> list[Judgement]:
    """Return a verdict for each claim and finding under `root`, by the results that lie there.

    Raises:
        InputError: a file is missing, damaged, or of another study.
    """
    return judge_claims(load_claims(root / "claims.yaml"), read_evidence(root))


def verdicts_text(judgements: Sequence[Judgement]) -> str:
    """Return the text of `verdicts.json`."""
    found = Verdicts(judgements=list(judgements))
    return json.dumps(found.model_dump(), indent=2, ensure_ascii=False) + "\n"


def judge_claims(claims: Claims, evidence: Evidence) -> list[Judgement]:
    """Return a verdict for each claim, then an answer for each finding, in their order."""
    evidence = evidence._replace(variants=claims.variants)
    judgements = []
    for claim in claims.all:
        (asked, threshold), found = claim.asked, _judge(claim, evidence)._asdict()
        about: dict[str, Any] = {"id": claim.id, "source": claim.source, "asked": asked, "threshold": threshold}
        if is_finding := claim in claims.findings:
            found["verdict"] = ANSWERS[found["verdict"]]
        judgements.append(Judgement(is_finding=is_finding, **about, **found))
    return judgements


def _judge(claim: Claim, evidence: Evidence) -> Assessment:
    """Ask the claim's judge. Other hardware, of one run or all, and another recipe bar its verdict.

    What was measured is told all the same. What is counted needs no hardware and has no recipe.
    """
    if isinstance(claim, UntestedClaim):
        return Assessment("not testable here", claim.reason, would_change=claim.testable_by)
    is_measured = claim.evidence == "measured"
    machines = (evidence.hardware, *evidence.elsewhere) if is_measured else ()
    wanted = next(filter(None, map(claim.needs.lacking, machines)), "")
    benchmark, differences, lacking, remedy = getattr(claim, "benchmark", ""), "", "", ""
    if is_measured and benchmark in evidence.study.benchmarks:
        differences = recipe_differences(claim, evidence.study.benchmarks[benchmark].model_dump())
    try:
        found = claim.judge(evidence)
    except NotTestableError as error:
        lacking, remedy = error.args
        found = Assessment("not testable here", lacking)
    if not (wanted or lacking or differences):
        more = (found.would_change or claim.more) if found.verdict == "inconclusive" else None
        return found._replace(evidence=claim.evidence, would_change=more)
    if is_measured:
        remedy = _deciding_study(claim, evidence, wanted, remedy, differences)
    if wanted or lacking:
        reason = f"needs {wanted}" if wanted else lacking
        return Assessment("not testable here", reason, found.measured, would_change=remedy)
    return Assessment("not this recipe", differences, found.measured, would_change=remedy)


def recipe_differences(claim: Claim, recipe: Mapping[str, Any]) -> str:
    """Say in what the `recipe` of this study differs from that of the claim; empty where it does not."""
    pairs = [(path, _at(recipe, path), theirs) for path, theirs in claim.needs.recipe.items()]
    return "; ".join(describe_setting(*pair) for pair in pairs if pair[1] != pair[2])


def _at(recipe: Any, path: str) -> Any:
    """Return the value at a key path; None where the recipe has no such key."""
    for part in path.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe


def _deciding_study(claim: Claim, evidence: Evidence, wanted: str, remedy: str, differences: str) -> str:
    """Say which study decides: this one on other hardware, a profile, or another where this one lacks more.

    Args:
        wanted: the hardware, where this is another.
        remedy: what this study lacks, and so the judge too.
        differences: those of the recipe.
    """
    default = DEFAULTS.get(claim.needs.hardware)
    if wanted and not remedy and default and isinstance(claim, PairClaim) and claim.baseline == DEFAULT:
        remedy = study_to_run(evidence.study, claim.benchmark, default)
    if differences:
        other = f"{remedy} Its recipe must be the source's: {differences}."
        remedy = other if remedy else "A study with the source's settings."
    if remedy and (profile := claim.needs.profile):
        device = wanted or HARDWARE.get(claim.needs.hardware, _MADE_FOR[profile])
        meant = evidence.variants.get(getattr(claim, "candidate", ""))
        return f"The profile {profile} on {device}: {profile_command(profile, bool(meant and meant.xla))}."
    if wanted:
        return f"{remedy} It must run on {wanted}." if remedy else f"The same study on {wanted}."
    return remedy
