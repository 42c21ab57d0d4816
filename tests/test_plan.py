"""The planning command, as it is called."""

import subprocess
import sys

from conftest import REPOSITORY


def plan(*arguments: str, cwd=REPOSITORY) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stages.plan", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_plans_from_a_spread():
    """Runs of spread 0.5 pp: 6 seeds for ±1 pp; a pilot of 3 leaves the spread uncertain by more than two."""
    done = plan("--spread-pp", "0.707107", "--margin-pp", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split()[-2:] == ["6", "21"]


def test_bad_numbers_are_refused():
    for arguments in (["--margin-pp", "-1"], ["--spread-pp", "nan"], ["--spread-pp", "1", "--num-seeds", "2"]):
        done = plan(*arguments)
        assert done.returncode == 2
        assert "Received: " in done.stderr
        assert "Traceback" not in done.stderr


def test_without_a_study_it_says_what_to_do(tmp_path):
    for name in ("params.yaml", "claims.yaml"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    done = plan(cwd=tmp_path)
    assert done.returncode == 2
    assert "comparison.json is missing. Make it with: dvc repro" in done.stderr
