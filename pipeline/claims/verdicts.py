"""Statistics and claims to verdicts, where this machine and this study can give one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.claims.evidence import Assessment, Evidence, NotTestableError
from pipeline.claims.judges import JUDGES
from pipeline.claims.result_files import Judgement
from pipeline.claims.results import read_ceilings, read_comparison, read_environments, read_numerics
from pipeline.claims.schema import Claim, Claims, load_claims
from pipeline.comparison.vocabulary import describe_setting
from pipeline.machine.hardware import hardware_of
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
    lack = None if claim.kind == "untested" else _lack(claim, evidence)
    try:
        assessment = JUDGES[claim.kind](claim, claims, evidence)
    except NotTestableError as error:
        assessment = Assessment("not testable here", str(error), None)
    if lack:  # what was measured is shown all the same
        assessment = assessment._replace(verdict="not testable here", reason=lack)
    return Judgement(id=claim.id, source=claim.source, published=claim.published, **assessment._asdict())


def _lack(claim: Claim, evidence: Evidence) -> str | None:
    """Say what the claim is about and this machine or this study is not."""
    needs, hardware = claim.needs, evidence.hardware
    names = {"cpu": "a CPU", "nvidia_gpu": "an NVIDIA GPU", "tpu": "a TPU", "intel_gpu": "an Intel GPU"}
    if needs.hardware != "anything":
        wanted, here = names[needs.hardware], hardware.kind == needs.hardware
        capability, memory = hardware.compute_capability or 0, hardware.memory_bytes
        if needs.min_compute_capability:
            wanted += f" of compute capability ≥ {needs.min_compute_capability:.1f}"
            here = here and capability >= needs.min_compute_capability
        if needs.max_compute_capability:
            wanted += f" of compute capability ≤ {needs.max_compute_capability:.1f}"
            here = here and 0 < capability <= needs.max_compute_capability
        if needs.max_memory_gb:
            wanted += f" with at most {needs.max_memory_gb:.0f} GB"
            here = here and memory is not None and memory <= needs.max_memory_gb * 1e9
        if needs.name:
            wanted += f", a {needs.name}: times are those of one device, the ratio is judged instead"
            here = here and needs.name.lower() in hardware.name.lower()
        if not here:
            return f"needs {wanted}"
    benchmark = evidence.study.benchmarks.get(getattr(claim, "benchmark", ""))
    if benchmark:
        recipe = benchmark.model_dump()
        pairs = [(path, _at(recipe, path), theirs) for path, theirs in needs.recipe.items()]
        return "; ".join(describe_setting(*pair) for pair in pairs if pair[1] != pair[2]) or None
    return None


def _at(recipe: Any, path: str) -> Any:
    """Return the value at a key path; None where the recipe has no such key."""
    for part in path.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe
