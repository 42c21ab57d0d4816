"""Anyone's table in, a verdict out: by the command, as people and their workflows call it."""

import csv
import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import stage

from pipeline.comparison.run_table import Question, judge, read_runs
from pipeline.errors import InputError
from pipeline.report.table_page import page, tell

HEADER = "variant,seed,accuracy,seconds"
BASELINE = [90.0, 90.3, 89.8, 90.1, 90.2]


def table(path: Path, candidate, seeds=range(5), extra=()) -> Path:
    """Write the baseline's five runs, and those of a candidate: by how much each is above the baseline's."""
    rows = [f"fp32,{seed},{value},10" for seed, value in enumerate(BASELINE)]
    rows += [f"bf16,{seed},{BASELINE[i] + d},5" for i, (seed, d) in enumerate(zip(seeds, candidate, strict=True))]
    path.write_text("\n".join([HEADER, *rows, *extra]) + "\n", encoding="utf-8")
    return path


def verdict(path: Path, **asked):
    question = Question(**{"metric": "accuracy", "baseline": "fp32", "margin": 0.5} | asked)
    return judge(read_runs(path, question.metric, "fp32", {}), question)


def outcomes(found) -> list[str]:
    return [row.beside.test.outcome for row in found.rows[1:]]


def command(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return stage(path.parent, "judge_table", str(path), "--baseline", "fp32", "--margin", "0.5", *options)


SAME, SHIFTED = [0.01, -0.02, 0.0, 0.02, -0.01], [0.2, 0.21, 0.19, 0.2, 0.21]
WORSE, OPEN = [-2.0, -2.1, -1.9, -2.0, -2.1], [-1.0, 0.9, -0.2, 0.4, 0.6]


@pytest.mark.parametrize(
    ("differences", "outcome", "status"),
    [
        (SAME, "equivalent", 0),
        (SHIFTED, "equivalent but shifted", 0),
        (WORSE, "different", 20),
        (OPEN, "inconclusive", 30),
    ],
)
def test_outcome_and_status(tmp_path, differences, outcome, status):
    found = verdict(table(tmp_path / "runs.csv", differences))
    assert outcomes(found) == [outcome]
    assert (found.is_paired, found.status) == (True, status)
    assert not verdict(table(tmp_path / "runs.csv", differences, seeds=range(5, 10))).is_paired


def test_the_command_writes_a_table_a_page_that_loads_nothing_and_a_json(tmp_path):
    done = command(table(tmp_path / "runs.v2.csv", WORSE))
    assert (done.returncode, done.stderr) == (20, "")
    assert "different" in done.stdout
    html = (tmp_path / "runs.v2-verdict.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert not any(text in html for text in ("http://", "https://", "src=", "<link"))
    found = json.loads((tmp_path / "runs.v2-verdict.json").read_text())
    assert (found["status"], found["question"]["margin"]) == (20, 0.5)
    beside = found["rows"][1]["beside"]
    assert beside["difference"]["mean"] == pytest.approx(-2.02)
    assert beside["test"]["margin"] == 0.5
    assert beside["speed"]["ratio"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give BASELINE=… and MARGIN=…, as in: make judge TABLE="),
        (("--baseline", "fp32"), "give MARGIN=…, as in: make judge TABLE="),
        (("--baseline", "fp32", "--margin", "0"), "must be a number above 0, in the metric's unit. Received: '0'"),
    ],
)
def test_what_is_not_given_is_named_as_make_calls_it(tmp_path, options, words):
    done = stage(tmp_path, "judge_table", "runs.csv", *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_worst_candidate_decides_and_holm_counts_them_all(tmp_path):
    rows = [f"fp8,{seed},{value + d}," for seed, (value, d) in enumerate(zip(BASELINE, OPEN, strict=True))]
    path = table(tmp_path / "runs.csv", WORSE, extra=rows)
    found = verdict(path)
    assert found.status == 20
    alone = verdict(table(tmp_path / "one.csv", WORSE))
    assert found.rows[1].beside.difference.p_value_holm == pytest.approx(2 * alone.rows[1].beside.difference.p_value)


def test_of_many_faults_the_first_are_told_and_the_others_counted(tmp_path):
    path = table(tmp_path / "runs.csv", SAME, extra=[f"bf16,{seed},ninety," for seed in range(100, 142)])
    with pytest.raises(InputError) as raised:
        verdict(path)
    told = str(raised.value).splitlines()
    assert [line.strip().partition(",")[0] for line in told[1:-1]] == [f"line {number}" for number in range(12, 42)]
    assert told[-1].strip() == "and 12 more"


def test_gains_are_ignored_where_asked(tmp_path):
    path = table(tmp_path / "runs.csv", [-d for d in WORSE])
    assert verdict(path).status == 20
    assert verdict(path, is_one_sided=True).status == 0
    assert verdict(path, is_one_sided=True, is_lower_better=True).status == 20


def test_failures_are_counted_and_never_equivalent(tmp_path):
    rows = ["fp32,5,90,10", "bf16,5,,", "fp32,6,90,10", "bf16,6,diverged,"]
    found = verdict(table(tmp_path / "runs.csv", SAME, extra=rows))
    assert found.rows[1].failures == {"without a number": 1, "diverged": 1}
    assert (found.rows[1].failed.count, found.rows[1].failed.total) == (2, 7)
    assert found.status == 30
    assert tell(found).failures == ["bf16: 2 of 7 runs failed (1 without a number and 1 diverged): 29 % [4, 71]."]
    assert "1 diverged" in page(tell(found), "runs.csv")


def test_a_margin_in_another_unit_shows_nothing(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(
        "variant,seed,accuracy\n" + "".join(f"{v},{s},0.9{s}\n" for v in ("fp32", "bf16") for s in range(3))
    )
    assert (verdict(path).status, verdict(path, margin=0.005).status) == (30, 0)


def test_every_fault_is_named_at_once_with_line_and_column(tmp_path):
    rows = [
        "bf16,0,91.0,1",
        "bf16,7,91 %,1",
        "bf16,8,inf,1",
        ",9,90,1",
        "bf16,10,90,-1",
        "bf16,11,90",
        'bf16,12,"90,1",1',
        "bf16,13,0.9,1",
    ]
    done = command(table(tmp_path / "runs.csv", SAME, extra=rows))
    assert done.returncode == 2
    for told in (
        "line 12, column seed: bf16 has seed 0 in line 7 already",
        "line 13, column accuracy: '91 %': no number",
        "line 14, column accuracy: 'inf': infinite",
        "line 15, column variant: '': empty",
        "line 16, column seconds: '-1': Input should be greater than 0",
        "line 17: 3 cells for 4 columns",
        "line 18, column accuracy: '90,1': no number. Decimals follow a point",
        "line 19, column accuracy: 0.9 is a fraction",
    ):
        assert told in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has no row"),
        ("variant,sed,acc\nfp32,0,1\n", "no column accuracy"),
        ("variant,sed,accuracy\nfp32,0,1\n", "did you mean sed"),
        ("variant,seed,accuracy\nfp32,0,1\n", "no variant but fp32"),
        ("variant,seed,accuracy\na,0,1\nb,0,1\n", "no variant fp32"),
        ("variant,seed,accuracy\n" + "a,0,1\n" * 100_001, "more than 100,000 rows"),
        ("variant,seed,accuracy\nfp\xe9,0,1\n", "line 2 is not UTF-8"),
        ("variant,seed,accuracy\n\0,0,1\n", "it is no text"),
    ],
)
def test_a_table_that_cannot_be_judged_says_why(tmp_path, text, told):
    (tmp_path / "runs.csv").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=told):
        read_runs(tmp_path / "runs.csv", "accuracy", "fp32", {})


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_and_encodings_read_alike(tmp_path, encoding, separator):
    plain = table(tmp_path / "plain.csv", SAME)
    (tmp_path / "other.csv").write_text(plain.read_text().replace(",", separator), encoding=encoding)
    assert verdict(tmp_path / "other.csv") == verdict(plain)


