"""Scheduled repetitions: the ledger, the band around the baseline, warning and confirmation."""

import argparse
import csv
import json
import math
import shutil
import subprocess

import numpy as np
import pytest
import yaml
from conftest import benchmark, planned_record, small_study, timed, timed_blocks, write_small_run
from projects import stage
from scipy import stats

import stages.drift
from bench.drift import rates
from pipeline.campaign.alarm import DRIFT, FINE, INVALID, TOO_LITTLE, WARNING, detect_drift
from pipeline.campaign.ledger import append, entry, pin, read_baseline, read_ledger
from pipeline.errors import InputError
from pipeline.report.answers import answers
from pipeline.report.results import load_results
from pipeline.statistics.drift import shift, shift_of_speeds
from pipeline.statistics.speeds import speeds_of


def campaign(name, seeds=(0, 1, 2), accuracy=0.9, seconds=1.0, variant="mixed", environment=None, **changes):
    """A campaign of the small study; `accuracy` and `seconds` are those of one variant, of `wide`.

    Accuracies vary by seed, seconds by launch: as much for all, and besides by 0.4 % for each.
    """
    study = small_study(campaign=name, seeds=list(seeds))
    records = {}
    for key in study.runs():
        offset = 0.001 * (key.seed % 3)
        chosen = (key.benchmark, key.variant) == ("wide", variant)
        values = {"final_test_accuracy": (accuracy if chosen else 0.9) + offset}
        record = planned_record(key, campaign=name, **(values | changes))
        update = {"started_at": f"2026-{name}", "environment": record.environment | (environment or {})}
        records[key] = record.model_copy(update=update)
    speeds = {
        benchmark: timed(study, {variant: seconds} if benchmark == "wide" else {}, spread=0.004)[benchmark]
        for benchmark in study.benchmarks
    }
    return entry(study, records, speeds)


def test_the_band_by_hand():
    """Mean 1 and standard deviation 1 of three values; t(.995, 2) = 9.925; three fresh ones: 9.925 · √(2/3) = 8.104."""
    found = shift([[0.0, 1.0, 2.0]], [9.0, 9.0, 9.1], 0.0)
    assert found.allowed == pytest.approx(8.1036, abs=1e-4)
    assert (found.baseline, found.direction) == (1.0, None)
    assert shift([[0.0, 1.0, 2.0]], [9.2, 9.2, 9.2], 0.0).direction == "up"
    assert shift([[0.0, 1.0, 2.0]], [-7.2, -7.2, -7.2], 0.0).direction == "down"
    assert shift([[0.0, 1.0, 2.0]], [9.2, 9.2, 9.2], 8.3).direction is None  # negligible


def test_three_campaigns_show_how_campaigns_vary():
    """Means 0, 3 and 6, each sure to a hair: the band is that of one new campaign among three."""
    pinned = [[-0.1, 0.1], [2.9, 3.1], [5.9, 6.1]]
    found = shift(pinned, [20.0, 20.2], 0.0)
    assert found.allowed == pytest.approx(stats.t.ppf(0.995, 2) * 3 * math.sqrt(1 + 1 / 3))
    assert found.direction is None


def test_a_mean_of_fewer_seeds_than_the_pinned_ones_has_a_wider_band():
    """Means 0, 1 and 2 of two values with variance 0.5 within a campaign; one fresh value adds 0.5 · (1 − 1/2)."""
    pinned = [[mean - 0.5, mean + 0.5] for mean in (0.0, 1.0, 2.0)]
    quantile = stats.t.ppf(0.995, 2)
    assert shift(pinned, [1.0, 1.0], 0.0).allowed == pytest.approx(quantile * math.sqrt(4 / 3))
    assert shift(pinned, [1.0, 1.0, 1.0], 0.0).allowed == pytest.approx(quantile * math.sqrt(4 / 3))
    assert shift(pinned, [1.0], 0.0).allowed == pytest.approx(quantile * math.sqrt(4 / 3 + 0.25))
    rng, outside = np.random.default_rng(0), 0
    for _ in range(1000):
        shifted = shift(list(rng.standard_normal((6, 5))), list(rng.standard_normal(1)), 0.0)
        outside += shifted.direction is not None
    assert outside <= 25


