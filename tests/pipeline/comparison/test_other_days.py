"""Sittings: what a measurement leaves in the file of them, and the interval that a study takes from there."""

import math
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from conftest import REPOSITORY, epoch_records, planned_record, small_study, timed, write_speeds
from projects import stage
from studies import composed

from pipeline.comparison import paired_runs
from pipeline.comparison.comparable import device
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.sittings import read_sittings, rows_of, spread_between, write_sittings
from pipeline.errors import InputError
from pipeline.files.untrusted import read_json
from pipeline.records.blocks import Circumstances
from pipeline.study.schema import Study

SECONDS = {"float32": 8.0, "float32_2x": 4.0, "mixed": 2.0, "mixed_2x": 0.5}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def rows(tmp_path):
    """One sitting of the small study."""
    study = small_study()
    write_speeds(tmp_path, study, SECONDS, spread=0.02)
    speeds = timed(study, SECONDS, spread=0.02)
    circumstances = read_json(Circumstances, tmp_path / "results/speed/wide.json", None)
    return list(rows_of(study, "wide", speeds["wide"], circumstances, NOON))


def sittings(rows, log_ratios):
    """As many sittings, a day apart, with these log ratios of every pair and no errors of their own."""
    return [
        row.model_copy(update={"measured_at": NOON + timedelta(days=day), "log_ratio": found, "standard_error": 0.0})
        for day, found in enumerate(log_ratios)
        for row in rows
    ]


def test_a_sitting_has_a_row_for_each_pair_with_what_its_turns_say(rows):
    assert [(row.baseline, row.candidate) for row in rows] == [
        ("float32", "float32_2x"),
        ("float32", "mixed"),
        ("float32", "mixed_2x"),
    ]
    own = timed(small_study(), SECONDS, spread=0.02)["wide"].log_speedup("float32", "mixed")
    assert (rows[1].log_ratio, rows[1].standard_error) == (own.mean, own.error)
    assert rows[1].degrees_of_freedom == own.degrees_of_freedom


def test_what_is_written_is_what_is_read(rows, tmp_path):
    assert read_sittings(tmp_path) == []
    write_sittings(rows, tmp_path)
    assert read_sittings(tmp_path) == rows
    text = (tmp_path / "sittings.csv").read_text()
    (tmp_path / "sittings.csv").write_text(text.replace(rows[0].timed_as, "no digest"))
    with pytest.raises(InputError, match="timed_as"):
        read_sittings(tmp_path)


def test_only_the_same_pair_of_the_same_recipe_on_the_same_device_is_one_contrast(rows):
    many = sittings(rows, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    study = small_study()
    asked = ("wide", "float32", "mixed")
    measured = spread_between(many, study, *asked, rows[0].device)
    assert (measured.spread, measured.num_sittings) == (pytest.approx(math.sqrt(0.035)), 6)
    smaller = study.model_dump(mode="json")["benchmarks"]
    smaller["wide"] |= {"batch_size": 8}
    for other in (
        spread_between(many, study, *asked, "Example GPU"),
        spread_between(many, small_study(benchmarks=smaller), *asked, rows[0].device),
        spread_between(many, study, "narrow", "float32", "float32_2x", rows[0].device),
    ):
        assert (other.spread, other.degrees_of_freedom, other.num_sittings) == (0.06, 6, 0)


def test_what_does_not_decide_about_speed_leaves_a_contrast_as_it_is(rows):
    values = small_study().model_dump(mode="json")
    twin = {"scaled": values["variants"]["mixed"] | {"learning_rate_multiplier": 2.0}}
    study = small_study(variants=values["variants"] | twin, campaign="second", seeds=[7])
    many = sittings(rows, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    for candidate in ("mixed", "scaled"):
        assert spread_between(many, study, "wide", "float32", candidate, rows[0].device).num_sittings == 6
    assert spread_between(many, study, "wide", "mixed", "scaled", rows[0].device).spread == 0


def test_a_pair_has_the_interval_of_other_days_beside_that_of_its_sitting(rows):
    study = small_study()
    runs = {key: Run(planned_record(key), epoch_records(9.0, 1.0)) for key in study.runs()}
    where = device(next(iter(runs.values())).record.environment)
    many = [row.model_copy(update={"device": where}) for row in sittings(rows, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])]
    speeds = timed(study, SECONDS, spread=0.02)
    pair = paired_runs.compare(study, runs, speeds, many).find("wide", "mixed")
    own = speeds["wide"].speedup("float32", "mixed")
    assert pair.sitting_speedup == own
    assert pair.speedup.ratio == own.ratio
    assert math.log(pair.speedup.high / pair.speedup.ratio) > 2.57 * math.sqrt(0.035)
    assert pair.between_sittings.num_sittings == 6
    unmeasured = paired_runs.compare(study, runs, speeds).find("wide", "mixed")
    assert 2.44 * 0.06 < math.log(unmeasured.speedup.high / unmeasured.speedup.ratio) < 2.57 * math.sqrt(0.035)


def test_the_command_enters_a_sitting_once(tmp_path):
    study = small_study()
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    write_speeds(tmp_path, study, SECONDS, spread=0.02)

    def enter(at: str) -> subprocess.CompletedProcess[str]:
        return stage(tmp_path, "sittings", "--measured-at", at)

    assert enter("2026-01-01T12:00+00:00").returncode == 0
    again = enter("2026-01-01T13:30+01:00")
    assert (again.returncode, "one sitting" in again.stderr) == (2, True)
    later = enter("2026-01-01T13:00+00:00")
    assert later.returncode == 0
    assert "wide: mixed beside float32: 4." in later.stdout
    assert len({row.measured_at for row in read_sittings(tmp_path)}) == 2


def test_the_sittings_of_this_project_are_of_its_profile_quick():
    study, rows = Study.model_validate(composed("profile=quick")), read_sittings(REPOSITORY)
    for row in rows:
        between = spread_between(rows, study, row.benchmark, row.baseline, row.candidate, row.device)
        assert between.num_sittings == len({other.measured_at for other in rows})
