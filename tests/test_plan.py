"""The planning command, as it is called."""

import subprocess
import sys

import pytest
from conftest import REPOSITORY

from pipeline.statistics.launches import num_launches_needed


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
    """Runs of spread 0.5 pp: 6 seeds for ±1 pp; 3 runs leaves the spread uncertain by more than two."""
    done = plan("--spread-pp", "0.707107", "--margin-pp", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split()[-2:] == ["6", "21"]


def test_speed_is_planned_apart(rendered):
    """Three launches of three variants whose times vary by 2 %; nine would do for half the width."""
    done = plan(cwd=rendered)
    assert done.returncode == 0, done.stderr
    seeds, launches = done.stdout.split("Launches of all variants")
    assert "mixed_2x" in seeds
    (row,) = [line.split() for line in launches.splitlines() if line.startswith("narrow")]
    assert row[1] == "3"
    needed = [int(number) for number in row[-3:]]
    assert needed == sorted(needed)
    assert needed[0] >= 2


def test_launches_needed_worked_by_hand():
    """s = 0.02 and 5 variants: t(4) = 2.776 gives ±0.0555 with 2 launches, t(8) = 2.306 gives ±0.0377 with 3."""
    assert num_launches_needed(0.02, 5, 0.06) == 2
    assert num_launches_needed(0.02, 5, 0.04) == 3
    assert num_launches_needed(0.5, 2, 0.001) is None


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


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_table_in_a_pipe_is_plain_text_of_80_columns(encoding):
    """Long names are folded, numbers never; FORCE_COLOR makes no terminal of a pipe."""
    rows = [["cifar100_efficientnet_b0", "mixed_bfloat16_2x", 10, "too few", "±0.25", "±0.123", "> 1000", "> 1000"]]
    script = f"from stages.plan import PLAN_COLUMNS, print_table\nprint_table(PLAN_COLUMNS, {rows}, 2)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env={"PYTHONIOENCODING": f"{encoding}:backslashreplace", "FORCE_COLOR": "1", "COLUMNS": "80"},
        capture_output=True,
        check=True,
    )
    text = done.stdout.decode(encoding)
    assert "\x1b" not in text
    heads, *folded = text.splitlines()[1:]
    assert heads.split()[:2] == ["benchmark", "candidate"]
    names = ["".join(parts) for parts in zip(*(line.split()[:2] for line in folded), strict=True)]
    assert names == ["cifar100_efficientnet_b0", "mixed_bfloat16_2x"]
    numbers = folded[0].replace("\\xb1", "±").split()[2:]
    assert " ".join(numbers) == "10 too few ±0.25 ±0.123 > 1000 > 1000"
    assert encoding == "ascii" or max(map(len, text.splitlines())) <= 80
