"""Sittings: what a measurement leaves in the file of them, and the interval that a study takes from there."""

import math
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from conftest import DEVICE, REPOSITORY, epoch_records, planned_record, small_study, timed, write_speeds
from projects import stage
from studies import composed

from pipeline.comparison import paired_runs
from pipeline.comparison.finished_runs import Run, read_circumstances
from pipeline.comparison.sittings import SittingRow, read_sittings, rows_of, spread_between, write_sittings
from pipeline.errors import InputError
from pipeline.study.schema import Study

SECONDS = {"float32": 8.0, "float32_2x": 4.0, "mixed": 2.0, "mixed_2x": 0.5}
SPEEDS = timed(small_study(), SECONDS, spread=0.02)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def rows(tmp_path) -> list[SittingRow]:
    """One sitting of the small study."""
    write_speeds(tmp_path, small_study(), SECONDS, spread=0.02)
    circumstances = read_circumstances("wide", tmp_path / "results/speed")
    return list(rows_of(small_study(), "wide", SPEEDS["wide"], circumstances, NOON))


@pytest.fixture
def six(rows) -> list[SittingRow]:
    """Six of them a day apart, whose ratios have the variance 0.035 and no errors of their own."""
    return [
        row.model_copy(update={"measured_at": NOON + timedelta(day), "log_ratio": day / 10, "standard_error": 0.0})
        for day in range(6)
        for row in rows
    ]


def test_a_sitting_has_a_row_for_each_pair_with_what_its_turns_say(rows):
    assert {row.baseline for row in rows} == {"float32"}
    assert [row.candidate for row in rows] == ["float32_2x", "mixed", "mixed_2x"]
    own = SPEEDS["wide"].log_speedup("float32", "mixed")
    found = (rows[1].log_ratio, rows[1].standard_error, rows[1].degrees_of_freedom)
    assert found == (own.mean, own.error, own.degrees_of_freedom)


def test_what_is_written_is_what_is_read(rows, tmp_path):
    assert read_sittings(tmp_path) == []
    write_sittings(rows, tmp_path)
    assert read_sittings(tmp_path) == rows
    text = (tmp_path / "sittings.csv").read_text()
    (tmp_path / "sittings.csv").write_text(text.replace(rows[0].timed_as, "no digest"))
    with pytest.raises(InputError, match="timed_as"):
        read_sittings(tmp_path)


def test_only_the_same_pair_of_the_same_recipe_on_the_same_device_is_one_contrast(six):
    study, here = small_study(), six[0].device
    measured = spread_between(six, study, "wide", "float32", "mixed", here)
    assert (measured.spread, measured.num_sittings) == (pytest.approx(math.sqrt(0.035)), 6)
    smaller = study.model_dump(mode="json")["benchmarks"]
    smaller["wide"] |= {"batch_size": 8}
    for other in (
        spread_between(six, study, "wide", "float32", "mixed", "Example GPU"),
        spread_between(six, small_study(benchmarks=smaller), "wide", "float32", "mixed", here),
        spread_between(six, study, "narrow", "float32", "float32_2x", here),
    ):
        assert (other.spread, other.degrees_of_freedom, other.num_sittings) == (0.06, 6, 0)


def test_what_does_not_decide_about_speed_leaves_a_contrast_as_it_is(six):
    variants = small_study().model_dump(mode="json")["variants"]
    twin = {"scaled": variants["mixed"] | {"learning_rate_multiplier": 2.0}}
    study = small_study(variants=variants | twin, campaign="second", seeds=[7])
    for candidate in ("mixed", "scaled"):
        assert spread_between(six, study, "wide", "float32", candidate, six[0].device).num_sittings == 6
    assert spread_between(six, study, "wide", "mixed", "scaled", six[0].device).spread == 0


def test_a_pair_has_the_interval_of_other_days_beside_that_of_its_sitting(six):
    study = small_study()
    runs = {key: Run(planned_record(key), epoch_records(9.0, 1.0)) for key in study.runs()}
    here = [row.model_copy(update={"device": DEVICE}) for row in six]
    pair = paired_runs.compare(study, runs, SPEEDS, DEVICE, here).find("wide", "mixed")
    assert pair.sitting_speedup == SPEEDS["wide"].speedup("float32", "mixed")
    assert pair.speedup.ratio == pair.sitting_speedup.ratio
    assert math.log(pair.speedup.high / pair.speedup.ratio) > 2.57 * math.sqrt(0.035)
    assert pair.between_sittings.num_sittings == 6
    unmeasured = paired_runs.compare(study, runs, SPEEDS, DEVICE).find("wide", "mixed")
    assert 2.44 * 0.06 < math.log(unmeasured.speedup.high / unmeasured.speedup.ratio) < 2.57 * math.sqrt(0.035)


def test_the_command_enters_a_sitting_once(tmp_path):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_study().model_dump(mode="json")))
    write_speeds(tmp_path, small_study(), SECONDS, spread=0.02)
    noon, same, later = (
        stage(tmp_path, "sittings", "--measured-at", f"2026-01-01T{at}")
        for at in ("12:00+00:00", "13:30+01:00", "13:00+00:00")
    )
    assert (noon.returncode, same.returncode, later.returncode) == (0, 2, 0)
    assert "one sitting" in same.stderr
    assert "wide: mixed beside float32: 4." in later.stdout
    assert len({row.measured_at for row in read_sittings(tmp_path)}) == 2


def test_the_sittings_of_this_project_are_of_its_profile_quick():
    study, rows = Study.model_validate(composed("profile=quick")), read_sittings(REPOSITORY)
    for row in rows:
        between = spread_between(rows, study, row.benchmark, row.baseline, row.candidate, row.device)
        assert between.num_sittings == len({other.measured_at for other in rows if other.device == row.device})
