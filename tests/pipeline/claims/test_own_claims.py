"""A study of one's own beside the sources' claims: its own are judged and shown, and theirs say why they are not."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, benchmark, planned_record, small_study, write_small_run, write_speeds
from projects import stage
from reports import lay_out, numerics, render

from pipeline.claims.claims_file import load_claims

SOURCE = {"title": "Our hope", "hardware": "this machine"}
COMMON = {"source": "OURS", "needs": {"hardware": "anything"}, "benchmark": "mine"}
CLAIMS = [
    COMMON | {"id": "faster", "statement": "Faster.", "kind": "speedup", "candidate": "mixed_float16", "at_least": 1.5},
    COMMON | {"id": "as-good", "statement": "As good.", "kind": "same_accuracy", "candidate": "mixed_float16"},
    COMMON
    | {"id": "at-scale", "statement": "At scale.", "kind": "memory", "candidate": "mixed_float16", "at_most": 0.9}
    | {"needs": {"hardware": "anything", "recipe": {"model.name": "our.net:build", "num_epochs": 4}}},
]


def finished(folder: Path) -> None:
    """Everything of a study whose model, claims and source are one's own."""
    study = small_study(
        seeds=[0, 1, 2, 3],
        benchmarks={
            "mine": benchmark(
                units=8,
                model={"name": "our.net:build", "source": "/elsewhere/our", "arguments": {"depth": 2}},
                optimizer={"name": "sgd", "learning_rate": 0.1, "arguments": {"momentum": 0.9}},
                learning_rate_rule={"scaling": "linear", "decay": "cosine", "num_warmup_epochs": 1},
                augmentation=[{"name": "random_flip"}],
            )
        },
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
    lay_out(folder, study, claims, numerics(study) | {"trials": []})  # as where no benchmark has the dense model
    write_speeds(folder, study, {"float32": 2.0})
    for key in study.runs():
        seconds = (1.0 if key.variant == "float32" else 0.5) * (1 + 0.01 * key.seed)
        record = planned_record(key, study, final_test_accuracy=0.9)
        write_small_run(folder, record, 9.0, seconds)
    render(folder)


def test_claims_of_ones_own_are_judged_and_shown_with_the_whole_recipe(tmp_path):
    finished(tmp_path)
    found = json.loads((tmp_path / "results" / "verdicts.json").read_text())["judgements"]
    verdicts = {row["id"]: row for row in found}
    assert len(verdicts) == len(load_claims(REPOSITORY / "claims.yaml").all) + len(CLAIMS)
    assert verdicts["faster"]["verdict"] == "reproduced"
    assert verdicts["faster"]["measured"][0]["numbers"]["ratio"] == pytest.approx(2, rel=0.01)
    assert verdicts["as-good"]["verdict"] == "reproduced"
    assert verdicts["at-scale"]["verdict"] == "not this recipe"
    assert verdicts["at-scale"]["reason"]["numbers"]["differences"] == {"num_epochs": [2, 4]}
    assert verdicts["s1-faster-on-16-bit-hardware"]["verdict"] == "not testable here"
    html = (tmp_path / "results" / "report.html").read_text()
    for text in (
        "As good.",
        "build",
        "SGD at 0.1, momentum 0.9, times the multiple of the batch, warm-up of 1 epoch, cosine decay,",
        "2 epochs",
    ):
        assert text in html, text


def test_numerics_without_tensorflow_decide_nothing_of_the_split_of_a_notebook(written_out, tmp_path):
    """The other claims keep their verdicts."""
    folder = shutil.copytree(written_out, tmp_path / "without", symlinks=True)
    path = folder / "results" / "numerics.json"
    found = json.loads(path.read_text())
    for part in ("facts", "samples"):
        found[part] = {name: value for name, value in found[part].items() if not name.startswith("notebook_split")}
    path.write_text(json.dumps(found))
    done = stage(folder, "judge")
    assert done.returncode == 0, done.stderr
    before, after = (
        json.loads((each / "results" / "verdicts.json").read_text())["judgements"] for each in (written_out, folder)
    )
    changed = {now["id"]: now["verdict"] for was, now in zip(before, after, strict=True) if now != was}
    unknown = dict.fromkeys(["s3-split-leaks", "s3-split-raises-validation-accuracy"], "open")  # findings of our own
    assert changed == {"s3-seed-keeps-the-split": "not testable here"} | unknown
