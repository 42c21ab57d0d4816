"""Define a study: the runs to make, the speeds to measure, and how to compare them.

`params.yaml` holds one study. This module needs no engine.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from pipeline.files.places import PARAMS
from pipeline.study.benchmark import Benchmark
from pipeline.study.configuration import (
    MAX_RUNS,
    Campaign,
    Name,
    NonNegativeInt,
    PositiveFloat,
    Section,
    read,
    unknown_name,
)
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.variant import MIXED, Variant

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # the seeds that NumPy takes
BudgetSeconds = Annotated[float, Field(gt=0, le=1e6)]


class RunKey(NamedTuple):
    """Identify one run of a study by its benchmark, variant and seed."""

    benchmark: str
    variant: str
    seed: int

    @property
    def directory(self) -> Path:
        return Path("runs", self.benchmark, self.variant, f"seed-{self.seed}")


class FurtherPair(Section):
    """Name two variants to compare, in addition to the comparisons with the baseline."""

    baseline: Name
    candidate: Name


class ComparisonSettings(Section):
    """Choose the baseline, the margins of accuracy in percentage points, and further pairs to compare.

    `must_differ` names controls: variants that are meant to differ from the baseline in accuracy. If the statistical
    tests miss this difference, they could also miss a loss of accuracy from low precision.
    """

    baseline: Name
    margin_pp: dict[Name, Annotated[float, Field(gt=0, le=100)]]
    further_pairs: list[FurtherPair] = Field(default_factory=list)
    must_differ: list[Name] = Field(default_factory=list)

    def faults(self, benchmarks: Collection[str], variants: Mapping[str, Variant]) -> Iterator[str]:
        """Yield a message for each setting that contradicts the study's benchmarks or variants.

        Each message begins with the field's name.

        Args:
            benchmarks: the names of the study's benchmarks.
            variants: the study's variants, by name.
        """
        for benchmark in benchmarks:
            if benchmark not in self.margin_pp:
                yield f"margin_pp.{benchmark}: missing; give the margin in percentage points."
            there = [name for name, variant in variants.items() if variant.runs_on(benchmark)]
            if self.baseline not in there:
                yield unknown_name("baseline", self.baseline, f"a variant that runs on {benchmark}", there)
        for name in self.margin_pp:
            if name not in benchmarks:
                yield unknown_name("margin_pp", name, "names of benchmarks", benchmarks)
        others = variants.keys() - {self.baseline}
        yield from (
            unknown_name("must_differ", name, "a variant besides the baseline", sorted(others))
            for name in self.must_differ
            if name not in others
        )
        for index, pair in enumerate(self.further_pairs):
            for field, name in pair.model_dump().items():
                if name not in variants:
                    yield unknown_name(f"further_pairs.{index}.{field}", name, "a variant", variants)


class SpeedSettings(Section):
    """Limit the time for measuring the speeds of a benchmark's variants in turns.

    `budgets` replaces `budget_seconds` for single benchmarks, also in seconds. A measurement may end early if the 95 %
    intervals of all speedups are narrow enough. `target_half_width` is half the width of such an interval, relative to
    the speedup: 0.05 is ±5 %. `benchmarks` names the benchmarks to time, by default all. With `validation`, validation
    is timed too, in some of the turns. Claims about whole epochs need these times.
    """

    budget_seconds: BudgetSeconds
    budgets: dict[Name, BudgetSeconds] = Field(default_factory=dict)
    target_half_width: Annotated[float, Field(gt=0, lt=1)]
    benchmarks: list[Name] | None = None
    validation: bool = True


class Study(Section):
    name: Name
    description: str
    campaign: Campaign  # the name of this repetition of the study; change it to train everything again
    seeds: Annotated[list[Seed], Field(min_length=1)]
    datasets: Annotated[dict[Name, DatasetSource], Field(min_length=1)]
    benchmarks: Annotated[dict[Name, Benchmark], Field(min_length=1)]
    variants: Annotated[dict[Name, Variant], Field(min_length=1)]
    comparison: ComparisonSettings
    speed: SpeedSettings
    # With how many of the `seeds`, from the first on, each benchmark runs; by default all. With 0, a benchmark is only
    # timed.
    num_seeds: dict[Name, NonNegativeInt] = Field(default_factory=dict)
    # With how many of the `seeds` single variants of a benchmark run, if fewer than the benchmark's number are enough.
    # With 0, the variant is only timed.
    num_seeds_by_variant: dict[Name, dict[Name, NonNegativeInt]] = Field(default_factory=dict)
    # How many runs of each benchmark are made side by side; by default one. This saves time if one run leaves much of
    # the device idle. Runs side by side slow each other down, so speedups come from separate measurements
    # (`pipeline.speed`). On a CPU, the runs divide the cores, and the number of cores may change the last bits of a sum
    # in float16.
    runs_at_once: dict[Name, Annotated[int, Field(ge=1, le=64)]] = Field(default_factory=dict)
    # About how many seconds a run of each benchmark takes on two CPU cores or on a GPU. `stages.check` forecasts with
    # these numbers.
    seconds_a_run: dict[Name, PositiveFloat] = Field(default_factory=dict)
    # The GPU memory, in 10⁹ bytes, that `runs_at_once` needs. On a smaller GPU, runs are made one after another.
    gpu_memory_gb: PositiveFloat | None = None
    max_run_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None  # a longer run is ended as too_slow
    # The extent of `results/numerics.json`. `facts` runs no trials. `trials` also trains dense networks with several
    # seeds, to try 16-bit optimizers and to count the steps that a loss scale skips. `all` also counts the steps that
    # are skipped with the other networks, and measures the effect of an error in the CIFAR-100 notebook (S3 in
    # README.md), which validates on examples that it trains on.
    numerics: Literal["facts", "trials", "all"] = "all"
    # The benchmarks whose models and gradients the numerics examine; by default all.
    numerics_on: Annotated[list[Name], Field(min_length=1)] | None = None
    # The benchmarks whose results stand first in the report; by default all. The results of the others follow below.
    first_screen: Annotated[list[Name], Field(min_length=1)] | None = None
    compilation_cache: bool = False  # whether to keep XLA's compiled code in .cache/xla for later runs; only on JAX
    leave_out_emulated: bool = False  # whether to leave out variants whose number format the hardware only emulates
    # How each benchmark's recipe was chosen: taken from a published source, or tuned on the validation or the test set.
    recipe_chosen_on: dict[Name, Literal["source", "validation", "test"]] = Field(default_factory=dict)
    # Facts about the runs that readers must know and that the records do not show, as sentences for the report.
    notes: list[str] = Field(default_factory=list)
    # The differences between each benchmark and its published source, as sentences for the report.
    deviations: dict[Name, list[str]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if faults := list(self._faults()):
            raise ValueError("\n".join(faults))
        return self

    def _faults(self) -> Iterator[str]:
        """Yield a message for each fault that checks of single fields can't find.

        Each message begins with the field's name.
        """
        yield from (f"seeds: {seed!r} is given twice." for seed, count in Counter(self.seeds).items() if count > 1)
        num_each = sum(len(self.variants_of(name)) for name in self.benchmarks)
        if (num_runs := len(self.seeds) * num_each) > MAX_RUNS:
            yield (
                f"seeds: {len(self.seeds)} seeds of {num_each} runs each are {num_runs:,} runs; a study may have "
                f"{MAX_RUNS:,} at most."
            )
        named = {
            "speed.benchmarks": self.speed.benchmarks,
            "speed.budgets": self.speed.budgets,
            "numerics_on": self.numerics_on,
            "first_screen": self.first_screen,
            "num_seeds": self.num_seeds,
            "num_seeds_by_variant": self.num_seeds_by_variant,
            "runs_at_once": self.runs_at_once,
            "seconds_a_run": self.seconds_a_run,
            "recipe_chosen_on": self.recipe_chosen_on,
            "deviations": self.deviations,
        }
        for field, names in named.items():
            for name in names or ():
                if name not in self.benchmarks:
                    yield unknown_name(field, name, "names of benchmarks", self.benchmarks)
        for where, by_variant in self.num_seeds_by_variant.items():
            here = self.variants_of(where)
            for name in by_variant:
                if name not in here:
                    yield unknown_name(f"num_seeds_by_variant.{where}", name, "variants that run there", here)
        for name, benchmark in self.benchmarks.items():
            if benchmark.dataset not in self.datasets:
                yield unknown_name(f"benchmarks.{name}.dataset", benchmark.dataset, "one of `datasets`", self.datasets)
            yield from (f"benchmarks.{name}.{fault}" for fault in benchmark.faults(self.variants_of(name)))
        steps = {name: benchmark.steps_per_execution for name, benchmark in self.benchmarks.items()}
        for name, variant in self.variants.items():
            yield from (f"variants.{name}.{fault}" for fault in variant.faults(steps))
        yield from (f"comparison.{fault}" for fault in self.comparison.faults(self.benchmarks, self.variants))

    def variants_of(self, benchmark: str) -> dict[str, Variant]:
        """Return the variants that run on `benchmark`, by name, in the study's order."""
        return {name: variant for name, variant in self.variants.items() if variant.runs_on(benchmark)}

    def plain(self, benchmark: str, policy: str) -> str | None:
        """Return the name of the first plain variant (see `Variant.is_plain`) of `policy` at the baseline's batch size.

        Return None if no such variant runs on `benchmark`.
        """
        batch_multiplier = self.variants[self.comparison.baseline].batch_multiplier
        for name, variant in self.variants_of(benchmark).items():
            if variant.is_plain and (variant.policy, variant.batch_multiplier) == (policy, batch_multiplier):
                return name
        return None

    def recommendable(self, benchmark: str) -> list[str]:
        """Return the names of the variants of `benchmark` that the report may recommend.

        These variants have a mixed policy (one of `MIXED`) and the baseline's batch size. Some layers may stay in
        float32. All other settings are at their defaults.
        """
        batch_multiplier = self.variants[self.comparison.baseline].batch_multiplier
        return [
            name
            for name, variant in self.variants_of(benchmark).items()
            if variant.varies_precision and variant.policy in MIXED and variant.batch_multiplier == batch_multiplier
        ]

    @property
    def timed_benchmarks(self) -> list[str]:
        """Return the benchmarks whose variants are timed in turns."""
        return [*self.benchmarks] if self.speed.benchmarks is None else self.speed.benchmarks

    def budget_seconds(self, benchmark: str) -> float:
        """Return the budget, in seconds, for measuring the speeds of the variants of `benchmark`."""
        return self.speed.budgets.get(benchmark, self.speed.budget_seconds)

    @property
    def answered_first(self) -> list[str]:
        """Return the benchmarks whose results stand first in the report, in the study's order."""
        return [name for name in self.benchmarks if self.first_screen is None or name in self.first_screen]

    def without(self, names: Collection[str]) -> "Study":
        """Return the study with every mention of these variants removed."""
        if not names:
            return self
        values = self.model_dump(exclude_unset=True)
        values["variants"] = {name: variant for name, variant in values["variants"].items() if name not in names}
        comparison = values["comparison"]
        comparison["must_differ"] = [name for name in comparison.get("must_differ", []) if name not in names]
        pairs = comparison.get("further_pairs", [])
        comparison["further_pairs"] = [pair for pair in pairs if not {*names} & {*pair.values()}]
        values["num_seeds_by_variant"] = {
            benchmark: {name: number for name, number in by_variant.items() if name not in names}
            for benchmark, by_variant in values.get("num_seeds_by_variant", {}).items()
        }
        return Study.model_validate(values)

    def seeds_of(self, benchmark: str, variant: str) -> list[int]:
        """Return the seeds with which `variant` runs on `benchmark`."""
        of_benchmark = self.num_seeds.get(benchmark, len(self.seeds))
        of_variant = self.num_seeds_by_variant.get(benchmark, {}).get(variant, len(self.seeds))
        return self.seeds[: min(of_benchmark, of_variant)]

    def fits(self, gpu_bytes: int | None) -> bool:
        """Return whether a GPU with `gpu_bytes` of memory has the `gpu_memory_gb` that the study needs.

        Return True if one of the two numbers is None.
        """
        return gpu_bytes is None or self.gpu_memory_gb is None or gpu_bytes >= 1e9 * self.gpu_memory_gb

    def measured_as(self, benchmark: str) -> dict[str, str]:
        """Return, for each variant of `benchmark`, the variant that is timed in its place.

        Variants that differ only in learning rate or number of epochs are equally fast, so only one of them is timed:
        the baseline if it is one of these variants, else the first of them.
        """
        kinds = {
            name: variant.model_dump_json(exclude={"benchmarks", "epoch_multiplier", "learning_rate_multiplier"})
            for name, variant in self.variants_of(benchmark).items()
        }
        measured = {kinds[name]: name for name in (*reversed(kinds), self.comparison.baseline)}
        return {name: measured[kind] for name, kind in kinds.items()}

    def digest_of(self, fields: Set[str]) -> str:
        """Return a SHA-256 of these fields.

        Fields at their defaults are left out, so that a new option does not change the digests of earlier studies.
        """
        return hashlib.sha256(self.model_dump_json(include=set(fields), exclude_defaults=True).encode()).hexdigest()

    def runs(self) -> list[RunKey]:
        """Return the keys of all runs, ordered by seed, so that the variants of a seed run close together in time."""
        return [
            RunKey(benchmark, variant, seed)
            for seed in self.seeds
            for benchmark in self.benchmarks
            for variant in self.variants_of(benchmark)
            if seed in self.seeds_of(benchmark, variant)
        ]


def load_study(path: Path = PARAMS) -> Study:
    """Return the study in `path`. If the study is not valid, raise an `InputError` that lists the faults."""
    return read(Study, path)
