"""The answer of a study for each benchmark: a sentence, and a table of its variants beside the baseline."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pipeline.claims.wording import (
    count_seeds,
    describe_difference,
    describe_kernels,
    describe_ratio,
    describe_speedup,
    failed_runs,
)
from pipeline.comparison.schema import ELSEWHERE, Pair, VariantStatistics
from pipeline.machine.acceleration import speed
from pipeline.machine.hardware import hardware_of
from pipeline.numbers import UNKNOWN, digits, listed, mebibytes, percent
from pipeline.report.results import Compared, Results
from pipeline.report.words import describe_variant, in_brackets
from pipeline.statistics.equivalence import margin_means_something
from pipeline.study.variant import expected_dtypes

OPEN = "not answered by this study"
# Published studies, under docs/reports, that judge the accuracy of a benchmark with many seeds far from chance.
ANSWERED_IN = {"cifar100_efficientnet_b0": "evening-2-cores"}
# The table of an answer, after the variant's name: the heading of each column that `AnswerRow.cells` has.
COLUMNS = {
    "accuracy": "test accuracy",
    "difference": "difference [95 %]",
    "epoch": "epoch time",
    "speed": "speed [95 %]",
    "memory": "memory",
}


class AnswerRow(NamedTuple):
    """A row of the table: a variant by itself and, unless it is the baseline, beside that.

    `words` tell what it sets. `is_first` says that it stands in the first table: float32 and mixed policies at any
    batch. `is_emulated` says that this device computes its numbers by others, so that its speed answers nothing.
    `timed_as` are the words of the variant that was measured in its place, because it takes as long; empty where it was
    measured itself. `pair` is None where nothing stands beside the baseline: of the baseline itself.
    """

    name: str
    words: str
    policy: str
    batch_multiplier: int
    is_first: bool
    is_emulated: bool
    timed_as: str
    found: VariantStatistics
    pair: Pair | None
    runs: list[dict[str, Any]]

    @property
    def difference(self) -> str:
        return describe_difference(self.pair) if self.pair else "baseline"

    @property
    def has_times(self) -> bool:
        return not (self.is_emulated or self.timed_as)

    @property
    def speed(self) -> str:
        return describe_ratio(self.pair.speedup) if self.pair and self.has_times else UNKNOWN

    @property
    def cells(self) -> dict[str, str]:
        """Return the row as the first screen and the README have it, after its words: a text for each of `COLUMNS`."""
        accuracy, seconds, peak = self.found.test_accuracy.mean, self.epoch_seconds, self.peak_memory_bytes
        return {
            "accuracy": UNKNOWN if accuracy is None else percent(accuracy, ".2f"),
            "difference": self.difference,
            "epoch": UNKNOWN if seconds is None else f"{digits(seconds)} s",
            "speed": self.speed,
            "memory": UNKNOWN if peak is None else f"{mebibytes(peak)} MiB",
        }

    @property
    def epoch_seconds(self) -> float | None:
        """Return the training time of an epoch in turns; None where it is unknown, tells nothing, or is another's."""
        return self.found.turn_epoch_seconds if self.has_times else None

    @property
    def peak_memory_bytes(self) -> float | None:
        """Return that of a process in turns; where there are none, the largest of a run on the device of the speeds.

        Runs are not averaged: one that compiles takes more than one that finds what another compiled. Of a run that was
        resumed, its last process alone was looked at.
        """
        if self.found.turn_peak_memory_bytes is not None:
            return self.found.turn_peak_memory_bytes
        elsewhere = {seed for seed, fault in self.found.timing_faults.items() if fault == ELSEWHERE}
        whole = [run for run in self.runs if run["outcome"] == "completed" and not run["resumed"]]
        peaks = [run["peak_memory_bytes"] for run in whole if run["seed"] not in elsewhere]
        return max(peaks) if peaks and all(peaks) else None

    @property
    def note(self) -> str:
        """Say what the numbers lack."""
        if self.pair is None:
            return self._note_on_memory.removeprefix("; ")
        if self.is_emulated:
            return "8 bits are emulated here, so no time is given" + failed_runs(self.pair)
        is_bound = self.pair.speedup.ratio is None and self.pair.speedup_at_most
        bound = f"; {describe_speedup(self.pair)}" if is_bound else ""
        timed = f"; timed as {self.timed_as}" if self.timed_as else ""
        failed = failed_runs(self.pair)
        return (timed + bound + failed + describe_kernels(self.pair) + self._note_on_memory).removeprefix("; ")

    @property
    def _note_on_memory(self) -> str:
        is_of_run = self.found.turn_peak_memory_bytes is None and self.peak_memory_bytes is not None
        return "; memory is that of a whole run, which may have compiled" if is_of_run else ""


