"""Claims about 16-bit arithmetic, which the numerics stage tries: facts, trials of optimizers, and experiments."""

from statistics import fmean
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.claims.claim import Assessment, BaseClaim, EvidenceKind, NotTestableError, Threshold, ThresholdClaim
from pipeline.claims.evidence import Evidence
from pipeline.claims.wording import describe_sample, describe_trial, name_sample
from pipeline.numbers import interval, percent, percents
from pipeline.numerics.facts import SAMPLES, SHORTFALL, Value, describe_facts, facts_of, is_measured
from pipeline.statistics.equivalence import margin_means_something
from pipeline.statistics.intervals import mean, proportion

NUMERICS = "A study whose numerics stage looks at it."
TRIED = "A study whose numerics stage tries it, as that of the profile evening does."
MORE = "More tries than the numerics stage makes."


class FactClaim(BaseClaim):
    """The numerics stage finds exactly `value`, under each of `quantities`."""

    kind: Literal["fact"]
    quantities: Annotated[dict[str, Value], Field(min_length=1, max_length=20)]

    @property
    def asked(self) -> tuple[str, str]:
        return f"whether {describe_facts(self.quantities)}", "exactly so, without a tolerance"

    @property
    def evidence(self) -> EvidenceKind:
        """Return `measured` where training steps decide all that is claimed."""
        return "measured" if all(map(is_measured, self.quantities)) else "counted"

    def judge(self, evidence: Evidence) -> Assessment:
        facts = evidence.numerics["facts"]
        if unknown := {name: value for name, value in self.quantities.items() if name not in facts}:
            raise NotTestableError(f"this study did not look whether {describe_facts(unknown)}", NUMERICS)
        measured = describe_facts({name: facts[name] for name in self.quantities})
        wrong = {name: value for name, value in self.quantities.items() if _plain(facts[name]) != _plain(value)}
        if wrong:
            return Assessment("not reproduced", f"the claim expects: {describe_facts(wrong)}", measured)
        return Assessment("reproduced", "it was found so", measured)


def _plain(value: bool | float | str) -> bool | float | str:
    """Return the number that a text is. Facts of range are texts, such as "inf": JSON has no infinity."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


class TrialClaim(BaseClaim):
    """An optimizer trains, or fails to, at most seeds."""

    more: ClassVar[str] = MORE
    kind: Literal["trial"]
    trial: str
    trains: bool

    @property
    def asked(self) -> tuple[str, str]:
        near = f"within {100 * SHORTFALL:g} pp of float32"
        trains = f"trains (ends {near})" if self.trains else f"fails (does not end {near})"
        what = f"at how many seeds {describe_trial(self.trial)} trains"
        return what, f"{trains} at more than half of the seeds, by the 95 % interval"

    def judge(self, evidence: Evidence) -> Assessment:
        trial = next((trial for trial in evidence.numerics["trials"] if trial["name"] == self.trial), None)
        if trial is None:
            raise NotTestableError("this study did not try it", TRIED)
        share, float32 = proportion(trial["num_trained"], trial["num_trials"]), fmean(trial["float32_accuracies"])
        reached = f"it reaches {percents(trial['accuracies'])}, float32 {percents(trial['float32_accuracies'])}"
        between = interval(100 * share.low, 100 * share.high, ".0f")
        measured = f"{describe_trial(self.trial)} trains at {share.count} of {share.total} seeds {between} %: {reached}"
        if not margin_means_something(100 * SHORTFALL, float32):
            reaches = f"float32 itself reaches {percent(float32, '.1f')}"
            little = f"{reaches}: to be within {100 * SHORTFALL:g} pp of it shows little"
            return Assessment("inconclusive", little, measured)
        threshold = Threshold(50, is_least=self.trains, unit=" % of seeds")
        return threshold.judge(100 * share.low, 100 * share.high, measured)


class SampleClaim(ThresholdClaim):
    """The mean of an experiment of the numerics stage, or a number that it counts, is at least or at most so much."""

    more: ClassVar[str] = MORE
    kind: Literal["sample"]
    sample: str

    @property
    def is_counted(self) -> bool:
        return self.sample.partition(".")[0] not in SAMPLES

    @property
    def threshold(self) -> Threshold:
        unit = "" if self.is_counted else SAMPLES[self.sample.partition(".")[0]][1]
        return super().threshold._replace(unit=unit)

    @property
    def asked(self) -> tuple[str, str]:
        if self.is_counted:
            fact = facts_of(())[self.sample]
            return f"{fact.subject} {fact.says('how many')}", self.threshold.words
        return name_sample(self.sample), self.threshold.words

    @property
    def evidence(self) -> EvidenceKind:
        return "counted" if self.is_counted else "measured"

    def judge(self, evidence: Evidence) -> Assessment:
        return self._counted(evidence) if self.is_counted else self._measured(evidence)

    def _counted(self, evidence: Evidence) -> Assessment:
        value = evidence.numerics["facts"].get(self.sample)
        if value is None:
            raise NotTestableError("this study did not count it", NUMERICS)
        measured = describe_facts({self.sample: value})
        return self.threshold.judge(float(value), float(value), measured)

    def _measured(self, evidence: Evidence) -> Assessment:
        values = evidence.numerics["samples"].get(self.sample)
        if not values:
            raise NotTestableError("this study did not try it", TRIED)
        average = mean(values)
        measured = describe_sample(self.sample, average, len(values))
        if len(values) == 1 or len(set(values)) > 1:
            lack = f"{len(values)} tries give no interval"
            return self.threshold.judge(average.low, average.high, measured, lack)
        # All tries gave one value: an interval of the mean has no width, and the share of tries that give it decides.
        holds, share = self.threshold.holds(values[0]), proportion(len(values), len(values))
        which = f"which is {'' if holds else 'not '}{self.threshold.words}"
        told = (
            f"all {len(values)} tries gave {values[0]:g}{self.threshold.unit}, {which}; "
            f"at least {percent(share.low)} of further tries would too (95 %)"
        )
        if share.low <= 0.5:
            return Assessment("inconclusive", f"{told}, which is not surely more than half", measured)
        return Assessment("reproduced" if holds else "not reproduced", told, measured)
