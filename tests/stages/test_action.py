"""The step of the GitHub action that judges, run in a shell as GitHub runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
STEP = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "judge")
TABLE = "variant,seed,accuracy\n" + "".join(
    f"{name},{seed},{90 + seed / 10 + shift}\n" for name, shift in (("a", 0), ("b", 0.01)) for seed in range(5)
)


def judge(folder: Path, table: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    usual = {name: str(of.get("default", "")) for name, of in ACTION["inputs"].items()}
    given = usual | {"table": table, "baseline": "a", "margin": "0.5"} | inputs
    names = {name: value.removeprefix("${{ inputs.").removesuffix(" }}") for name, value in STEP["env"].items()}
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "judge-runs"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stages.judge_table "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {name: given[of] for name, of in names.items()}
    environment |= {"PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    environment |= {name: str(folder / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEP["run"]]
    return subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_summary_shows_the_verdict_and_the_output_names_the_page(tmp_path):
    (tmp_path / "runs.csv").write_text(TABLE)
    done = judge(tmp_path, "runs.csv", columns="seed=seed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "b differs by less than 0.5, if at all." in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == "page=runs-verdict.html\n"
    assert (tmp_path / "runs-verdict.html").exists()


HOSTILE = {"baseline": "$(touch pwned)", "margin": "0.5; touch pwned"}
HOSTILE |= {"columns": "variant=$(touch pwned)", "metric": "`touch pwned`"}


@pytest.mark.parametrize(
    ("name", "inputs", "status"),
    [
        ("a run's table (final) $(touch pwned) $1.csv", {}, 0),
        ("runs.csv", HOSTILE, 2),
        ("runs.csv", {"baseline": "--help"}, 2),
        ("-", {}, 2),  # standard input is empty
    ],
)
def test_no_input_is_run_by_the_shell(tmp_path, name, inputs, status):
    (tmp_path / name).write_text(TABLE)
    done = judge(tmp_path, name, **inputs)
    assert done.returncode == status, done.stdout + done.stderr
    assert not (tmp_path / "pwned").exists()


def test_the_contents_of_a_table_stay_plain_text_in_the_summary(tmp_path):
    (tmp_path / "runs.csv").write_text(TABLE.replace("b,", "</pre>```<b>,"))
    judge(tmp_path, "runs.csv")
    lines = (tmp_path / "GITHUB_STEP_SUMMARY").read_text().splitlines()
    assert all(line.startswith("    ") for line in lines if line)
