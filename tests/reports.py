"""Finished studies from made-up records, which need no engine, and the stages that report on them."""

import contextlib
import json
import shutil
from pathlib import Path

import yaml
from conftest import ENVIRONMENT, REPOSITORY, changed, planned_record, small_study, write_small_run, write_speeds
from projects import stage

from pipeline.claims.claims_file import load_claims
from pipeline.numerics.facts import TRIALS, fact_names, sample_names
from pipeline.study.schema import Study, load_study
from stages.summary import summarise


def lay_out(folder: Path, study: Study, claims: dict, found: dict) -> None:
    """Write what a study has before its runs, with these numerics."""
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    (folder / "claims.yaml").write_text(yaml.safe_dump(claims))
    (folder / "results").mkdir()
    (folder / "results" / "numerics.json").write_text(json.dumps(found))


def prepare(tmp_path: Path) -> None:
    study = small_study(description="<script>alert(1)</script>", deviations={"wide": ["a <b>bold</b> & daring change"]})
    about = {"source": "S", "benchmark": "wide"}
    claim = about | {"id": "a", "statement": "Wide & mixed is <faster>.", "needs": {"hardware": "anything"}}
    claim |= {"kind": "speedup", "candidate": "mixed_2x", "at_least": 1.0}
    claims = {
        "sources": {"S": {"title": "<i>Source</i>", "hardware": "H"}},
        "benchmarks": dict.fromkeys(study.benchmarks, ""),
        "variants": {name: each.model_dump(mode="json", exclude_unset=True) for name, each in study.variants.items()},
        "claims": [claim],
        "findings": [],
    }
    lay_out(tmp_path, study, claims, numerics(study))
    for key in study.runs():
        write_small_run(tmp_path, planned_record(key, final_test_accuracy=0.9 + 0.01 * key.seed), 9.0, 1.5)
    write_speeds(tmp_path, study)


def prepare_quick(folder: Path) -> None:
    """The project's own study and claims, with made-up runs: some fail, and some times do not count."""
    study, claims = load_study(REPOSITORY / "params.yaml"), load_claims(REPOSITORY / "claims.yaml")
    found = numerics(study)
    for claim in claims.all:
        found["facts"] |= getattr(claim, "quantities", {})
    lay_out(folder, study, {}, found)
    for name in ("params.yaml", "claims.yaml"):
        shutil.copyfile(REPOSITORY / name, folder / name)
    endings = {"mixed_float16_fixed": "diverged", "mixed_float16_2x": "out_of_memory"}
    environment = ENVIRONMENT | {"cpu_features": ["avx512_bf16", "avx512_fp16"]}
    for key in study.runs():
        failed = key.seed == 2 and key.variant in endings
        outcome = {"outcome": endings[key.variant]} if failed else {"final_test_accuracy": 0.9 + 0.01 * key.seed}
        record = planned_record(key, study, **outcome)
        record.environment.update(environment)
        if failed:
            write_small_run(folder, record)
            continue
        fault = "1 other process on its GPU" if (key.variant, key.seed) == ("mixed_bfloat16", 1) else None
        seconds = [9.0] + [1.5 + 0.1 * key.seed] * (record.num_epochs - 1)
        write_small_run(folder, changed(record, timing_fault=fault), *seconds)
    failed_speed = {"mixed_float16_2x": "out_of_memory"}
    write_speeds(folder, study, {"mixed_float16": 1.7}, environment, spread=0.02, failed=failed_speed)


def numerics(study) -> dict:
    """A file as the numerics stage writes it, which needs an engine."""
    gradients = {"exponents": [-30, -20, -10], "counts": [1, 6, 3], "loss_scale": 32768.0}
    gradients |= {"flushed_share": 0.1, "flushed_share_scaled": 0.0, "overflow_share_scaled": 0.0}
    trial = TRIALS[2]._asdict() | {"accuracies": [0.9, 0.8], "float32_accuracies": [0.9, 0.9]}
    return {
        "schema_version": 4,
        "facts": dict.fromkeys(fact_names(study.benchmarks), 1),
        "samples": {name: [0.9, 1.0, 1.1] for name in sample_names(study.benchmarks)},
        "gradients": dict.fromkeys(study.benchmarks, gradients),
        "trials": [trial | {"num_trained": 1, "num_trials": 2}],
    }


def render(folder: Path) -> str:
    for name in ("compare", "judge", "report"):
        done = stage(folder, name)
        assert done.returncode == 0, done.stderr
        assert "WARNING" not in done.stderr
    with contextlib.chdir(folder):
        summarise()
    return (folder / "results" / "report.html").read_text()
