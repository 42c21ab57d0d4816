"""Read and validate the claims in claims.yaml."""

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from pipeline.claims.claim import DEFAULT
from pipeline.claims.kinds import Claim
from pipeline.files.places import CLAIMS
from pipeline.numerics.facts import TRIALS, fact_names, sample_names
from pipeline.study.benchmark import OWN_MODELS, Benchmark, LearningRateRule, Optimizer, Split
from pipeline.study.configuration import Name, Section, read
from pipeline.study.variant import Variant


class Source(Section):
    title: str
    hardware: str


class Claims(Section):
    """Hold the claims of sources, and `findings`: experiments of our own.

    `benchmarks` describes in words the benchmarks that claims and findings name. `variants` defines the variants that
    claims and findings name. A study can test a claim only if it defines the claim's variants in the same way.
    """

    sources: dict[str, Source]
    benchmarks: dict[Name, str]
    variants: dict[Name, Variant]
    claims: list[Claim]
    findings: list[Claim] = Field(default_factory=list)

    @property
    def all(self) -> list[Claim]:
        return [*self.claims, *self.findings]

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        known: dict[str, Collection[str]] = {
            "source": self.sources,
            "benchmark": self.benchmarks,
            "candidate": self.variants,
            "baseline": {*self.variants, DEFAULT},
            "quantities": fact_names(self.benchmarks),
            "trial": [trial.name for trial in TRIALS],
            "sample": sample_names(self.benchmarks) | fact_names(self.benchmarks),
            "recipe": _recipe_paths(),
        }
        counts = Counter(claim.id for claim in self.all)
        faults = [f"claims: the id {name!r} is given {count} times." for name, count in counts.items() if count > 1]
        for claim in self.all:
            values = dict(claim) | {"recipe": claim.needs.recipe}
            faults += [
                f"{claim.id}.{field}: {name!r} is unknown. "
                f"Did you mean {difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]!r}?"
                for field, names in known.items()
                for name in _names(values.get(field))
                if name not in names
            ]
        if faults:
            raise ValueError("\n".join(faults))
        return self


def _names(value: str | Mapping[str, Any] | None) -> Iterable[str]:
    return [value] if isinstance(value, str) else value or ()


def _recipe_paths() -> set[str]:
    """Return the key paths of a benchmark's settings that a claim's `recipe` may use, such as `optimizer.name`."""
    parts: dict[str, type[Section]] = {"split": Split, "optimizer": Optimizer, "learning_rate_rule": LearningRateRule}
    models = {f"model.{name}" for kind in OWN_MODELS.values() for name in kind.model_fields}
    inner = {f"{part}.{name}" for part, section in parts.items() for name in section.model_fields}
    return set(Benchmark.model_fields) | models | inner


def load_claims(path: Path = CLAIMS) -> Claims:
    """Return the claims in the file at `path`.

    Raises:
        InputError: the file is missing or not valid. The message lists all faults.
    """
    return read(Claims, path)
