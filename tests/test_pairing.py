import pytest
from conftest import small_study

from pipeline.errors import InputError
from pipeline.pairing import check_comparable
from pipeline.study import RunKey


@pytest.fixture
def records(make_record):
    return {key: make_record(key) for key in small_study().runs()}


def refusal(records) -> str:
    with pytest.raises(InputError) as caught:
        check_comparable(small_study(), records)
    return str(caught.value)


def test_runs_that_differ_only_in_what_is_varied_are_comparable(records):
    check_comparable(small_study(), records)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("campaign", "campaign"),
        ("engine", "engine"),
        ("data_sha256", "data"),
        ("initial_weights_sha256", "initial weights"),
    ],
)
def test_a_run_that_is_not_like_its_partners_is_refused_by_name(records, field, what):
    key = RunKey("wide", "mixed", 1)
    records[key] = records[key].model_copy(update={field: "other"})
    message = refusal(records)
    assert f"runs/wide/mixed/seed-1 can't be compared: they differ in {what} (" in message
    assert message.endswith(
        "; other). Make the odd ones again here: dvc repro --force --single-item train@1-wide-mixed"
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"accelerators": [{"name": "V100", "compute_capability": "7.0"}]}, "device (Example CPU, 2 cores; V100)"),
        ({"num_cpus": 8}, "device (Example CPU, 2 cores; Example CPU, 8 cores)"),
        ({"lock_sha256": "newer"}, "locked packages (l; newer)"),
    ],
)
def test_a_run_from_another_machine_or_with_other_packages_is_refused(records, changes, what):
    key = RunKey("narrow", "float32", 2)
    environment = records[key].environment | changes
    records[key] = records[key].model_copy(update={"environment": environment})
    assert f"they differ in {what}" in refusal(records)


def test_seeds_may_start_from_different_weights_and_benchmarks_use_different_data(records):
    for key, record in records.items():
        changes = {"initial_weights_sha256": str(key.seed), "data_sha256": key.benchmark}
        records[key] = record.model_copy(update=changes)
    check_comparable(small_study(), records)


def test_where_no_side_is_in_the_majority_all_are_made_again(records):
    for seed in range(3):
        for variant in ("mixed", "mixed_2x"):
            key = RunKey("wide", variant, seed)
            records[key] = records[key].model_copy(update={"initial_weights_sha256": "other"})
    lines = refusal(records).splitlines()
    assert len(lines) == 3  # one a seed
    assert lines[0].endswith("train@0-wide-float32 train@0-wide-float32_2x train@0-wide-mixed train@0-wide-mixed_2x")


def test_missing_partners_are_named_with_their_stages(records):
    del records[RunKey("wide", "mixed", 1)]
    assert refusal(records) == "runs/wide/mixed/seed-1 is missing. Make the runs: dvc repro train@1-wide-mixed"
    del records[RunKey("narrow", "float32", 2)]
    assert refusal(records) == (
        "runs/wide/mixed/seed-1, runs/narrow/float32/seed-2 are missing. "
        "Make the runs: dvc repro train@1-wide-mixed train@2-narrow-float32"
    )


def test_runs_the_study_no_longer_names_do_not_matter(records, make_record):
    key = RunKey("wide", "mixed", 9)
    records[key] = make_record(key, engine="jax")
    check_comparable(small_study(), records)