def test_too_few_values_give_no_band():
    assert shift([[0.0, 1.0]], [5.0], 0.0) is None
    assert shift([[0.0, 1.0, 2.0]], [], 0.0) is None
    assert shift([], [5.0], 0.0) is None


def test_false_alarms_are_as_rare_as_the_band_says():
    """1 % warn and next to none is confirmed, where seeds are all that varies; one pinned campaign can't see more."""
    found = rates(np.random.default_rng(0), num_seeds=5, num_pinned=1, between=0.0, moved=0.0, num_histories=4000)
    assert 0.005 < found["warned"] < 0.016
    assert found["confirmed"] < 0.005
    moved = rates(np.random.default_rng(0), num_seeds=5, num_pinned=1, between=0.0, moved=6.0, num_histories=500)
    assert moved["confirmed"] > 0.9


def test_nothing_changed():
    judgement = detect_drift(campaign("02", seeds=(3, 4, 5)), [campaign("01")], [campaign("01")])
    assert judgement == (FINE, [], [])


@pytest.mark.parametrize(
    ("changes", "quantity", "direction"),
    [
        ({"accuracy": 0.8}, "test accuracy", "down"),
        ({"accuracy": 0.99}, "test accuracy", "up"),  # better alerts too
        ({"seconds": 1.05}, "training time over the baseline's", "up"),
        ({"seconds": 0.95}, "training time over the baseline's", "down"),
    ],
)
def test_a_change_warns_and_is_confirmed_by_fresh_seeds_in_the_same_direction(changes, quantity, direction):
    baseline = campaign("01")
    first, again = campaign("02", (3, 4, 5), **changes), campaign("03", (6, 7, 8), **changes)
    warned = detect_drift(first, [baseline], [baseline])
    assert (warned.exit_code, len(warned.findings)) == (WARNING, 1)
    finding = warned.findings[0]
    assert (finding.benchmark, finding.variant, finding.quantity) == ("wide", "mixed", quantity)
    assert (finding.shift.direction, finding.confirmed) == (direction, False)
    confirmed = detect_drift(again, [baseline, first], [baseline])
    assert (confirmed.exit_code, confirmed.findings[0].confirmed) == (DRIFT, True)
    assert "outside for the second time, on other seeds" in str(confirmed.findings[0])


def test_the_same_seeds_again_or_the_other_direction_confirm_nothing():
    baseline, low = campaign("01"), campaign("02", (3, 4, 5), accuracy=0.8)
    assert detect_drift(campaign("03", (3, 4, 5), accuracy=0.8), [baseline, low], [baseline]).exit_code == WARNING
    assert detect_drift(campaign("03", (6, 7, 8), accuracy=0.99), [baseline, low], [baseline]).exit_code == WARNING


def test_two_percent_of_time_are_negligible():
    baseline = campaign("01")
    assert detect_drift(campaign("02", (3, 4, 5), seconds=1.01), [baseline], [baseline]).exit_code == FINE


def test_a_slower_machine_shows_where_three_campaigns_are_pinned():
    """One campaign does not say how the machine varies; what variants take beside each other stays the same."""
    pinned = [
        slower(campaign(f"0{number}", range(3 * number, 3 * number + 3)), times)
        for number, times in enumerate((1.0, 1.01, 0.99), start=1)
    ]
    later = slower(campaign("04", (12, 13, 14)), 1.2)
    assert detect_drift(later, pinned[:1], pinned[:1]).exit_code == FINE
    found = detect_drift(later, pinned, pinned)
    assert found.exit_code == WARNING
    assert {(finding.variant, finding.quantity) for finding in found.findings} == {("float32", "training time")}
    assert "training time 1.200× what it was" in str(found.findings[0])
    assert detect_drift(slower(later, 1.02 / 1.2), pinned, pinned).exit_code == FINE


