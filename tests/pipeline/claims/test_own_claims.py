"""A study of one's own beside the sources' claims: its own are judged, and theirs say why they are not."""

import pytest
import yaml
from conftest import REPOSITORY, benchmark, planned_record, small_study, write_small_run, write_speeds
from reports import lay_out, numerics

from pipeline.publication.recomputing import remake

SOURCE = {"title": "Our hope", "hardware": "this machine"}
COMMON = {"source": "OURS", "needs": {"hardware": "anything"}, "benchmark": "mine"}
CLAIMS = [
    COMMON | {"id": "faster", "statement": "Faster.", "kind": "speedup", "candidate": "mixed_float16", "at_least": 1.5},
    COMMON | {"id": "as-good", "statement": "As good.", "kind": "same_accuracy", "candidate": "mixed_float16"},
    COMMON
    | {"id": "at-scale", "statement": "At scale.", "kind": "memory", "candidate": "mixed_float16", "at_most": 0.9}
    | {"needs": {"hardware": "anything", "recipe": {"model.name": "our.net:build", "num_epochs": 4}}},
]


def test_claims_of_ones_own_are_judged(tmp_path):
    recipe = benchmark(units=8, model={"name": "our.net:build", "source": "/elsewhere/our", "arguments": {"depth": 2}})
    study = small_study(
        benchmarks={"mine": recipe},
        variants={
            "float32": {"policy": "float32", "batch_multiplier": 1},
            "mixed_float16": {"policy": "mixed_float16", "batch_multiplier": 1},
        },
        comparison={"baseline": "float32", "num_warmup_epochs": 1, "margin_pp": {"mine": 1.0}},
    )
    claims = yaml.safe_load((REPOSITORY / "claims.yaml").read_text())
    claims["sources"]["OURS"] = SOURCE
    claims["benchmarks"]["mine"] = "mine"
    claims["claims"] += CLAIMS
    lay_out(tmp_path, study, claims, numerics(study) | {"trials": []})  # as where no benchmark has the dense model
    write_speeds(tmp_path, study, {"float32": 2.0})
    for key in study.runs():
        write_small_run(tmp_path, planned_record(key, study, final_test_accuracy=0.9), 9.0, 1.0)
    verdicts = {judgement.id: judgement for judgement in remake(tmp_path).verdicts}
    assert verdicts["faster"].verdict == "reproduced"
    assert verdicts["faster"].measured[0].numbers["ratio"] == pytest.approx(2, rel=0.01)
    assert verdicts["as-good"].verdict == "reproduced"
    assert verdicts["at-scale"].verdict == "not this recipe"
    assert verdicts["at-scale"].reason.numbers["differences"] == {"num_epochs": [2, 4]}
    assert verdicts["s1-faster-on-16-bit-hardware"].verdict == "not testable here"