def test_what_a_terminal_would_obey_is_shown_as_its_number(tmp_path):
    text = table(tmp_path / "runs.csv", SAME).read_text().replace("bf16", "bf\u202e16")
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    assert "bf\\u202e16 is equivalent" in command(tmp_path / "runs.csv").stdout


def test_the_page_shows_what_its_example_prints(tmp_path):
    shutil.copy(REPOSITORY / "docs/example-runs.csv", tmp_path / "runs.csv")
    done = command(tmp_path / "runs.csv", "--baseline", "float32")
    assert done.returncode == 0
    page = (REPOSITORY / "docs/judge-your-own-runs.md").read_text(encoding="utf-8")
    shown = [line.removeprefix("    ") for line in page.splitlines() if line.startswith("    ")]
    printed = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    assert shown[1 : len(printed)] == printed[:-1]


def test_a_published_study_as_a_table_gives_the_numbers_of_its_report(tmp_path):
    """For the five candidates that Holm's method takes together."""
    with zipfile.ZipFile(REPOSITORY / "docs/reports/quick-2-cores/crate.zip") as archive:
        runs = list(csv.DictReader(io.StringIO(archive.read("results/runs.csv").decode())))
        pairs = json.loads(archive.read("results/comparison.json"))["pairs"]
    family = {
        pair["candidate"]: pair
        for pair in pairs
        if (pair["benchmark"], pair["equivalence"]["num_candidates"]) == ("mnist_dense", 5)
    }
    lines = [
        f"{row['variant']},{row['seed']},{100 * float(row['final_test_accuracy'])}"
        for row in runs
        if row["benchmark"] == "mnist_dense" and row["variant"] in ("float32", *family)
    ]
    (tmp_path / "runs.csv").write_text("\n".join(["variant,seed,accuracy", *lines]))
    asked = Question(metric="accuracy", baseline="float32", margin=0.2)
    found = judge(read_runs(tmp_path / "runs.csv", "accuracy", "float32", {}), asked)
    assert {row.variant for row in found.rows[1:]} == family.keys()
    for row in found.rows[1:]:
        expected, test = family[row.variant], row.beside.test
        difference = row.beside.difference.model_dump()
        assert difference == pytest.approx(expected["accuracy_difference_pp"], rel=1e-6, abs=1e-9)
        assert test.outcome == expected["equivalence"].pop("outcome")
        assert test.model_dump(exclude={"outcome"}) == pytest.approx(expected["equivalence"], rel=1e-6, abs=1e-9)