def slower(campaign, times):
    """The same campaign, everything `times` as slow."""
    update = [launch.model_copy(update={"epoch_seconds": times * launch.epoch_seconds}) for launch in campaign.launches]
    return campaign.model_copy(update={"launches": update})


def seldom(name, seeds, variants, seconds=1.0):
    """The small study, where `variants` of `wide` have blocks in the first and last of four turns alone.

    All variants of `wide` take `seconds`.
    """
    study = small_study(campaign=name, seeds=list(seeds))
    records = {key: planned_record(key, campaign=name) for key in study.runs()}
    blocks = timed_blocks(study, "wide", dict.fromkeys(study.variants, seconds), spread=0.004)
    turns = {name: {0: [0], 1: [1], 2: [4] if name in variants else [2, 3, 4]} for name in {b.variant for b in blocks}}
    blocks = [b.model_copy(update={"turn": turn}) for b in blocks for turn in turns[b.variant][b.turn]]
    speeds = timed(study, {}, spread=0.004) | {"wide": speeds_of(study, "wide", blocks)}
    return entry(
        study, {key: record.model_copy(update={"started_at": name}) for key, record in records.items()}, speeds
    )


@pytest.mark.parametrize("others", [(), ("baseline_again", "float32_2x", "mixed", "mixed_2x")])
def test_the_time_of_a_baseline_that_has_few_blocks_is_judged_as_the_baselines(others):
    variants = ("float32", *others)
    pinned = [
        seldom(f"0{number}", range(3 * number, 3 * number + 3), variants, 1 + number / 100) for number in (1, 2, 3)
    ]
    same = detect_drift(seldom("04", (12, 13, 14), variants), pinned, pinned)
    assert same == (TOO_LITTLE, [], ["wide: no measurement of speed counts"])  # of the others beside it
    found = detect_drift(seldom("05", (15, 16, 17), variants, 2.0), pinned, pinned)
    assert (found.exit_code, found.reasons) == (WARNING, same.reasons)
    assert [(finding.variant, finding.quantity) for finding in found.findings] == [("float32", "training time")]


def test_a_benchmark_whose_speed_does_not_count_is_named():
    baseline, later = campaign("01"), campaign("02", (3, 4, 5))
    quiet = [launch for launch in later.launches if launch.benchmark == "narrow"]
    disturbed = detect_drift(later.model_copy(update={"launches": quiet}), [baseline], [baseline])
    assert disturbed == (TOO_LITTLE, [], ["wide: no measurement of speed counts"])
    without = baseline.model_copy(update={"launches": quiet})
    assert detect_drift(later, [without], [without]) == (
        TOO_LITTLE,
        [],
        ["wide: of the baseline, no measurement of speed counts"],
    )


def test_a_variant_that_is_timed_on_one_side_alone_is_named():
    """One that has become much slower has too few blocks to be judged."""
    baseline, later = campaign("01"), seldom("02", (3, 4, 5), ("mixed",))
    assert detect_drift(later, [baseline], [baseline]) == (
        TOO_LITTLE,
        [],
        ["wide mixed: timed often enough in the baseline, and no longer"],
    )
    assert detect_drift(baseline, [later], [later]).reasons == [
        "wide mixed: timed often enough now, but not in all of the baseline"
    ]
    assert detect_drift(later, [later], [later]).exit_code == FINE


def test_a_variant_whose_spread_the_baseline_does_not_show_is_named():
    baseline = campaign("01")
    runs = [
        run.model_copy(update={"outcome": "diverged", "test_accuracy": None})
        if (run.variant, run.seed) == ("mixed", 0)
        else run
        for run in baseline.runs
    ]
    pinned = [baseline.model_copy(update={"runs": runs})]
    assert detect_drift(campaign("02", (3, 4, 5)), pinned, pinned) == (
        TOO_LITTLE,
        [],
        ["the baseline has fewer than three seeds of wide mixed: their spread is not known"],
    )


