"""The planning command: what would settle each pair, in the words of the verdict on its accuracy."""

from conftest import REPOSITORY
from projects import stage


def test_every_pair_has_a_line(rendered):
    done = stage(rendered, "plan")
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "settled: 4 of 4"
    doubled, mixed = "float32 (batch doubled)", "mixed_bfloat16"
    names = [f"narrow: {doubled}", f"wide: {doubled}", f"wide: {mixed}", f"wide: {mixed} (batch doubled)"]
    assert [line.partition(" beside float32: equivalent within ±1 pp (")[0].strip() for line in lines] == names


def test_what_is_open_comes_first_and_how_to_add_seeds(tmp_path):
    published = REPOSITORY / "docs/reports/evening-2-cores"
    (tmp_path / "results").mkdir()
    (tmp_path / "params.yaml").write_bytes((published / "params.yaml").read_bytes())
    (tmp_path / "results/comparison.json").write_bytes((published / "comparison.json").read_bytes())
    first, *lines = stage(tmp_path, "plan").stdout.splitlines()
    hint = next(number for number, line in enumerate(lines) if line.startswith("To add seeds: "))
    num_open = sum(" seeds would tell" in line for line in lines[:hint])
    assert first.startswith(f"open: {num_open} of ")
    assert num_open == hint > 0
    assert not any(" seeds would tell" in line for line in lines[hint:])


def test_without_a_study_it_says_what_to_do(tmp_path):
    for name in ("params.yaml", "claims.yaml"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    done = stage(tmp_path, "plan")
    assert done.returncode == 2
    assert "comparison.json is missing. Make it with: dvc repro" in done.stderr
