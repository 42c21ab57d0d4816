"""The planning command, and what it says of a pair."""

import pytest
from comparisons import comparison
from conftest import REPOSITORY
from projects import stage

from pipeline.comparison.finished_runs import read_circumstances
from pipeline.errors import InputError
from pipeline.statistics.equivalence import num_seeds_needed
from stages.plan import what_settles


def test_every_pair_has_a_line(rendered):
    done = stage(rendered, "plan")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert sorted(line.partition(" beside")[0] for line in lines)[:2] == ["narrow: float32_2x", "wide: float32_2x"]


def settles(mean=0.0, outcome="inconclusive", beyond=None, accuracy=0.9, failures=None, spread_pp=0.35) -> str:
    """What settles a pair whose differences have a spread of 0.35 pp, one of four candidates within ±1 pp."""
    found = comparison(accuracy=accuracy, failures=failures)
    difference = found.pairs[0].accuracy_difference_pp.model_copy(update={"mean": mean})
    test = {"outcome": outcome, "spread_pp": spread_pp, "beyond_p_value_holm": beyond, "num_candidates": 4}
    test |= {"num_seeds_needed": num_seeds_needed(0.35, 1.0, 4, mean)}
    test = found.pairs[0].equivalence.model_copy(update=test)
    return what_settles(
        found, found.pairs[0].model_copy(update={"accuracy_difference_pp": difference, "equivalence": test})
    )


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"outcome": "equivalent"}, "equivalent within ±1 pp"),
        ({"outcome": "different", "beyond": 0.01}, "different; the difference lies beyond ±1 pp"),
        ({"accuracy": 0.05}, "itself reaches 5.0 %"),
        ({"failures": {"diverged": 1}}, "diverged at 1 seed"),
        ({"spread_pp": None}, "3 are needed"),
        ({"mean": 0.8}, f"; {num_seeds_needed(0.35, 1.0, 4, 0.8)} seeds would"),
        ({"mean": 1.0}, "not even 1,000 seeds would tell"),
    ],
)
def test_what_is_open_says_what_would_settle_it(how, words):
    assert words in settles(**how)


def test_a_damaged_file_of_the_speed_stage_is_named(tmp_path):
    (tmp_path / "results/speed").mkdir(parents=True)
    (tmp_path / "results/speed/wide.json").write_text("{")
    with pytest.raises(InputError, match="Measure it again: dvc repro --force --single-item speed@wide"):
        read_circumstances("wide", tmp_path / "results/speed")


def test_without_a_study_it_says_what_to_do(tmp_path):
    for name in ("params.yaml", "claims.yaml"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    done = stage(tmp_path, "plan")
    assert done.returncode == 2
    assert "comparison.json is missing. Make it with: dvc repro" in done.stderr
