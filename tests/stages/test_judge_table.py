"""Anyone's table in, a verdict out: by the command, as people and their workflows call it."""

import argparse
import json
import shutil
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import USER_ENVIRONMENT, run, stage

from pipeline.comparison.pairing import Question
from pipeline.errors import InputError
from pipeline.run_table.table_file import read_runs
from pipeline.run_table.table_verdict import failures_said, judge_table, page, said_of
from pipeline.words.sentences import sentence
from stages.judge_table import margin

HEADER = "variant,seed,accuracy,seconds"
BASELINE = [90.0, 90.3, 89.8, 90.1, 90.2]


def table(path: Path, candidate, seeds=range(5), extra=()) -> Path:
    """Write the baseline's five runs, and those of a candidate: by how much each is above the baseline's."""
    rows = [f"fp32,{seed},{value},10" for seed, value in enumerate(BASELINE)]
    rows += [f"bf16,{seed},{BASELINE[i] + d},5" for i, (seed, d) in enumerate(zip(seeds, candidate, strict=True))]
    path.write_text("\n".join([HEADER, *rows, *extra]) + "\n", encoding="utf-8")
    return path


def verdict(path: Path, margin=0.5, metric="accuracy", columns=None, **asked):
    runs = read_runs(path, metric, "fp32", columns or {})
    return judge_table(runs, metric, "fp32", Question(margin, **asked))


def codes(found) -> list[str]:
    said = said_of(found, found.candidates[0])
    assert all(map(sentence, said))
    return [each.code.removeprefix("table.") for each in said]


SAME, SHIFTED = [0.01, -0.02, 0.0, 0.02, -0.01], [0.2, 0.21, 0.19, 0.2, 0.21]
WORSE, OPEN = [-2.0, -2.1, -1.9, -2.0, -2.1], [-1.0, 0.9, -0.2, 0.4, 0.6]


@pytest.mark.parametrize(
    ("differences", "outcome", "status", "said"),
    [
        (SAME, "equivalent", 0, ["equivalent", "loss"]),
        (SHIFTED, "equivalent but shifted", 0, ["equivalent_but_shifted", "loss"]),
        (WORSE, "different", 20, ["beyond", "loss"]),
        (OPEN, "inconclusive", 30, ["inconclusive", "needed", "loss"]),
    ],
)
def test_the_outcome_decides_the_exit_status_and_the_sentences(tmp_path, differences, outcome, status, said):
    found = verdict(table(tmp_path / "runs.csv", differences))
    (row,) = found.candidates
    assert (row["outcome"], row["is_paired"], found.status) == (outcome, True, status)
    apart = verdict(table(tmp_path / "runs.csv", differences, seeds=range(5, 10)))
    assert not apart.candidates[0]["is_paired"]
    assert apart.candidates[0]["speedup"].value == pytest.approx(2.0)
    assert codes(found) == [*said, "pairing"]


def test_the_error_names_missing_options(tmp_path):
    done = stage(tmp_path, "judge_table", "runs.csv")
    assert done.returncode == 2
    assert "the following arguments are required: --baseline, --margin" in done.stderr


def test_a_margin_must_be_a_positive_number():
    for text in ("0", "nan", "half"):
        with pytest.raises(argparse.ArgumentTypeError, match="must be a number above 0, in the metric's unit"):
            margin(text)


def test_the_worst_candidate_decides_the_exit_status(tmp_path):
    rows = [f"fp8,{seed},{value + d}," for seed, (value, d) in enumerate(zip(BASELINE, OPEN, strict=True))]
    found = verdict(table(tmp_path / "runs.csv", WORSE, extra=rows))
    assert (found.status, found.rows[1]["num_candidates"]) == (20, 2)