def test_a_pinned_campaign_in_which_a_variant_diverged_leaves_the_band_to_the_others():
    """Means of 90, 85 and 95 %: campaigns vary, and one at 87 % is nothing new."""
    pinned = [
        campaign(f"0{number}", range(3 * number, 3 * number + 3), accuracy=accuracy)
        for number, accuracy in enumerate((0.9, 0.85, 0.95, 0.9), start=1)
    ]
    lost = {"outcome": "diverged", "test_accuracy": None}
    runs = [run.model_copy(update=lost if run.variant == "mixed" else {}) for run in pinned[3].runs]
    pinned[3] = pinned[3].model_copy(update={"runs": runs})
    assert detect_drift(campaign("05", (15, 16, 17), accuracy=0.8), pinned, pinned) == (FINE, [], [])


def test_a_band_of_launches_by_hand():
    """Two launches of three variants; residuals ±0.01 and ∓0.005: 2 degrees of freedom, t(.995, 2) = 9.925."""
    pinned = np.array([[0.0, 0.12, 0.1], [0.0, 0.08, 0.1]])
    residuals = pinned - pinned.mean(axis=0) - pinned.mean(axis=1, keepdims=True) + pinned.mean()
    spread = math.sqrt((residuals**2).sum() / 2)
    found = shift_of_speeds([pinned], np.array([[0.0, 0.4, 0.1]] * 4), np.array([-1.0, 1.0, 0.0]), 0.0)
    assert found.allowed == pytest.approx(9.9248 * spread * math.sqrt(2) * math.sqrt(1 / 4 + 1 / 2), rel=1e-4)
    assert (found.mean, found.baseline) == (pytest.approx(0.4), pytest.approx(0.1))
    three = [pinned + shift for shift in (np.zeros(3), np.array([0, 0.01, 0]), np.array([0, 0.02, 0]))]
    among = shift_of_speeds(three, pinned, np.array([-1.0, 1.0, 0.0]), 0.0)
    assert among.allowed == pytest.approx(stats.t.ppf(0.995, 2) * 0.01 * math.sqrt(1 + 1 / 3))
    assert shift_of_speeds([pinned[:1]], pinned, np.array([-1.0, 1.0, 0.0]), 0.0) is None


@pytest.mark.parametrize("num_launches", [2, 6])
def test_false_alarms_of_speed_are_as_rare_as_the_band_says(num_launches):
    rng = np.random.default_rng(0)
    weights = np.array([-1.0, 1.0, 0.0, 0.0, 0.0])
    outside = []
    for _ in range(4000):
        pinned, fresh = 0.03 * rng.standard_normal((2, num_launches, 5))
        found = shift_of_speeds([pinned - pinned[:, :1]], fresh - fresh[:, :1], weights, 0.0)
        outside.append(found.direction is not None)
    assert 0.005 < np.mean(outside) < 0.016


@pytest.mark.parametrize(
    "environment",
    [{"driver": "590"}, {"lock_sha256": "newer"}, {"num_cpus": 64}, {"image": {"content_sha256": "c"}}],
)
def test_other_hardware_or_software_is_another_series(environment, tmp_path):
    other = campaign("02", (3, 4, 5), accuracy=0.5, environment=environment)
    append(campaign("01"), tmp_path)
    pin(["01"], tmp_path)
    judgement = detect_drift(other, read_ledger(tmp_path), read_baseline(other.series, tmp_path))
    assert judgement.exit_code == TOO_LITTLE
    assert judgement.reasons == [
        f"series {other.series} has no baseline: python -m stages.pin --campaign 02, and commit"
    ]


