import pytest
from conftest import planned_record, small_study

from pipeline.errors import InputError
from pipeline.pairing import check_comparable
from pipeline.study import RunKey


@pytest.fixture
def records():
    return {key: planned_record(key) for key in small_study().runs()}


def refusal(records) -> str:
    with pytest.raises(InputError) as caught:
        check_comparable(small_study(), records)
    return str(caught.value)


def test_runs_that_differ_only_in_what_is_varied_are_comparable(records):
    check_comparable(small_study(), records)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("peak_memory_kind", "kind of memory"),
        ("data_sha256", "data"),
        ("initial_weights_sha256", "initial weights"),
    ],
)
def test_a_run_that_is_not_like_its_partners_is_refused_by_name(records, field, what):
    key = RunKey("wide", "mixed", 1)
    records[key] = records[key].model_copy(update={field: "other"})
    message = refusal(records)
    assert f"runs/wide/mixed/seed-1 can't be compared: they differ in {what} (" in message
    assert "make the others again: dvc repro --force --single-item train@1-wide-mixed; if not, all:" in message


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"accelerators": [{"name": "V100", "compute_capability": "7.0"}]}, "device (Example CPU, 2 cores; V100)"),
        ({"driver": "590.1"}, "driver (none; 590.1)"),
        ({"num_cpus": 8}, "device (Example CPU, 2 cores; Example CPU, 8 cores)"),
        ({"lock_sha256": "newer"}, "locked packages (l; newer)"),
        (
            {"image": {"target": "cpu", "base": "debian", "content_sha256": "c", "commit": "1", "dirty": False}},
            "container image (none; cpu c on debian)",
        ),
    ],
)
def test_a_run_from_another_machine_or_with_other_packages_is_refused(records, changes, what):
    key = RunKey("narrow", "float32", 2)
    environment = records[key].environment | changes
    records[key] = records[key].model_copy(update={"environment": environment})
    assert f"they differ in {what}" in refusal(records)


def test_images_of_the_same_content_are_comparable_whoever_built_them(records):
    for index, (key, record) in enumerate(records.items()):
        image = {"target": "cpu", "base": "debian", "content_sha256": "c", "commit": str(index), "digest": str(index)}
        records[key] = record.model_copy(update={"environment": record.environment | {"image": image}})
    check_comparable(small_study(), records)


def test_seeds_may_start_from_different_weights_and_benchmarks_use_different_data(records):
    for key, record in records.items():
        changes = {"initial_weights_sha256": str(key.seed), "data_sha256": key.benchmark}
        records[key] = record.model_copy(update=changes)
    check_comparable(small_study(), records)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("campaign", "second"),
        ("engine", "other"),
        ("devices", 2),
        ("policy", "float16"),
        ("tf32", True),
        ("batch_size", 999),
        ("num_train_examples", 7),
        ("num_epochs", 9),
    ],
)
def test_a_run_that_is_not_what_the_study_says_is_refused(records, field, value):
    key = RunKey("wide", "mixed", 1)
    records[key] = records[key].model_copy(update={field: value})
    message = refusal(records)
    assert message.startswith(f"runs/wide/mixed/seed-1 has {field} {value}, the study says ")
    assert message.endswith("Make it again: dvc repro --force --single-item train@1-wide-mixed")


def test_all_faults_are_named_at_once(records):
    for seed in range(3):
        key = RunKey("wide", "mixed", seed)
        records[key] = records[key].model_copy(update={"initial_weights_sha256": "other", "policy": "float16"})
    assert len(refusal(records).splitlines()) == 6


def test_a_record_from_an_older_environment_is_unknown_and_not_a_crash(records):
    key = RunKey("wide", "mixed", 1)
    records[key] = records[key].model_copy(update={"environment": {}})
    assert "they differ in device (Example CPU, 2 cores; unknown CPU, unknown cores)" in refusal(records)


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
