"""Scheduled repetitions: the ledger, a campaign beside its baseline, warning and confirmation."""

import argparse
import json
from pathlib import Path

import pytest
from conftest import planned_record, small_study, timed, timed_blocks
from projects import stage
from reports import prepare

from pipeline.campaign.alarm import (
    ACCURACY,
    DRIFT,
    FINE,
    INVALID,
    NO_SPEED,
    RELATIVE_TIME,
    TIME,
    TOO_LITTLE,
    WARNING,
    detect_drift,
)
from pipeline.campaign.ledger import CampaignEntry, append, entry, pin, read_baseline, read_ledger
from pipeline.errors import InputError
from pipeline.publication.archive import remake
from pipeline.records.blocks import REPEAT
from pipeline.statistics.speeds import speeds_of
from pipeline.words.sentences import Said
from stages import collect


def campaign(
    name, seeds=(0, 1, 2), accuracy=0.9, seconds=1.0, environment=None, failed=None, **changes
) -> CampaignEntry:
    """A campaign of the small study; `accuracy` and `seconds` are those of the variant `mixed`, of `wide`.

    Accuracies vary by seed, seconds by launch: as much for all, and besides by 0.4 % for each. The variants in `failed`
    are not timed on `wide`.
    """
    study = small_study(campaign=name, seeds=list(seeds))
    records = {}
    for key in study.runs():
        chosen = accuracy if (key.benchmark, key.variant) == ("wide", "mixed") else 0.9
        scores = {} if "outcome" in changes else {"test_accuracy": chosen + 0.001 * (key.seed % 3)}
        record = planned_record(key, planned={"campaign": name}, scores=scores, **changes)
        update = {"started_at": f"2026-{name}", "environment": record.environment | (environment or {})}
        records[key] = record.model_copy(update=update)
    blocks = timed_blocks(study, "wide", {"mixed": seconds}, spread=0.004, failed=failed or {})
    return entry(study, records, timed(study, {}, spread=0.004) | {"wide": speeds_of(study, "wide", blocks)})


def slower(made, times):
    """The same campaign, everything `times` as slow."""
    update = [launch.model_copy(update={"epoch_seconds": times * launch.epoch_seconds}) for launch in made.launches]
    return made.model_copy(update={"launches": update})


def timed_for(made, *benchmarks):
    """The same campaign, with launches of these benchmarks alone."""
    return made.model_copy(update={"launches": [each for each in made.launches if each.benchmark in benchmarks]})


def diverged(made, *seeds):
    """The same campaign, in which `mixed` diverged at these seeds."""
    lost = {"outcome": "diverged", "test_accuracy": None}
    runs = [run.model_copy(update=lost if run.variant == "mixed" and run.seed in seeds else {}) for run in made.runs]
    return made.model_copy(update={"runs": runs})


def test_a_campaign_with_two_drivers_is_refused():
    study = small_study()
    records = {key: planned_record(key) for key in study.runs()}
    for key, record in records.items():
        if key.seed == 2:
            records[key] = record.model_copy(update={"environment": record.environment | {"driver": "590.1"}})
    with pytest.raises(InputError, match=r"made on 590\.1 and on none"):
        entry(study, records, {})


IMAGE = {"target": "cpu", "base": "debian", "content_sha256": "c"}
FIRST, LATER = campaign("01"), campaign("02", (3, 4, 5))
FAILED = campaign("02", (3, 4, 5), outcome="diverged")
FEWER_SEEDS = Said("drift.no_spread", {"variants": ["wide mixed"]})
OUT_OF_MEMORY = campaign("02", (3, 4, 5), failed={"mixed": "out_of_memory"})


def timed_once(*variants):
    return Said("drift.timed_once", {"benchmark": "wide", "variants": list(variants)})


ALL = (REPEAT, "float32", "float32_2x", "mixed", "mixed_2x")


@pytest.mark.parametrize(
    ("new", "pinned", "exit_code", "reasons"),
    [
        (LATER, FIRST, FINE, []),
        (campaign("02", (3, 4, 5), seconds=1.01), FIRST, FINE, []),  # up to 2 % of time are negligible
        (FAILED, FIRST, TOO_LITTLE, [Said("drift.too_few_runs", {"num_completed": 0, "num_planned": 18})]),
        (FAILED, FAILED, FINE, []),  # as ever
        (LATER, diverged(FIRST, 0), TOO_LITTLE, [FEWER_SEEDS]),
        (timed_for(LATER), FIRST, INVALID, [NO_SPEED]),
        (timed_for(LATER, "narrow"), FIRST, TOO_LITTLE, [timed_once(*ALL)]),
        (OUT_OF_MEMORY, FIRST, TOO_LITTLE, [timed_once("mixed")]),
    ],
)  # fmt: skip
def test_missing_results_are_reported_and_the_rest_is_compared(new, pinned, exit_code, reasons):
    assert detect_drift(new, [pinned], [pinned]) == (exit_code, [], reasons)


