"""Published claims as data."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from pipeline.configuration import Section, read
from pipeline.study import Name

CLAIMS = Path("claims.yaml")


class Source(Section):
    title: str
    hardware: str


class Figure(Section):
    """A number a source published for one of our benchmarks, shown beside ours."""

    source: str
    benchmark: Name
    condition: str
    quantity: str
    value: str


class Claim(Section):
    """What a source says, in a form that can be judged.

    `faster` and `slower` compare training time of `candidate` and the baseline; `threshold` is the speedup claimed.
    `same_accuracy` asks whether their test accuracies are equivalent. `needs` names the hardware it is claimed for.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    source: str
    statement: str
    kind: Literal["faster", "slower", "same_accuracy"]
    benchmark: Name
    candidate: Name
    threshold: Annotated[float, Field(ge=1)] | None = None
    published: str
    needs: Literal["anything", "cpu", "nvidia_gpu", "tpu", "intel_gpu"]
    min_compute_capability: PositiveFloat | None = None


class Claims(Section):
    sources: dict[str, Source]
    figures: list[Figure]
    claims: list[Claim]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        faults = []
        ids = [claim.id for claim in self.claims]
        for index, claim in enumerate(self.claims):
            if ids.index(claim.id) != index:
                faults.append(f"claims.{index}.id: {claim.id!r} stands twice.")
            if claim.kind == "faster" and claim.threshold is None:
                faults.append(f"claims.{index}.threshold: missing; a claim of kind 'faster' says by how much.")
        named = [(f"claims.{index}", claim.source) for index, claim in enumerate(self.claims)]
        named += [(f"figures.{index}", figure.source) for index, figure in enumerate(self.figures)]
        faults += [
            f"{where}.source: must be one of {', '.join(self.sources)}. Received: {source!r}"
            for where, source in named
            if source not in self.sources
        ]
        if faults:
            raise ValueError("\n".join(faults))
        return self


def load_claims(path: Path = CLAIMS) -> Claims:
    """The validated claims in `path`. Raises `InputError` that lists all faults."""
    return read(Claims, path)
