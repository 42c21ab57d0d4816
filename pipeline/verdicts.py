"""Statistics + claims → verdicts: what a claim is about, and whether this machine and this study can say."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline.claims import Claim, Claims
from pipeline.judges import JUDGES, Evidence, Finding, NotTestableError, Verdict


class Judgement(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    source: str
    verdict: Verdict
    reason: str
    published: str
    measured: str | None


def judge(claims: Claims, evidence: Evidence) -> list[Judgement]:
    """A verdict for each claim, in the order of the claims."""
    return [_judge(claim, claims, evidence) for claim in claims.claims]


def _judge(claim: Claim, claims: Claims, evidence: Evidence) -> Judgement:
    lack = None if claim.kind == "untested" else _lack(claim, evidence)
    try:
        finding = JUDGES[claim.kind](claim, claims, evidence)
    except NotTestableError as error:
        finding = Finding("not testable here", str(error), None)
    if lack:  # what was measured is shown all the same
        finding = finding._replace(verdict="not testable here", reason=lack)
    return Judgement(id=claim.id, source=claim.source, published=claim.published, **finding._asdict())


def _lack(claim: Claim, evidence: Evidence) -> str | None:
    """What the claim is about and this machine or this study is not."""
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
        for path, value in needs.recipe.items():
            ours: Any = recipe
            for part in path.split("."):
                ours = ours.get(part) if isinstance(ours, dict) else None
            if ours != value:
                return f"{path} is {ours} in this study, {value} in the source"
    return None