@pytest.mark.parametrize(
    ("changes", "quantity"),
    [
        ({"accuracy": 0.8}, ACCURACY),
        ({"accuracy": 0.99}, ACCURACY),  # better alerts too
        ({"seconds": 1.05}, RELATIVE_TIME),
    ],
)
def test_a_change_gives_a_warning_and_the_same_change_on_fresh_seeds_confirms_drift(changes, quantity):
    first, again = campaign("02", (3, 4, 5), **changes), campaign("03", (6, 7, 8), **changes)
    warned = detect_drift(first, [FIRST], [FIRST])
    assert (warned.exit_code, len(warned.findings)) == (WARNING, 1)
    told = {"benchmark": "wide", "variant": "mixed", "confirmed": False}
    assert warned.findings[0].code == f"drift.{quantity}"
    assert warned.findings[0].numbers.items() >= told.items()
    confirmed = detect_drift(again, [FIRST, first], [FIRST])
    assert (confirmed.exit_code, confirmed.findings[0].numbers["confirmed"]) == (DRIFT, True)


def test_drift_is_not_confirmed_by_the_same_seeds_or_a_change_in_the_other_direction():
    low = campaign("02", (3, 4, 5), accuracy=0.8)
    for again in (campaign("03", (3, 4, 5), accuracy=0.8), campaign("03", (6, 7, 8), accuracy=0.99)):
        assert detect_drift(again, [FIRST, low], [FIRST]).exit_code == WARNING


def test_a_variant_that_begins_to_diverge_gives_a_warning_then_drift():
    """Five of five seeds completed, then none of five: Fisher's exact test gives p = 1/126. For three, p = 1/10."""
    baseline = campaign("01", range(5))
    first, again = (diverged(campaign(f"0{n}", range(5 * n, 5 * n + 5)), *range(5 * n, 5 * n + 5)) for n in (2, 3))
    warned = detect_drift(first, [baseline], [baseline])
    assert warned.exit_code == WARNING
    said = warned.findings[0]
    assert (said.code, said.numbers["now"], said.numbers["then"]) == ("drift.completed", 0, 1)
    confirmed = detect_drift(again, [baseline, first], [baseline])
    assert (confirmed.exit_code, confirmed.findings[0].numbers["confirmed"]) == (DRIFT, True)
    assert detect_drift(again, [first], [first]).exit_code == FINE  # as ever
    assert detect_drift(diverged(LATER, 3, 4, 5), [FIRST], [FIRST]).exit_code == TOO_LITTLE


def three(**changes) -> list[CampaignEntry]:
    """Three campaigns on seeds 3 to 11, everything so many times as slow."""
    made = [campaign(f"0{number}", range(3 * number, 3 * number + 3), **changes) for number in (1, 2, 3)]
    return [slower(one, times) for one, times in zip(made, (1.0, 1.01, 0.99), strict=True)]


def test_a_slower_machine_gives_a_warning_only_if_three_campaigns_are_pinned():
    """One campaign does not show how the machine varies. Relative times stay the same."""
    pinned = three()
    later = slower(campaign("04", (12, 13, 14)), 1.2)
    assert detect_drift(later, pinned[:1], pinned[:1]).exit_code == FINE
    found = detect_drift(later, pinned, pinned)
    assert found.exit_code == WARNING
    assert {(finding.numbers["variant"], finding.code) for finding in found.findings} == {("float32", f"drift.{TIME}")}
    assert found.findings[0].numbers["slowdown"] == pytest.approx(1.2, abs=0.001)
    assert detect_drift(slower(later, 1.02 / 1.2), pinned, pinned).exit_code == FINE


