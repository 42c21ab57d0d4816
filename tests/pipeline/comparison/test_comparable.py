"""Comparable runs: made as the study says, each seed on one machine, all with one set of packages."""

import pytest
import yaml
from conftest import ENVIRONMENT, changed, planned_record, small_study, write_small_run, write_speeds

from pipeline.comparison.comparing import compare_runs
from pipeline.comparison.finished_runs import check_comparable, device_in_words
from pipeline.errors import InputError
from pipeline.report.results import read_environments
from pipeline.study.schema import RunKey

KEY = RunKey("wide", "mixed", 1)
IMAGE = {"target": "cpu", "base": "debian", "content_sha256": "c", "commit": "1", "dirty": False}
GPU = {"name": "V100", "compute_capability": "7.0"}


def records(study=None) -> dict:
    return {key: planned_record(key, study) for key in (study or small_study()).runs()}


def refusal(found, study=None) -> str:
    with pytest.raises(InputError) as caught:
        check_comparable(study or small_study(), found)
    return str(caught.value)


def test_runs_that_differ_only_as_intended_are_comparable():
    """Seeds start from different weights, benchmarks use different data, and images come from different commits."""
    found = {RunKey("wide", "mixed", 9): planned_record(RunKey("wide", "mixed", 9))}  # no run of the study
    for index, (key, record) in enumerate(records().items()):
        environment = record.environment | {"image": IMAGE | {"commit": str(index)}}
        own = {"initial_weights_sha256": str(key.seed), "data_sha256": key.benchmark}
        found[key] = changed(record, environment=environment, **own)
    check_comparable(small_study(), found)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"memory": {"peak_kind": "other"}}, "kind of memory"),
        ({"data_sha256": "other"}, "data"),
        ({"initial_weights_sha256": "other"}, "initial weights"),
    ],
)
def test_the_error_names_a_run_that_does_not_match_the_others(changes, what):
    found = records()
    message = refusal(found | {KEY: changed(found[KEY], **changes)})
    assert f"runs/wide/mixed/seed-1 can't be compared: they differ in {what} (" in message
    assert "give the study a new `campaign`" in message


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"accelerators": [GPU]}, "device (Example CPU, 2 cores; V100)"),
        ({"runtime": "cuda-jax"}, "engine (cpu; cuda-jax)"),
        ({"variables": {"MALLOC_MMAP_MAX_": "0"}}, "environment variables (none; MALLOC_MMAP_MAX_=0)"),
        ({"packages": {"keras": "4.0"}}, "packages ("),
        ({"image": IMAGE}, "container image (none; cpu c on debian)"),
    ],
)
def test_runs_of_one_seed_on_two_machines_and_runs_with_other_packages_are_refused(changes, what):
    found = records()
    environment = found[KEY].environment | changes
    assert f"they differ in {what}" in refusal(found | {KEY: changed(found[KEY], environment=environment)})


def test_the_device_name_includes_the_cpus_16_bit_features_if_the_cpu_trains():
    assert (
        device_in_words(ENVIRONMENT | {"cpu_features": ["avx2", "avx512_bf16"]}) == "Example CPU, 2 cores, AVX512-BF16"
    )
    assert device_in_words(ENVIRONMENT | {"accelerators": [GPU]}) == "V100"


def test_a_study_may_continue_on_another_device_whose_times_are_left_out(tmp_path):
    """The report's first device is the one whose speed was measured. A driver may change."""
    study = small_study()
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    write_speeds(tmp_path, study)
    for key, record in records().items():
        changes = {"num_cpus": 8} if key.seed == 0 else {"driver": "590.1"}
        write_small_run(tmp_path, changed(record, environment=record.environment | changes), 9.0, 1.0)
    tables = compare_runs(tmp_path)
    assert [row.timing_fault for row in tables.runs_of("wide", "mixed")] == ["another device", None, None]
    assert tables.pair("wide", "mixed", "float32").num_seeds == 3
    assert [environment["num_cpus"] for environment in read_environments(study, tmp_path)] == [2, 8, 2]


def test_all_faults_are_reported_at_once():
    found = records()
    for seed in range(3):
        key = RunKey("wide", "mixed", seed)
        found[key] = changed(found[key], initial_weights_sha256="other", planned={"policy": "float16"})
    assert len(refusal(found).splitlines()) == 6


def test_a_run_whose_loss_scale_differs_from_the_studys_is_refused():
    variants = small_study().model_dump()["variants"]
    variants["mixed"] |= {"policy": "mixed_float16", "loss_scale": {"mode": "dynamic", "initial": 4.0}}
    study = small_study(variants=variants)
    message = refusal(
        records(study) | {KEY: planned_record(KEY, study, planned={"loss_scale": {"mode": "none"}})}, study
    )
    assert "seed-1 has loss_scale mode none, the study says mode dynamic, initial 4.0" in message
    assert message.endswith("Make it again: dvc repro train@wide")
