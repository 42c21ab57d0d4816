"""Statistics and claims to verdicts, where this machine and this study can give one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pipeline.claims.claim import Assessment, DefinitionClaim, EvidenceKind, Judge, NotTestable, UntestedClaim, Verdict
from pipeline.claims.evidence import Evidence, read_evidence
from pipeline.claims.guards import deciding_study, lacking_runs, other_hardware, other_recipe
from pipeline.claims.schema import Claim, Claims, load_claims
from pipeline.files.untrusted import Untrusted

NO_RULE = "No rule: nothing measured here decides it."


class Judgement(Untrusted):
    """A claim's verdict, in `verdicts.json`.

    `evidence` is the kind that the verdict rests on, None where there is none. `rule` is what decides, and
    `would_change` what would give another verdict.
    """

    id: str
    source: str
    said_by: Literal["source", "us"]
    verdict: Verdict
    evidence: EvidenceKind | None
    reason: str
    published: str
    measured: str | None
    rule: str
    would_change: str


def judge_results(root: Path = Path()) -> list[Judgement]:
    """Return a verdict for each claim under `root`, by the results that lie there.

    Raises:
        InputError: a file is missing, damaged, or of another study.
    """
    return judge_claims(load_claims(root / "claims.yaml"), read_evidence(root))


def verdicts_text(judgements: Sequence[Judgement]) -> str:
    """Return the text of `verdicts.json`."""
    return json.dumps([judgement.model_dump() for judgement in judgements], indent=2, ensure_ascii=False) + "\n"


def judge_claims(claims: Claims, evidence: Evidence) -> list[Judgement]:
    """Return a verdict for each claim, in the order of the claims."""
    return [_judge(claim, evidence._replace(variants=claims.variants)) for claim in claims.claims]


def _judge(claim: Claim, evidence: Evidence) -> Judgement:
    if isinstance(claim, DefinitionClaim):
        follows = "Nothing: it follows from definitions, and is not counted."
        return _judgement(claim, Assessment("definition", claim.because, None), NO_RULE, follows)
    if isinstance(claim, UntestedClaim):
        untested = Assessment("not testable here", claim.reason, None)
        return _judgement(claim, untested, NO_RULE, claim.testable_by)
    answers = [_ask(kind, judge, claim, evidence) for kind, judge in claim.judges.items()]
    # Where nothing decides, what was measured is shown all the same, and all that would decide.
    remedies = " ".join(dict.fromkeys(answer.would_change for answer in answers))
    undecided = answers[0].model_copy(update={"would_change": remedies})
    return next((answer for answer in answers if answer.evidence), undecided)


def _ask(kind: EvidenceKind, judge: Judge, claim: Claim, evidence: Evidence) -> Judgement:
    """Ask the guards, then the judge. Where a guard bars the verdict, what was measured is told all the same."""
    rule = judge.rule.sentences()
    hardware, recipe = other_hardware(kind, claim, evidence), other_recipe(kind, claim, evidence)
    found = lacking_runs(kind, claim, evidence) or judge.ask(evidence)
    lacking, measured = (found, None) if isinstance(found, NotTestable) else (None, found.measured)
    barriers = [barrier for barrier in (hardware, lacking, recipe) if barrier]
    if isinstance(found, Assessment) and not barriers:
        return _judgement(claim, found, rule, judge.would_change(found.verdict), kind)
    by_study = kind == "measured"
    remedy = deciding_study(claim, evidence, lacking, recipe) if by_study else barriers[0].remedy
    return _judgement(claim, Assessment(barriers[0].verdict, barriers[0].reason, measured), rule, remedy)


def _judgement(
    claim: Claim, found: Assessment, rule: str, would_change: str, evidence: EvidenceKind | None = None
) -> Judgement:
    said = claim.model_dump(include={"id", "source", "said_by", "published"})
    return Judgement(**said, **found._asdict(), evidence=evidence, rule=rule, would_change=would_change)
