"""The wheel, built and installed into an empty environment: `judge-runs` beside `python -m stages.judge_table`."""

import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import copy_tree, run

EXAMPLE = REPOSITORY / "docs/example-runs.csv"
UV = Path(sys.executable).with_name("uv")
LOST = "variant,seed,accuracy\nfloat32,0,91\n"


@pytest.fixture(scope="module")
def judge_runs(tmp_path_factory) -> Path:
    """Return the installed script. uv builds the wheel in an environment of its own, so this needs a network."""
    folder = tmp_path_factory.mktemp("installed")
    copy_tree(folder / "project")  # setuptools builds beside the sources, and would pack what an earlier build left
    start([UV, "build", "--quiet", "--wheel", "--out-dir", folder, folder / "project"], folder)
    start([UV, "venv", "--quiet", "--python", sys.executable, folder / "venv"], folder)
    start([UV, "pip", "install", "--quiet", "--python", folder / "venv", *folder.glob("*.whl")], folder)
    return folder / "venv/bin/judge-runs"


def start(command: list, folder: Path, status: int = 0, **environment: str) -> str:
    done = run(folder, *command, env=environment or None)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("table", "options", "status"),
    [
        (EXAMPLE.read_text(), ["--margin", "0.5"], 0),
        (LOST, ["--margin", "1"], 2),
    ],
    ids=["equivalent", "one variant"],
)
def test_the_installed_command_gives_the_same_verdict_as_the_stage(tmp_path, judge_runs, table, options, status):
    (tmp_path / "runs.csv").write_text(table)
    asked = ["--baseline", "float32", *options]
    stage = [sys.executable, "-m", "stages.judge_table"]
    expected = start([*stage, "runs.csv", *asked], tmp_path, status=status, PYTHONPATH=str(REPOSITORY))
    pages = {path.name: path.read_text() for path in tmp_path.glob("runs-verdict.*")}
    assert start([judge_runs, "runs.csv", *asked], tmp_path, status=status) == expected
    assert {path.name: path.read_text() for path in tmp_path.glob("runs-verdict.*")} == pages
    assert len(pages) == (0 if status == 2 else 2)


def test_the_installed_environment_contains_no_engine(judge_runs):
    packages = start([UV, "pip", "list", "--python", judge_runs.parent.parent], REPOSITORY)
    assert "scipy" in packages
    assert not [name for name in ("dvc", "jax", "keras", "tensorflow", "pandas") if f"\n{name} " in packages]
