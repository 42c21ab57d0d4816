import pytest
from conftest import changed, planned_record, small_study

from pipeline.comparison.comparable import check_comparable
from pipeline.errors import InputError
from pipeline.study.schema import RunKey


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
    records[key] = changed(records[key], **{field: "other"})
    message = refusal(records)
    assert f"runs/wide/mixed/seed-1 can't be compared: they differ in {what} (" in message
    assert "make the others again: dvc repro --force --single-item train@1-wide-mixed; if not, all:" in message


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"accelerators": [{"name": "V100", "compute_capability": "7.0"}]}, "device (Example CPU, 2 cores; V100)"),
        ({"driver": "590.1"}, "driver (none; 590.1)"),
        ({"num_cpus": 8}, "device (Example CPU, 2 cores; Example CPU, 8 cores)"),
        ({"lock_sha256": "newer"}, "locked packages (cccccccccccc; newer)"),
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
        ("loop", "custom"),
        ("image_size", 9),
        ("steps_per_epoch", 9),
        ("batch_size", 999),
        ("num_train_examples", 7),
        ("num_epochs", 9),
    ],
)
def test_a_run_that_is_not_what_the_study_says_is_refused(records, field, value):
    key = RunKey("wide", "mixed", 1)
    planned = records[key].planned.model_copy(update={field: value})
    records[key] = records[key].model_copy(update={"planned": planned})
    message = refusal(records)
    assert message.startswith(f"runs/wide/mixed/seed-1 has {field} {value}, the study says ")
    assert message.endswith("Make it again: dvc repro --force --single-item train@1-wide-mixed")


@pytest.mark.parametrize(
    ("loss_scale", "words"),
    [
        ({"mode": "dynamic", "initial": 8.0}, "mode dynamic, initial 8.0, growth_steps 2000"),
        ({"mode": "none"}, "mode none"),
    ],
)
def test_a_run_with_another_loss_scale_than_the_study_says_is_refused(loss_scale, words):
    variants = small_study().model_dump()["variants"]
    variants["mixed"] |= {"policy": "mixed_float16", "loss_scale": {"mode": "dynamic", "initial": 4.0}}
    study = small_study(variants=variants)
    records = {key: planned_record(key, study) for key in study.runs()}
    check_comparable(study, records)
    key = RunKey("wide", "mixed", 1)
    records[key] = planned_record(key, study, loss_scale=loss_scale)
    with pytest.raises(InputError, match=f"seed-1 has loss_scale {words}, the study says mode dynamic, initial 4.0"):
        check_comparable(study, records)


def test_all_faults_are_named_at_once(records):
    for seed in range(3):
        key = RunKey("wide", "mixed", seed)
        records[key] = changed(records[key], initial_weights_sha256="other", policy="float16")
    assert len(refusal(records).splitlines()) == 6


def test_a_record_from_an_older_environment_is_unknown_and_not_a_crash(records):
    key = RunKey("wide", "mixed", 1)
    records[key] = records[key].model_copy(update={"environment": {}})
    assert "they differ in device (Example CPU, 2 cores; unknown CPU, unknown cores)" in refusal(records)


def test_runs_the_study_no_longer_names_do_not_matter(records, make_record):
    key = RunKey("wide", "mixed", 9)
    records[key] = make_record(key, engine="jax")
    check_comparable(small_study(), records)
