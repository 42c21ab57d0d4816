"""Finished studies from made-up records, which need no engine, and the stages that report on them."""

import contextlib
import json
from argparse import Namespace
from pathlib import Path

import yaml
from conftest import planned_record, small_study, write_small_run, write_speeds

from pipeline.numerics.facts import TRIALS, fact_names, sample_names
from stages import compare, judge, report
from stages.summary import summarise


def prepare(folder: Path) -> None:
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
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    (folder / "claims.yaml").write_text(yaml.safe_dump(claims))
    (folder / "results").mkdir()
    (folder / "results" / "numerics.json").write_text(json.dumps(numerics(study)))
    for key in study.runs():
        write_small_run(folder, planned_record(key, scores={"test_accuracy": 0.9 + 0.01 * key.seed}), 9.0, 1.5)
    write_speeds(folder, study)


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


def render(folder: Path) -> None:
    with contextlib.chdir(folder):
        compare.main(Namespace())
        judge.main(Namespace())
        report.main(Namespace(archive=None))
        summarise()