def test_failed_runs_are_counted_and_prevent_equivalence(tmp_path):
    rows = ["fp32,5,90,10", "bf16,5,,", "fp32,6,90,10", "bf16,6,diverged,"]
    found = verdict(table(tmp_path / "runs.csv", SAME, extra=rows))
    assert found.rows[1]["failures"] == {"without a number": 1, "diverged": 1}
    (said,) = failures_said(found)
    assert (said.numbers["part"], said.numbers["total"], round(said.numbers["share"].low, 2)) == (2, 7, 0.04)
    assert (found.status, found.rows[1]["reason"]) == (30, "runs_failed")
    assert "1 diverged" in page(found, "runs.csv")
    assert codes(found) == ["runs_failed", "pairing", "missing"]


def test_all_faults_are_reported_at_once_with_line_and_column(tmp_path):
    rows = [
        "bf16,0,91.0,1",
        "bf16,7,91 %,1",
        "bf16,8,inf,1",
        ",9,90,1",
        "bf16,10,90,-1",
        "bf16,11,90",
        'bf16,12,"90,1",1',
    ]
    with pytest.raises(InputError) as raised:
        verdict(table(tmp_path / "runs.csv", SAME, extra=rows))
    for told in (
        "line 12, column seed: bf16 already has seed 0 in line 7",
        "line 13, column accuracy: '91 %' is not a number",
        "line 15, column variant: empty",
        "line 17: 3 cells for 4 columns",
        "line 18, column accuracy: '90,1' is not a number. Use a point",
    ):
        assert told in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no column variant; it has none"),
        ("variant,seed,accuracy\n", "the table has no row"),
        ("variant,sed,acc\nfp32,0,1\n", "no column accuracy"),
        ("variant,seed,accuracy\nfp32,0,1\n", "fp32 is the only variant"),
        ("variant,seed,accuracy\na,0,1\nb,0,1\n", "no variant fp32"),
        ("variant,seed,accuracy\nfp32,0,1\nfp32,mean,1\n", "line 3, column seed: 'mean' summarizes runs"),
        ("variant,seed,accuracy,seconds,seconds\nfp32,0,1,5,6\n", "line 1: 2 column seconds"),
        ("variant,seed,accuracy\nfp\xe9,0,1\n", "it is not UTF-8"),
    ],
)
def test_a_table_that_cannot_be_judged_is_refused_with_the_reason(tmp_path, text, told):
    (tmp_path / "runs.csv").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=told):
        read_runs(tmp_path / "runs.csv", "accuracy", "fp32", {})


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_a_byte_order_mark_do_not_change_the_verdict(tmp_path, separator):
    plain = table(tmp_path / "plain.csv", SAME)
    (tmp_path / "other.csv").write_text("\n" + plain.read_text().replace(",", separator), encoding="utf-8-sig")
    assert verdict(tmp_path / "other.csv") == verdict(plain)


def test_cells_written_by_pandas_are_read_correctly(tmp_path):
    rows = ["fp32,0.0,nan,5", "fp32,1.0,9.10e1,inf", "fp32,2,inf,5", "bf16,0,91.25,5"]
    found = read_runs(export(tmp_path / "runs.csv", HEADER, *rows), "accuracy", "fp32", {})
    assert [(run.seed, run.outcome, run.result, run.seconds) for run in found] == [
        ("0", "without a number", None, None),
        ("1", "completed", 91.0, None),
        ("2", "diverged", None, None),
        ("0", "completed", 91.25, 5.0),
    ]
    assert [found[index].unit for index in (1, 3)] == [1.0, 0.01]