def is_of_itself(pair: Pair) -> bool:
    """Return whether one process is measured for both variants: the ratio of a thing to itself says nothing."""
    return pair.between_sittings == 0


def answers(results: Compared, benchmark: str) -> list[AnswerRow]:
    """Return a row for each variant of `benchmark`: the baseline, its policy, then the others, by batch."""
    variants = results.study.variants_of(benchmark)
    baseline = results.study.comparison.baseline
    measured, hardware = results.study.measured_as(benchmark), hardware_of(results.environments)
    policies: list[str] = [variants[baseline].policy, *(variant.policy for variant in variants.values())]
    rows = [
        AnswerRow(
            name=name,
            words="control: " * (name in results.study.comparison.must_differ) + describe_variant(variant),
            policy=variant.policy,
            batch_multiplier=variant.batch_multiplier,
            is_first=name == baseline or (variant.is_plain and expected_dtypes(variant.policy).variable == "float32"),
            is_emulated=variant.policy == "float8" and speed(variant.policy, variant.tf32, hardware) == "emulated",
            timed_as="" if measured[name] == name else in_brackets(describe_variant(variants[measured[name]])),
            found=results.comparison.variant(benchmark, name),
            pair=results.comparison.find(benchmark, name),
            runs=[run for run in results.runs if (run["benchmark"], run["variant"]) == (benchmark, name)],
        )
        for name, variant in variants.items()
    ]
    return sorted(rows, key=lambda row: (row.name != baseline, policies.index(row.policy), row.batch_multiplier))


def columns(rows: Sequence[AnswerRow]) -> dict[str, str]:
    """Return the headings of `COLUMNS` that a table of `rows` shows: that of memory where any is known."""
    is_known = any(row.peak_memory_bytes for row in rows)
    return {name: heading for name, heading in COLUMNS.items() if name != "memory" or is_known}


def near_chance(results: Results, benchmark: str) -> float | None:
    """Return the baseline's accuracy in [0, 1], where the margin is wide beside it."""
    settings = results.study.comparison
    accuracy = results.comparison.variant(benchmark, settings.baseline).test_accuracy.mean
    if accuracy is None or margin_means_something(settings.margin_pp[benchmark], accuracy):
        return None
    return accuracy


def describe_controls(results: Compared, benchmark: str) -> list[str]:
    """Say of each variant that must differ from the baseline, in a sentence, whether the tests found that it does."""
    told = []
    for row in answers(results, benchmark):
        if row.pair and row.name in results.study.comparison.must_differ:
            name = in_brackets(row.words.removeprefix("control: "))
            control = f"The control, {name}, must differ, and these tests"
            if row.pair.equivalence.outcome == "different":
                told.append(f"{control} find it: {row.difference}.")
            else:
                told.append(f"{control} do not find it: {row.difference}. They could miss a loss by precision too.")
    return told


def describe_seeds(rows: Sequence[AnswerRow]) -> str:
    """Tell how many seeds stand behind each difference, as in "5 seeds each; 3 for mixed_float16 (batch doubled)"."""
    names: dict[int, list[str]] = {}
    for row in rows:
        names.setdefault(row.pair.num_seeds if row.pair else row.found.completed.count, []).append(row.words)
    usual = max(names, key=lambda count: len(names[count]))
    fewer = [f"; {count} for {listed(map(in_brackets, some))}" for count, some in names.items() if count != usual]
    return f"{count_seeds(usual)}{' each' * (len(rows) > 1)}{''.join(fewer)}."


def describe_training(results: Compared, benchmark: str) -> str:
    """Tell how long the baseline trains, as in "float32 trains 30 steps, in 5 epochs."."""
    recipe, baseline = results.study.benchmarks[benchmark], results.study.comparison.baseline
    variant = results.study.variants[baseline]
    num_epochs = recipe.num_epochs_of(variant)
    num_steps = num_epochs * recipe.steps_per_epoch(variant.batch_multiplier)
    return f"{baseline} trains {num_steps:,} steps, in {num_epochs} epochs."


