"""Judge claims about 16-bit arithmetic by what the numerics stage found: facts, trials of optimizers, experiments."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.claims.claim import Assessment, BaseClaim, EvidenceKind, NotTestableError, Threshold, ThresholdClaim
from pipeline.claims.evidence import Evidence
from pipeline.numerics.facts import SAMPLES, SHORTFALL, TRIALS, Value, is_measured
from pipeline.sentences import Said
from pipeline.statistics.equivalence import margin_means_something
from pipeline.statistics.intervals import mean, proportion

TRIED = Said("remedy.tried")
MORE = Said("more.tries")


def found_in(evidence: Evidence, part: str) -> Any:
    """Return a part of what the numerics stage found. Raise `NotTestableError` if the stage was not run."""
    if evidence.numerics is None:
        raise NotTestableError(Said("lack.numerics"), Said("remedy.numerics"))
    return evidence.numerics[part]


class FactClaim(BaseClaim):
    """Claim that the numerics stage finds exactly the values given in `quantities`."""

    kind: Literal["fact"]
    quantities: Annotated[dict[str, Value], Field(min_length=1)]

    @property
    def asked(self) -> Said:
        return Said("asked.fact")

    @property
    def evidence(self) -> EvidenceKind:
        """Return "measured" if every quantity is measured on a device, else "counted"."""
        return "measured" if all(map(is_measured, self.quantities)) else "counted"

    def judge(self, evidence: Evidence) -> Assessment:
        facts: Mapping[str, Value] = found_in(evidence, "facts")
        if any(name not in facts for name in self.quantities):
            raise NotTestableError(Said("lack.fact"), Said("remedy.numerics"))
        measured = facts_said({name: facts[name] for name in self.quantities})
        # Facts about range are texts, such as "inf": JSON has no infinity.
        if any(str(facts[name]) != str(value) for name, value in self.quantities.items()):
            return Assessment("not reproduced", Said("fact_claim.misses"), measured)
        return Assessment("reproduced", Said("fact_claim.holds"), measured)


class TrialClaim(BaseClaim):
    """Claim that an optimizer trains at more than half of the seeds, or fails at more than half."""

    kind: Literal["trial"]
    trial: str
    trains: bool

    @property
    def asked(self) -> Said:
        trial = next(trial for trial in TRIALS if trial.name == self.trial)
        return Said("asked.trial", trial._asdict() | {"trains": self.trains, "shortfall": SHORTFALL})

    def judge(self, evidence: Evidence) -> Assessment:
        trials = found_in(evidence, "trials")
        trial = next((trial for trial in trials if trial["name"] == self.trial), None)
        if trial is None:
            raise NotTestableError(Said("lack.trial"), TRIED)
        share, float32 = proportion(trial["num_trained"], trial["num_trials"]), fmean(trial["float32_accuracies"])
        measured = [trial_said(trial)]
        if not margin_means_something(100 * SHORTFALL, float32):
            reason = Said("trial_claim.near_chance", {"accuracy": float32})
            return Assessment("inconclusive", reason, measured, would_change=MORE)
        threshold = Threshold(50, is_least=self.trains, unit=" % of seeds")
        return threshold.judge(100 * share.low, 100 * share.high, measured, MORE, MORE)


class SampleClaim(ThresholdClaim):
    """Claim that the mean of a numerics experiment, or a counted fact, is at least or at most a threshold."""

    kind: Literal["sample"]
    sample: str

    @property
    def is_counted(self) -> bool:
        return self.sample.partition(".")[0] not in SAMPLES

    @property
    def threshold(self) -> Threshold:
        unit = "" if self.is_counted else SAMPLES[self.sample.partition(".")[0]]
        return super().threshold._replace(unit=unit)

    @property
    def asked(self) -> Said:
        name, _, benchmark = self.sample.partition(".")
        return Said(f"asked.sample.{name}", {"benchmark": benchmark} | self.threshold._asdict())

    @property
    def evidence(self) -> EvidenceKind:
        return "counted" if self.is_counted else "measured"

    def judge(self, evidence: Evidence) -> Assessment:
        return self._counted(evidence) if self.is_counted else self._measured(evidence)

    def _counted(self, evidence: Evidence) -> Assessment:
        value = found_in(evidence, "facts").get(self.sample)
        if value is None:
            raise NotTestableError(Said("lack.fact"), Said("remedy.numerics"))
        return self.threshold.judge(float(value), float(value), facts_said({self.sample: value}), MORE, MORE)

    def _measured(self, evidence: Evidence) -> Assessment:
        values = found_in(evidence, "samples").get(self.sample)
        if not values:
            raise NotTestableError(Said("lack.trial"), TRIED)
        average = mean(values)
        measured = [sample_said(self.sample, values)]
        if len(values) == 1 or len(set(values)) > 1:
            lack = Said("sample_claim.no_interval", {"num_tries": len(values)})
            return self.threshold.judge(average.low, average.high, measured, lack, MORE)
        # All tries agree, so their mean's interval has no width. The lower bound on the share that agrees decides.
        holds, share = self.threshold.holds(values[0]), proportion(len(values), len(values))
        told = {"num_tries": len(values), "value": values[0], "holds": holds, "share": share.low}
        reason = Said("sample_claim.all_alike", told | self.threshold._asdict())
        if share.low <= 0.5:
            return Assessment("inconclusive", reason, measured, would_change=MORE)
        return Assessment("reproduced" if holds else "not reproduced", reason, measured)


NumericsClaim = FactClaim | TrialClaim | SampleClaim


def facts_said(values: Mapping[str, Value]) -> list[Said]:
    """Return a sentence for each fact."""
    return [_fact_said(name, value) for name, value in values.items()]


def _fact_said(name: str, value: Value) -> Said:
    kind, place, *rest = f"{name}.".split(".")
    if kind == "weights_ratio":
        return Said("fact.weights_ratio", {"value": value, "benchmark": place, "policy": rest[0]})
    if kind == "gradients":
        return Said(f"fact.gradients.{rest[0]}", {"value": value, "benchmark": place})
    if kind in ("loss_scale", "notebook_split"):
        return Said(f"fact.{name}", {"value": value})
    return Said(f"fact.{kind}", {"value": value, "place": place})


def sample_said(name: str, values: Sequence[float]) -> Said:
    """Say what an experiment found over all its tries."""
    kind, _, benchmark = name.partition(".")
    return Said(f"sample.{kind}", mean(values)._asdict() | {"num_tries": len(values), "benchmark": benchmark})


def trial_said(trial: Mapping[str, Any]) -> Said:
    """Say how an optimizer's trial ended, from its entry in results/numerics.json."""
    share = proportion(trial["num_trained"], trial["num_trials"])
    return Said("trial.result", {**trial, "low": share.low, "high": share.high})
