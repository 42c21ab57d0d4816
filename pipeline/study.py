"""The study: every choice that decides what is run and how it is compared.

`params.yaml` is a study. Nothing here needs an engine.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from pipeline.benchmark import Benchmark
from pipeline.configuration import Campaign, Name, NonNegativeInt, Section, read
from pipeline.dataset_source import DatasetSource
from pipeline.variant import Variant

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what NumPy takes

PARAMS = Path("params.yaml")


class FurtherPair(Section):
    """Two variants to compare besides those against the baseline."""

    baseline: Name
    candidate: Name


class Comparison(Section):
    """How runs are compared: against which variant, from which epoch on, within which margin of accuracy.

    `target_accuracy` in (0, 1) asks how long training takes to reach it on the validation set. The times of a run are
    left out where other work took more than `max_other_cpu_share` of the machine's CPU time.
    """

    baseline: Name
    num_warmup_epochs: NonNegativeInt
    margin_pp: dict[Name, PositiveFloat]
    target_accuracy: dict[Name, Annotated[float, Field(gt=0, lt=1)]] = Field(default_factory=dict)
    max_other_cpu_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    further_pairs: list[FurtherPair] = Field(default_factory=list)


class RunKey(NamedTuple):
    """Names one run: one benchmark, one variant, one seed, one process."""

    benchmark: str
    variant: str
    seed: int

    @property
    def directory(self) -> Path:
        return Path("runs", self.benchmark, self.variant, f"seed-{self.seed}")

    @property
    def stage(self) -> str:
        """The name of the DVC stage that makes the run."""
        return f"train@{self.seed}-{self.benchmark}-{self.variant}"


class Study(Section):
    profile: Name
    description: str
    campaign: Campaign  # names a repetition: another name trains everything anew, the same name nothing
    engine: Literal["tensorflow", "jax"]
    runtime: Literal["cpu", "cuda", "tpu"]  # the locked packages that train: requirements/<runtime>.txt
    devices: PositiveInt  # of all processes of a run; each takes its share of every batch
    seeds: Annotated[list[Seed], Field(min_length=1)]
    datasets: Annotated[dict[Name, DatasetSource], Field(min_length=1)]
    benchmarks: Annotated[dict[Name, Benchmark], Field(min_length=1)]
    variants: Annotated[dict[Name, Variant], Field(min_length=1)]
    comparison: Comparison
    compilation_cache: bool = False  # keeps what XLA compiles from one run to the next, in .cache/xla
    tensorboard: bool = False  # keeps scalars and histograms of the weights of every epoch beside a run's record
    deviations: dict[Name, list[str]] = Field(
        default_factory=dict
    )  # what differs from the source, in words for the report, by benchmark

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        faults = []
        faults += [f"seeds: {seed!r} stands twice." for seed, count in Counter(self.seeds).items() if count > 1]
        for name, benchmark in self.benchmarks.items():
            if benchmark.dataset not in self.datasets:
                faults.append(
                    f"benchmarks.{name}.dataset: must be one of `datasets` ({', '.join(self.datasets)}). "
                    f"Received: {benchmark.dataset!r}"
                )
            for variant_name, variant in self.variants_of(name).items():
                batch_size = benchmark.batch_size * variant.batch_multiplier
                if batch_size > benchmark.split.num_train_examples:
                    faults.append(
                        f"benchmarks.{name}.batch_size: {benchmark.batch_size} × {variant.batch_multiplier} of variant "
                        f"{variant_name} is more than the {benchmark.split.num_train_examples} training examples."
                    )
            of_variants = benchmark.faults(self.engine, self.variants_of(name).values())
            faults += [f"benchmarks.{name}.{fault}" for fault in of_variants]
            if self.comparison.num_warmup_epochs >= benchmark.num_epochs:
                faults.append(
                    f"comparison.num_warmup_epochs: must leave an epoch of the {benchmark.num_epochs} of {name}. "
                    f"Received: {self.comparison.num_warmup_epochs}"
                )
            if name not in self.comparison.margin_pp:
                faults.append(f"comparison.margin_pp.{name}: missing; give the margin in percentage points.")
            if self.comparison.baseline not in self.variants_of(name):
                faults.append(
                    f"comparison.baseline: must be a variant that runs on {name} "
                    f"({', '.join(self.variants_of(name)) or 'it has none'}). Received: {self.comparison.baseline!r}"
                )
        for field, names in [
            ("comparison.margin_pp", list(self.comparison.margin_pp)),
            ("comparison.target_accuracy", list(self.comparison.target_accuracy)),
            ("deviations", list(self.deviations)),
        ] + [(f"variants.{name}.benchmarks", variant.benchmarks or []) for name, variant in self.variants.items()]:
            faults += [
                f"{field}: must be names of benchmarks ({', '.join(self.benchmarks)}). Received: {name!r}"
                for name in names
                if name not in self.benchmarks
            ]
        for name, variant in self.variants.items():
            faults += [f"variants.{name}.{fault}" for fault in variant.faults()]
            faults += [
                f"variants.{name}.loop: the custom loop takes one step at a time, {benchmark} has "
                f"steps_per_execution {recipe.steps_per_execution}. Name other `benchmarks`."
                for benchmark, recipe in self.benchmarks.items()
                if variant.loop == "custom" and name in self.variants_of(benchmark) and recipe.steps_per_execution > 1
            ]
        for index, pair in enumerate(self.comparison.further_pairs):
            faults += [
                f"comparison.further_pairs.{index}.{field}: must be a variant ({', '.join(self.variants)}). "
                f"Received: {value!r}"
                for field, value in pair.model_dump().items()
                if value not in self.variants
            ]
            where, both = f"comparison.further_pairs.{index}", {pair.baseline, pair.candidate}
            if len(both) == 1 or self.comparison.baseline in both:
                faults.append(f"{where}: {pair.baseline} and {pair.candidate} are compared anyway, or are the same.")
            if both in ({other.baseline, other.candidate} for other in self.comparison.further_pairs[:index]):
                faults.append(f"{where}: {pair.baseline} and {pair.candidate} stand there already.")
            if both <= self.variants.keys() and not any(both <= self.variants_of(b).keys() for b in self.benchmarks):
                faults.append(f"{where}: {pair.baseline} and {pair.candidate} run on no benchmark together.")
        faults += self._engine_faults()
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def _engine_faults(self) -> list[str]:
        """What the engine, or several devices, can't run."""
        faults = []
        if (self.engine == "jax") != (self.runtime == "tpu"):
            faults.append(f"runtime: {self.runtime} has no {self.engine}; tpu has jax, cpu and cuda have tensorflow.")
        if self.compilation_cache and self.engine == "tensorflow":
            faults.append("compilation_cache: TensorFlow keeps nothing it compiled; only jax does.")
        for name, variant in self.variants.items():
            if self.engine == "jax" and not variant.jit_compile:
                faults.append(f"variants.{name}.jit_compile: must be true, JAX compiles every step with XLA.")
            if self.devices > 1:
                faults += [f"variants.{name}.{fault}" for fault in variant.faults_on_several_devices(self.engine)]
        for name, benchmark in self.benchmarks.items():
            faults += [
                f"benchmarks.{name}.{fault}"
                for fault in benchmark.faults_on_several_devices(
                    self.engine, self.devices, self.variants_of(name).values()
                )
            ]
        return faults

    def variants_of(self, benchmark: str) -> dict[str, Variant]:
        """The variants that are run on `benchmark`, by name, in the study's order."""
        return {
            name: variant
            for name, variant in self.variants.items()
            if variant.benchmarks is None or benchmark in variant.benchmarks
        }

    @property
    def digest(self) -> str:
        """A SHA-256 of what decides which runs count and how they are compared."""
        fields = {"campaign", "engine", "runtime", "devices", "seeds", "benchmarks", "variants", "comparison"}
        return hashlib.sha256(self.model_dump_json(include=fields).encode()).hexdigest()

    def runs(self) -> list[RunKey]:
        """Every run of the study, seeds outermost: all variants of a seed run close together in time."""
        return [
            RunKey(benchmark, variant, seed)
            for seed in self.seeds
            for benchmark in self.benchmarks
            for variant in self.variants_of(benchmark)
        ]


def load_study(path: Path = PARAMS) -> Study:
    """The validated study in `path`. Raises `InputError` that lists all faults."""
    return read(Study, path)
