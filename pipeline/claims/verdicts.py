"""Statistics and claims to verdicts, where this machine and this study can give one."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.claims.evidence import Assessment, Evidence, NotTestableError
from pipeline.claims.judges import JUDGES
from pipeline.claims.kinds import Claim, Needs
from pipeline.claims.result_files import EvidenceKind, Judgement
from pipeline.claims.results import read_ceilings, read_comparison, read_environments, read_numerics
from pipeline.claims.rules import rule, would_change
from pipeline.claims.schema import Claims, load_claims
from pipeline.comparison.vocabulary import describe_setting, listed
from pipeline.machine.hardware import Hardware, hardware_of
from pipeline.study.schema import load_study


def judge_results(root: Path = Path()) -> list[Judgement]:
    """Return a verdict for each claim under `root`, by the results that lie there.

    Raises:
        InputError: a file is missing, damaged, or of another study.
    """
    study = load_study(root / "params.yaml")
    evidence = Evidence(
        study=study,
        comparison=read_comparison(root),
        numerics=read_numerics(study, root),
        ceilings=read_ceilings(root),
        hardware=hardware_of(read_environments(root)),
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
    # Where nothing decides, what was measured is shown all the same.
    answer = next((answer for answer in answers if answer.evidence), answers[0])
    return Judgement(
        id=claim.id,
        source=claim.source,
        said_by=claim.said_by,
        evidence=answer.evidence,
        published=claim.published,
        rule=rule(claim),
        would_change=answer.testable_by or would_change(claim, answer.assessment.verdict),
        **answer.assessment._asdict(),
    )


class _Answer(NamedTuple):
    """An assessment and the kind of evidence it rests on: None where that decides nothing, and what would."""

    assessment: Assessment
    evidence: EvidenceKind | None
    testable_by: str


def _ask(kind: EvidenceKind, claim: Claim, claims: Claims, evidence: Evidence) -> _Answer:
    """Judge by evidence of one kind. What was measured counts on the claim's hardware and by its recipe alone."""
    testable_by = ""
    try:
        assessment = JUDGES[kind][claim.kind](claim, claims, evidence)
    except NotTestableError as error:
        assessment, testable_by = Assessment("not testable here", str(error), None), error.testable_by
    if kind == "measured" and (wanted := lacking_hardware(claim.needs, evidence.hardware)):
        assessment = assessment._replace(verdict="not testable here", reason=f"needs {wanted}")
        testable_by = f"The same study on {wanted}."
    elif kind == "measured" and not testable_by and (other := _other_recipe(claim, evidence)):
        assessment = assessment._replace(verdict="not this recipe", reason=other)
        testable_by = "A study by the recipe of the source: the profile paper, or tpu, with what is named here."
    return _Answer(assessment, None if testable_by else kind, testable_by)


def lacking_hardware(needs: Needs, hardware: Hardware) -> str:
    """Name the hardware that a claim is about where this is none; empty where it is."""
    if needs.hardware == "anything":
        return ""
    names = {"cpu": "a CPU", "nvidia_gpu": "an NVIDIA GPU", "tpu": "a TPU", "intel_gpu": "an Intel GPU"}
    wanted, here = names[needs.hardware], hardware.kind == needs.hardware
    capability, memory = hardware.compute_capability or 0, hardware.memory_bytes
    if needs.min_compute_capability:
        wanted += f" of compute capability ≥ {needs.min_compute_capability:.1f}"
        here = here and capability >= needs.min_compute_capability
    if needs.max_compute_capability:
        wanted += f" of compute capability ≤ {needs.max_compute_capability:.1f}"
        here = here and 0 < capability <= needs.max_compute_capability
    if sizes := [
        *([f"at least {needs.min_memory_gb:.0f} GB"] if needs.min_memory_gb else []),
        *([f"at most {needs.max_memory_gb:.0f} GB"] if needs.max_memory_gb else []),
    ]:
        wanted += f" with {listed(sizes)}"
        limits = (needs.min_memory_gb or 0.0) * 1e9, (needs.max_memory_gb or math.inf) * 1e9
        here = here and memory is not None and limits[0] <= memory <= limits[1]
    if needs.name:
        wanted += f", a {needs.name}"
        here = here and needs.name.lower() in hardware.name.lower()
    return "" if here else wanted


def _other_recipe(claim: Claim, evidence: Evidence) -> str:
    """Say in what the study's recipe differs from that of the claim; empty where it does not."""
    benchmark = evidence.study.benchmarks.get(getattr(claim, "benchmark", ""))
    if not benchmark:
        return ""
    recipe = benchmark.model_dump()
    pairs = [(path, _at(recipe, path), theirs) for path, theirs in claim.needs.recipe.items()]
    return "; ".join(describe_setting(*pair) for pair in pairs if pair[1] != pair[2])


def _at(recipe: Any, path: str) -> Any:
    """Return the value at a key path; None where the recipe has no such key."""
    for part in path.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe
