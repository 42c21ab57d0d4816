"""Statistics and claims to verdicts, where this machine and this study can give one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pipeline.claims.claim import (
    ANSWERS,
    Answer,
    Assessment,
    EvidenceKind,
    Judge,
    NotTestable,
    UntestedClaim,
    Verdict,
)
from pipeline.claims.evidence import Evidence, read_evidence
from pipeline.claims.guards import deciding_study, lacking_runs, other_hardware, other_recipe
from pipeline.claims.schema import Claim, Claims, load_claims
from pipeline.files.untrusted import Untrusted


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
    findings = [_judge(claim, evidence) for claim in claims.findings]
    answers = [found.model_copy(update={"is_finding": True, "verdict": ANSWERS[found.verdict]}) for found in findings]
    return [_judge(claim, evidence) for claim in claims.claims] + answers


def _judge(claim: Claim, evidence: Evidence) -> Judgement:
    if isinstance(claim, UntestedClaim):
        return _judgement(claim, Assessment("not testable here", claim.reason, None), claim.testable_by)
    answers = [_ask(kind, judge, claim, evidence) for kind, judge in claim.judges.items()]
    # Where nothing decides, what was measured is shown all the same, and all that would decide.
    remedies = " ".join(dict.fromkeys(answer.would_change for answer in answers if answer.would_change))
    undecided = answers[0].model_copy(update={"would_change": remedies})
    return next((answer for answer in answers if answer.evidence), undecided)


def _ask(kind: EvidenceKind, judge: Judge, claim: Claim, evidence: Evidence) -> Judgement:
    """Ask the guards, then the judge. Where a guard bars the verdict, what was measured is told all the same."""
    hardware, recipe = other_hardware(kind, claim, evidence), other_recipe(kind, claim, evidence)
    found = lacking_runs(kind, claim, evidence) or judge.ask(evidence)
    lacking, measured = (found, None) if isinstance(found, NotTestable) else (None, found.measured)
    barriers = [barrier for barrier in (hardware, lacking, recipe) if barrier]
    if isinstance(found, Assessment) and not barriers:
        return _judgement(claim, found, judge.more if found.verdict == "inconclusive" else None, kind)
    remedy = deciding_study(claim, evidence, lacking, recipe) if kind == "measured" else barriers[0].remedy
    return _judgement(claim, Assessment(barriers[0].verdict, barriers[0].reason, measured), remedy)


def _judgement(
    claim: Claim, found: Assessment, would_change: str | None = None, evidence: EvidenceKind | None = None
) -> Judgement:
    asked, threshold = claim.asked
    return Judgement(
        id=claim.id,
        source=claim.source,
        is_finding=False,
        asked=asked,
        threshold=threshold,
        **found._asdict(),
        evidence=evidence,
        would_change=would_change,
    )