def test_a_variant_that_begins_to_diverge_warns_and_has_drifted():
    """Of five seeds all completed, and then none: Fisher's exact test gives p = 1/126. Three and three give 1/10."""

    def diverged(name, seeds):
        made, lost = campaign(name, seeds), {"outcome": "diverged", "test_accuracy": None}
        runs = [run.model_copy(update=lost if run.variant == "mixed" else {}) for run in made.runs]
        return made.model_copy(update={"runs": runs})

    baseline, first, again = campaign("01", range(5)), diverged("02", range(5, 10)), diverged("03", range(10, 15))
    warned = detect_drift(first, [baseline], [baseline])
    assert warned.exit_code == WARNING
    assert str(warned.findings[0]) == (
        "wide mixed: share of runs that complete is 0 %, it was 100 %; for the first time"
    )
    confirmed = detect_drift(again, [baseline, first], [baseline])
    assert (confirmed.exit_code, confirmed.findings[0].confirmed) == (DRIFT, True)
    assert detect_drift(again, [first], [first]).exit_code == FINE  # as ever
    three = campaign("01", range(3)), diverged("02", range(3, 6))
    assert detect_drift(three[1], three[:1], three[:1]).exit_code == TOO_LITTLE


def test_failed_runs_and_times_that_do_not_count():
    baseline = campaign("01")
    failed = campaign("02", (3, 4, 5), outcome="diverged", final_test_accuracy=None)
    assert detect_drift(failed, [baseline], [baseline])[::2] == (TOO_LITTLE, ["0 of 18 runs completed"])
    assert detect_drift(failed, [failed], [failed]).exit_code == FINE  # as ever
    disturbed = campaign("02", (3, 4, 5)).model_copy(update={"launches": []})
    assert detect_drift(disturbed, [baseline], [baseline])[::2] == (INVALID, ["no measurement of speed counts"])
    two = campaign("01", (0, 1))
    assert "fewer than three seeds" in detect_drift(campaign("02", (3, 4)), [two], [two]).reasons[0]


def test_the_ledger_is_never_changed(tmp_path):
    first = campaign("01")
    path = append(first, tmp_path)
    before = path.read_bytes()
    assert append(first, tmp_path) == path
    with pytest.raises(InputError, match=r"01\.json is there, and is another campaign"):
        append(campaign("01", accuracy=0.5), tmp_path)
    assert path.read_bytes() == before
    append(campaign("00"), tmp_path)
    assert [old.campaign for old in read_ledger(tmp_path)] == ["00", "01"]


def test_a_campaign_that_is_named_twice_is_pinned_once(tmp_path):
    """Three times the same one would be three campaigns that do not vary at all."""
    append(campaign("01"), tmp_path)
    append(campaign("02", (3, 4, 5)), tmp_path)
    series = pin(["01", "02", "01"], tmp_path)
    assert [old.campaign for old in read_baseline(series, tmp_path)] == ["01", "02"]


def test_what_is_damaged_or_missing_is_named(tmp_path):
    append(campaign("01"), tmp_path)
    with pytest.raises(InputError, match=r"07\.json is missing: there is no such campaign"):
        pin(["07"], tmp_path)
    append(campaign("02", environment={"driver": "590"}), tmp_path)
    with pytest.raises(InputError, match="01, 02 are of 2 series"):
        pin(["01", "02"], tmp_path)
    (tmp_path / "baseline.json").write_text("[]")
    with pytest.raises(InputError, match=r"baseline\.json is damaged"):
        read_baseline("x", tmp_path)
    (tmp_path / "02.json").write_text("{")
    with pytest.raises(InputError, match=r"02\.json is damaged .* Get it back: git checkout"):
        read_ledger(tmp_path)


@pytest.fixture
def finished(rendered, tmp_path):
    """The rendered small study, as a campaign named `first`."""
    return shutil.copytree(rendered, tmp_path / "campaign", symlinks=True)


def drift(folder, module="drift", *arguments) -> subprocess.CompletedProcess[str]:
    return stage(folder, module, *arguments)