def test_the_command_prints_the_documented_verdict_and_writes_a_self_contained_page_and_json(tmp_path):
    shutil.copy(REPOSITORY / "docs/example-runs.csv", tmp_path / "runs.v2.csv")
    done = stage(tmp_path, "judge_table", "runs.v2.csv", "--baseline", "float32", "--margin", "0.5")
    assert (done.returncode, done.stderr) == (0, "")
    page = (REPOSITORY / "docs/judge-your-own-runs.md").read_text(encoding="utf-8")
    shown = [line.removeprefix("    ") for line in page.splitlines() if line.startswith("    ")]
    printed = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    assert shown[1 : len(printed)] == printed[:-1]
    html = (tmp_path / "runs.v2-verdict.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert not any(text in html for text in ("http://", "https://", "src=", "<link"))
    found = json.loads((tmp_path / "runs.v2-verdict.json").read_text())
    assert (found["status"], found["margin"], found["variants"][1]["variant"]) == (0, 0.5, "bfloat16")


def export(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


W_AND_B = "Name,State,Runtime,precision,seed,val/top1"
WANDB_ROWS = [
    f"{v}-{s},finished,{t},{v},{s},{71 + s + d + 0.01 * s * t / 100:.2f}"
    for v, t, d in (("fp32", 36, 0), ("bf16", 24, 0.04))
    for s in range(5)
]
OF_WANDB = {"metric": "val/top1", "columns": {"variant": "precision", "seconds": "Runtime"}}


def test_an_export_from_weights_and_biases_is_read_with_its_run_states(tmp_path):
    good = verdict(export(tmp_path / "good.csv", W_AND_B, *WANDB_ROWS), **OF_WANDB)
    assert (good.status, good.rows[1]["speedup"].value) == (0, pytest.approx(1.5))
    crashed = [row.replace("finished", "crashed") if "bf16-3" in row else row for row in WANDB_ROWS]
    again = verdict(export(tmp_path / "again.csv", W_AND_B, *WANDB_ROWS, crashed[8]), **OF_WANDB)
    assert (again.status, again.rows[1]["num_seeds"]) == (30, 5)


@pytest.mark.parametrize(
    ("column", "good", "bad", "how"),
    [
        ("State", "COMPLETED", "OUT_OF_MEMORY", "out_of_memory"),
        ("diverged", "0", "1", "diverged"),
        ("failed", "False", "True", "failed"),
        ("exit_code", "0", "137", "failed"),
    ],
)
def test_a_row_marked_as_failed_is_a_failure_even_with_a_number(tmp_path, column, good, bad, how):
    rows = [f"fp32,{seed},{value},{good}" for seed, value in enumerate(BASELINE)]
    ends = [good] * 4 + [bad]
    rows += [f"bf16,{seed},{BASELINE[seed] + 0.01 * (seed - 2)},{end}" for seed, end in enumerate(ends)]
    path = export(tmp_path / "runs.csv", f"variant,seed,accuracy,{column}", *rows)
    found = verdict(path)
    assert (found.status, found.rows[1]["num_seeds"], found.rows[1]["failures"]) == (30, 4, {how: 1})
    assert verdict(path, columns={"diverged": column}) == found


LOSSES = "variant,seed,val_loss\n" + "".join(f"fp32,{i},2.0{i}\nfp16,{i},2.6{i}\n" for i in range(5))


@pytest.mark.parametrize(("words", "status"), [((), 2), (("--lower-is-better",), 20), (("--higher-is-better",), 0)])
def test_a_one_sided_question_about_a_loss_needs_a_direction(tmp_path, words, status):
    (tmp_path / "runs.csv").write_text(LOSSES)
    asked = ("--baseline", "fp32", "--margin", "0.1", "--metric", "val_loss", "--one-sided")
    done = stage(tmp_path, "judge_table", "runs.csv", *asked, *words)
    assert done.returncode == status, done.stderr
    assert ("Add --lower-is-better or --higher-is-better" in done.stderr) == (status == 2)


@pytest.mark.parametrize(("yes", "no"), [("1.0", "0.0"), ("True", "False"), ("1", "0")])
def test_flags_may_be_written_as_numbers_or_as_words(tmp_path, yes, no):
    rows = [f"{name},{seed},{BASELINE[seed]},{no}" for name in ("fp32", "bf16") for seed in range(5)]
    rows[-1] = rows[-1].removesuffix(no) + yes
    (tmp_path / "runs.csv").write_text("\n".join(["variant,seed,accuracy,diverged", *rows]))
    baseline, candidate = verdict(tmp_path / "runs.csv").rows
    assert (baseline["failures"], candidate["failures"]) == ({}, {"diverged": 1})


def test_csv_errors_are_reported_with_their_line(tmp_path):
    path = table(tmp_path / "runs.csv", SAME, extra=['fp32,9,"' + "9" * 200_000 + '",1'])
    with pytest.raises(InputError, match=r"runs\.csv can't be judged: line 12: field larger than field limit"):
        verdict(path)


def test_a_table_with_a_row_per_epoch_is_refused_but_one_with_a_retried_run_is_not(tmp_path):
    rows = [
        f"{name},{seed},{epoch},{value if epoch == 2 else ''}"
        for name in ("fp32", "bf16")
        for seed, value in enumerate(BASELINE)
        for epoch in range(3)
    ]
    (tmp_path / "runs.csv").write_text("\n".join(["variant,seed,epoch,accuracy", *rows]))
    with pytest.raises(InputError, match="it has a row for each epoch of a run"):
        verdict(tmp_path / "runs.csv")
    (tmp_path / "runs.csv").write_text("\n".join(["variant,seed,epoch,accuracy", *rows[2::3], "fp32,0,1,"]))
    assert verdict(tmp_path / "runs.csv").rows[0]["failures"] == {"without a number": 1}, "a run that was tried again"


def test_with_one_file_per_run_the_last_row_with_the_metric_counts(tmp_path):
    """Lightning's CSVLogger writes training and validation into rows of their own, and repeats epochs."""
    for variant, shift in (("fp32", 0.0), ("bf16", 0.01)):
        for seed in range(5):
            folder = tmp_path / "logs" / f"{variant}-{seed}"
            folder.mkdir(parents=True)
            rows = ["epoch,step,train_loss,val_acc", "0,99,0.7,", f"0,99,,{60 + seed}", "1,199,0.4,"]
            folder.joinpath("metrics.csv").write_text("\n".join([*rows, f"1,199,,{70 + seed + shift:.3f}"]) + "\n")
    found = verdict(tmp_path / "logs/{variant}-{seed}/metrics.csv", metric="val_acc", margin=0.5)
    assert [(row["variant"], row["mean"]) for row in found.rows] == [
        ("fp32", pytest.approx(72.0)),
        ("bf16", pytest.approx(72.01)),
    ]
    tmp_path.joinpath("logs/bf16-4/metrics.csv").write_text("epoch,step,train_loss,val_acc\n0,99,0.7,\n")
    lost = verdict(tmp_path / "logs/{variant}-{seed}/metrics.csv", metric="val_acc", margin=0.5)
    assert lost.rows[1]["failures"] == {"without a number": 1}
    with pytest.raises(InputError, match="no file fits"):
        verdict(tmp_path / "nowhere/{variant}-{seed}.csv")
    (tmp_path / "lightning").mkdir()
    (tmp_path / "logs").rename(tmp_path / "lightning/logs")
    deeper = tmp_path / "*/logs/{variant}-{seed}/metrics.csv"
    assert verdict(deeper, metric="val_acc", margin=0.5).rows == lost.rows
    with pytest.raises(InputError, match=r"must have {variant} and {seed} in it"):
        verdict(tmp_path / "logs/{variant}-0/metrics.csv")


def test_standard_input_is_judged_and_json_printed_without_writing_files(tmp_path):
    text = (REPOSITORY / "docs/example-runs.csv").read_text()
    command = [sys.executable, "-m", "stages.judge_table", "-", "--baseline", "float32", "--margin", "0.5", "--json"]
    done = run(tmp_path, *command, env=USER_ENVIRONMENT | {"PYTHONPATH": str(REPOSITORY)}, input=text)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, 0)
    assert not list(tmp_path.iterdir())
