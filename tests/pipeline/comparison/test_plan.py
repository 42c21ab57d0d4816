"""The planning command: what would settle each pair, in the words of the verdict on its accuracy."""

from conftest import REPOSITORY
from projects import stage


def test_every_pair_has_a_line(rendered):
    done = stage(rendered, "plan")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names = ["narrow: float32_2x", "wide: float32_2x", "wide: mixed", "wide: mixed_2x"]
    assert [line.partition(" beside float32: equivalent; equivalent within ±1 pp (")[0] for line in lines] == names


def test_without_a_study_it_says_what_to_do(tmp_path):
    for name in ("params.yaml", "claims.yaml"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    done = stage(tmp_path, "plan")
    assert done.returncode == 2
    assert "comparison.json is missing. Make it with: dvc repro" in done.stderr