def advice(results: Results, benchmark: str) -> str:
    """Advise on this hardware: a mixed policy at the same batch, or float32; then say how accurate 8 bits are."""
    chance = near_chance(results, benchmark)
    in_8_bits = [
        f" {name} trains{_accuracy_in_words(pair, chance).removeprefix(',')}{failed_runs(pair)}."
        for name, variant in results.study.variants_of(benchmark).items()
        if variant.policy == "float8" and variant.is_plain and (pair := results.comparison.find(benchmark, name))
    ]
    return _advise(results, benchmark, chance) + "".join(in_8_bits)


def _advise(results: Results, benchmark: str, chance: float | None) -> str:
    """Return the first sentence.

    The fastest mixed policy that gains speed at the same accuracy; where none does, the fastest one. Those that keep
    their variables in 16 bits too are experiments, and no advice.
    """
    study = results.study
    baseline = study.comparison.baseline
    variants = study.variants_of(benchmark)
    pairs = [
        pair
        for name, variant in variants.items()
        if variant.is_plain
        and variant.policy.startswith("mixed_")
        and variant.batch_multiplier == variants[baseline].batch_multiplier
        and (pair := results.comparison.find(benchmark, name))
    ]
    timed = [pair for pair in pairs if pair.speedup.low is not None]
    if not timed and pairs and all(pair.speedup_at_most for pair in pairs):
        best = max(pairs, key=lambda pair: pair.speedup_at_most or 0.0)
        return f"Stay with {baseline}. {best.candidate} is {describe_speedup(best)}{describe_kernels(best)}."
    if not timed:
        return f"Nothing to advise: the speed of no mixed policy could be measured beside {baseline}."
    gains = [pair for pair in timed if (pair.speedup.low or 0.0) > 1]
    accurate = [pair for pair in gains if pair.equivalence.outcome.startswith("equivalent") and chance is None]
    best = max(accurate or gains or timed, key=lambda pair: pair.speedup.ratio or 0.0)
    low, high = best.speedup.low or 0.0, best.speedup.high or 0.0
    who, note = f"{best.candidate}{', the fastest mixed policy,' * (len(timed) > 1)}", ""
    if low > 1:
        is_weighed = chance is None and best.equivalence.outcome == "different"
        opening = "Use" if best in accurate else "Weigh" if is_weighed else "Try"
        opening, who = f"{opening} {best.candidate}:", "it"
    elif high < 1:
        opening = f"Stay with {baseline}."
    else:
        opening = f"Stay with {baseline} until more is known."
        note = ", neither clearly faster nor clearly slower"
    speed = describe_ratio(best.speedup, f"the speed of {baseline}")
    return f"{opening} {who} trains at {speed}{note}{_accuracy_in_words(best, chance)}{failed_runs(best)}."


def caution(results: Compared, benchmark: str) -> str:
    """Say how to measure again where other work took more of the CPUs than the study allows; empty elsewhere."""
    share, most = results.comparison.turns_of(benchmark).other_cpu_share, results.study.comparison.max_other_cpu_share
    if share is None or share <= most:
        return ""
    return (
        f"These speeds are no answer yet: other work took {percent(share)} of the CPU time, the study allows "
        f"{percent(most)}. Measure it again on a quiet machine: "
        f"python -m stages.speed --benchmark {benchmark} --again; then: make repro."
    )


def _accuracy_in_words(pair: Pair, chance: float | None) -> str:
    margin = f"±{pair.equivalence.margin_pp:g} pp"
    if chance is not None:
        return f". Its accuracy is {OPEN}: {pair.baseline} itself reaches only {percent(chance, '.1f')}"
    return {
        "equivalent": f", at the same accuracy within {margin}",
        "equivalent but shifted": f", at the same accuracy within {margin}, though shifted",
        "different": f", at another accuracy ({describe_difference(pair)}), by more than {margin} or less",
        "beyond": f", at another accuracy ({describe_difference(pair)})",
        "inconclusive": f". Whether it is as accurate, within {margin}, is {OPEN} ({count_seeds(pair.num_seeds)})",
    }["beyond" if pair.equivalence.is_beyond else pair.equivalence.outcome]