def test_times_are_relative_to_the_mean_of_the_baselines_two_processes():
    """The second process takes 6 % more, so the mean takes √1.06 = 1.0296 times as long, and others 0.9713 of it."""
    launches = [
        each.model_copy(update={"slowdowns": each.slowdowns | {REPEAT: 1.06 * each.slowdowns[REPEAT]}})
        for each in LATER.launches
        if each.benchmark == "wide"
    ]
    pinned = timed_for(FIRST, "wide")
    found = detect_drift(LATER.model_copy(update={"launches": launches}), [pinned], [pinned])
    ratios = {finding.numbers["variant"]: finding.numbers["slowdown"] for finding in found.findings}
    expected = {REPEAT: 1.06} | dict.fromkeys(("float32_2x", "mixed", "mixed_2x"), 1.06**-0.5)
    assert ratios == pytest.approx(expected, rel=1e-6)


def test_a_pinned_campaign_whose_runs_diverged_is_left_out_of_the_band():
    """Means of 90, 85 and 95 %: campaigns vary, and one at 80 % is nothing new."""
    seeds = range(12, 15)
    pinned = [campaign(f"0{n}", range(3 * n, 3 * n + 3), accuracy) for n, accuracy in ((1, 0.9), (2, 0.85), (3, 0.95))]
    pinned.append(diverged(campaign("04", seeds), *seeds))
    assert detect_drift(campaign("05", (15, 16, 17), accuracy=0.8), pinned, pinned) == (FINE, [], [])


@pytest.mark.parametrize(
    "environment", [{"driver": "590"}, {"lock_sha256": "newer"}, {"num_cpus": 64}, {"image": IMAGE}]
)
def test_other_hardware_or_software_starts_another_series(environment, tmp_path):
    other = campaign("02", (3, 4, 5), accuracy=0.5, environment=environment)
    append(FIRST, tmp_path)
    pin(["01"], tmp_path)
    judgement = detect_drift(other, read_ledger(tmp_path), read_baseline(other.series, tmp_path))
    assert judgement.exit_code == TOO_LITTLE
    assert judgement.reasons == [Said("drift.no_baseline", {"series": other.series, "campaign": "02"})]


def test_ledger_entries_are_never_overwritten(tmp_path):
    path = append(FIRST, tmp_path)
    before = path.read_bytes()
    assert append(FIRST, tmp_path) == path
    with pytest.raises(InputError, match=r"01\.json already holds a different campaign"):
        append(campaign("01", accuracy=0.5), tmp_path)
    assert path.read_bytes() == before
    append(campaign("00"), tmp_path)
    assert [old.campaign for old in read_ledger(tmp_path)] == ["00", "01"]


def test_a_baseline_needs_existing_campaigns_of_one_series(tmp_path):
    append(FIRST, tmp_path)
    with pytest.raises(InputError, match=r"07\.json is missing\. To enter the campaign in the ledger"):
        pin(["07"], tmp_path)
    append(campaign("02", environment={"driver": "590"}), tmp_path)
    with pytest.raises(InputError, match="01, 02 belong to 2 series"):
        pin(["01", "02"], tmp_path)


@pytest.fixture
def collected(tmp_path, monkeypatch) -> Path:
    """A finished campaign, whose tables and verdicts are there."""
    folder = tmp_path / "campaigns" / "first"
    folder.mkdir(parents=True)
    prepare(folder)
    remake(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(collect, "missing_elements", lambda *_, **__: [])
    monkeypatch.setattr(collect, "_report", lambda: None)
    return folder


def status_after_collecting(folder: Path, error: type[BaseException] = SystemExit) -> dict:
    with pytest.raises(error):
        collect.main(argparse.Namespace(wait=0))
    return json.loads((folder / "results" / "status.json").read_text())


def test_a_campaign_is_compared_with_its_baseline_once_one_is_pinned(collected, capsys):
    status = status_after_collecting(collected)
    assert (status["exit_code"], status["ledger"]) == (TOO_LITTLE, "../ledger/first.json")
    assert "python -m stages.pin --campaign first" in capsys.readouterr().out
    assert status["advice"]
    pinned = stage(collected.parents[1], "pin", "--campaign", "first")
    assert pinned.stdout.startswith(f"baseline of series {status['series']}: first, in campaigns/ledger/baseline.json")
    assert status_after_collecting(collected)["exit_code"] == FINE  # entered once, and its own baseline
    assert "Nothing has changed since the baseline" in capsys.readouterr().out


def test_a_crash_while_collecting_is_written_to_the_status(collected, monkeypatch):
    monkeypatch.setattr(collect, "entry", lambda *_: 1 / 0)
    status = status_after_collecting(collected, ZeroDivisionError)
    assert status == {"exit_code": 1, "reasons": ["ZeroDivisionError: division by zero"]}
