"""The settings of a comparison: the baseline, the epochs that count, the margins and further pairs."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from pipeline.study.configuration import MAX_ENTRIES, Name, NonNegativeInt, Section, unknown_name
from pipeline.study.variant import Variant


class FurtherPair(Section):
    """Two variants to compare besides those against the baseline."""

    baseline: Name
    candidate: Name


class ComparisonSettings(Section):
    """The variant that runs are compared with, the epochs left out and the margins of accuracy.

    `target_accuracy` in (0, 1) asks how long training takes to reach it on the validation set. The times of a run are
    left out where other work took more than `max_other_cpu_share` of the machine's CPU time.
    """

    baseline: Name
    num_warmup_epochs: NonNegativeInt
    margin_pp: Annotated[dict[Name, Annotated[float, Field(gt=0, le=100)]], Field(max_length=MAX_ENTRIES)]
    target_accuracy: dict[Name, Annotated[float, Field(gt=0, lt=1)]] = Field(
        default_factory=dict, max_length=MAX_ENTRIES
    )
    max_other_cpu_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    further_pairs: list[FurtherPair] = Field(default_factory=list, max_length=MAX_ENTRIES)

    def faults(self, num_epochs: Mapping[str, int], variants: Mapping[str, Variant]) -> Iterator[str]:
        """Yield what the benchmarks and variants of the study do not allow; each fault begins with its field.

        Args:
            num_epochs: by benchmark.
            variants: by name.
        """
        for benchmark, epochs in num_epochs.items():
            if self.num_warmup_epochs >= epochs:
                yield (
                    f"num_warmup_epochs: must leave an epoch of the {epochs} of {benchmark}. "
                    f"Received: {self.num_warmup_epochs}"
                )
            if benchmark not in self.margin_pp:
                yield f"margin_pp.{benchmark}: missing; give the margin in percentage points."
            there = [name for name, variant in variants.items() if variant.runs_on(benchmark)]
            if self.baseline not in there:
                yield unknown_name("baseline", self.baseline, f"a variant that runs on {benchmark}", there)
        for field, names in (("margin_pp", self.margin_pp), ("target_accuracy", self.target_accuracy)):
            for name in names:
                if name not in num_epochs:
                    yield unknown_name(field, name, "names of benchmarks", num_epochs)
        for index in range(len(self.further_pairs)):
            yield from (f"further_pairs.{index}{fault}" for fault in self._faults_of_pair(index, num_epochs, variants))

    def _faults_of_pair(
        self, index: int, benchmarks: Mapping[str, int], variants: Mapping[str, Variant]
    ) -> Iterator[str]:
        pair = self.further_pairs[index]
        for field, name in pair.model_dump().items():
            if name not in variants:
                yield "." + unknown_name(field, name, "a variant", variants)
        both = {pair.baseline, pair.candidate}
        if len(both) == 1 or self.baseline in both:
            yield f": {pair.baseline} and {pair.candidate} are compared anyway, or are the same."
        if both in ({other.baseline, other.candidate} for other in self.further_pairs[:index]):
            yield f": {pair.baseline} and {pair.candidate} stand there already."
        if both <= variants.keys() and not any(
            all(variants[name].runs_on(benchmark) for name in both) for benchmark in benchmarks
        ):
            yield f": {pair.baseline} and {pair.candidate} run on no benchmark together."