def test_the_commands_from_the_first_campaign_to_the_next(finished):
    first = drift(finished)
    assert first.returncode == TOO_LITTLE, first.stderr
    assert "has no baseline: python -m stages.pin --campaign first, and commit" in first.stdout
    status = json.loads((finished / "results" / "status.json").read_text())
    assert (status["exit_code"], status["ledger"]) == (TOO_LITTLE, "history/first.json")
    assert status["advice"]
    pinned = drift(finished, "pin", "--campaign", "first")
    assert pinned.stdout.startswith(f"baseline of series {status['series']}: first; commit history/baseline.json")
    again = drift(finished)  # the same campaign is not entered twice, and is its own baseline
    assert again.returncode == FINE
    assert "nothing has changed since the baseline" in again.stdout


def test_a_fault_of_the_input_is_in_the_status_too(finished):
    study = small_study(seeds=[0, 1, 2, 3])
    (finished / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    done = drift(finished)
    assert done.returncode == 2
    status = json.loads((finished / "results" / "status.json").read_text())
    assert status["exit_code"] == 2
    assert "runs/narrow/float32/seed-3/record.json is missing" in status["reasons"][0]
    assert not (finished / "history").exists()


def test_a_crash_is_in_the_status_in_place_of_the_last_campaigns(finished, monkeypatch):
    (finished / "results" / "status.json").write_text('{"exit_code": 0}')
    monkeypatch.chdir(finished)

    def crash(*_):
        raise RuntimeError("no more file handles")

    monkeypatch.setattr(stages.drift, "entry", crash)
    with pytest.raises(RuntimeError):
        stages.drift.main(argparse.Namespace())
    status = json.loads((finished / "results" / "status.json").read_text())
    assert (status["exit_code"], status["reasons"]) == (1, ["RuntimeError: no more file handles"])


@pytest.fixture
def compared(finished):
    """The study with two warm-up epochs of four, compared again; of `mixed` at the first seed the loss diverged."""
    study = small_study(
        benchmarks={name: benchmark(units, num_epochs=4) for name, units in (("wide", 16), ("narrow", 8))},
        comparison={"baseline": "float32", "num_warmup_epochs": 2, "margin_pp": {"wide": 1.0, "narrow": 1.0}},
    )
    (finished / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    failed = {"outcome": "diverged", "final_test_accuracy": None}
    for key in study.runs():
        changes = failed if (key.variant, key.seed) == ("mixed", 0) else {}
        write_small_run(finished, planned_record(key, study, **changes), 9.0, 4.0, 1.0, 1.5 + key.seed)
    done = drift(finished, "compare")
    assert done.returncode == 0, done.stderr
    return finished


def test_the_ledger_has_the_speeds_that_the_report_compares(compared):
    drift(compared)
    ledger = json.loads((compared / "history" / "first.json").read_text())
    pairs = json.loads((compared / "results" / "comparison.json").read_text())["pairs"]
    compared_pairs = [pair for pair in pairs if pair["baseline"] == "float32"]
    assert compared_pairs
    for pair in compared_pairs:
        logs = [
            np.log(launch["slowdowns"][pair["candidate"]]) - (np.log(launch["slowdowns"]["baseline_again"])) / 2
            for launch in ledger["launches"]
            if launch["benchmark"] == pair["benchmark"]
        ]
        assert math.exp(-np.mean(logs)) == pytest.approx(pair["speedup"]["ratio"])


def test_the_columns_of_a_run_agree_about_its_times(compared):
    with (compared / "results" / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["steady_epoch_seconds"] for row in rows} == {"1.25", "1.75", "2.25"}
    for row in rows:
        assert row["excluded_epochs"] == "[1, 2]"


def test_memory_in_the_report_is_of_completed_runs(compared):
    found = load_results(compared)
    changed = [run | {"peak_memory_bytes": 2**20 * (1 + (run["outcome"] != "completed"))} for run in found.runs]
    rows = {row.name: row for row in answers(found._replace(runs=changed), "wide")}
    assert rows["mixed"].found.completed.count == 2
    assert {row.peak_memory_bytes for row in rows.values()} == {2**20}
