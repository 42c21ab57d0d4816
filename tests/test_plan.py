"""The planning command, as it is called."""

import math
import subprocess
import sys

import pytest
from conftest import REPOSITORY, small_study, timed
from test_verdicts import comparison

from pipeline.comparison.finished_speeds import read_circumstances
from pipeline.comparison.planning import Question, describe_seeds, how_to_narrow, launches_needed, questions
from pipeline.errors import InputError
from pipeline.speed.circumstances import Circumstances
from pipeline.statistics.equivalence import num_seeds_needed
from pipeline.statistics.launches import half_width_of, num_launches_needed


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
    """s = 0.02, 5 variants: t(4) = 2.776 gives ±0.0481 on a log scale with 2 launches, t(8) = 2.306 ±0.0326 with 3."""
    assert num_launches_needed(0.02, 5, 0.05) == 2
    assert num_launches_needed(0.02, 5, 0.04) == 3
    assert num_launches_needed(0.5, 2, 0.001) is None


def test_launches_are_planned_for_the_intervals_that_the_stage_reports():
    """The baseline counts twice there: what two launches reached, two launches are asked for."""
    speeds = timed(small_study(), {}, spread=0.02)["wide"]
    spread, freedom = speeds.launch_spread()
    num_launches = len(speeds.num_turns)
    num_variants = freedom // (num_launches - 1) + 1
    assert half_width_of(spread, num_variants, num_launches) == pytest.approx(speeds.half_width(), rel=1e-9)
    assert num_launches_needed(spread, num_variants, speeds.half_width() * (1 + 1e-9)) == num_launches


def test_plans_rest_on_the_variant_with_the_widest_interval():
    """One with few blocks is not among those whose spread is pooled: what two launches reached, more must surpass."""
    found = comparison().turns[0].model_copy(update={"degrees_of_freedom": 4, "launch_spread": 0.02})
    for width in (0.06, 0.1):
        wide = found.model_copy(update={"half_width": width})
        assert launches_needed(wide, width * (1 + 1e-9), side_by_side=True) == 2
        assert (launches_needed(wide, width * 0.99, side_by_side=True) or 9) > 2
    narrower = found.model_copy(update={"half_width": 0.06})
    assert launches_needed(wide, 0.06, side_by_side=True) > launches_needed(narrower, 0.06, side_by_side=True)


def judged(mean=0.0, spread=0.35, outcome="inconclusive", beyond=None, accuracy=0.9, failures=None) -> Question:
    """The question that a pair of three seeds poses, as one of four candidates within ±1 pp."""
    found = comparison(accuracy=accuracy, failures=failures)
    difference = found.pairs[0].accuracy_difference_pp.model_copy(update={"mean": mean})
    test = {"outcome": outcome, "spread_pp": spread, "beyond_p_value_holm": beyond, "num_candidates": 4}
    test = found.pairs[0].equivalence.model_copy(update=test)
    pair = found.pairs[0].model_copy(update={"accuracy_difference_pp": difference, "equivalence": test})
    (question,) = questions(found.model_copy(update={"pairs": [pair]}), "wide", None)
    return question


def test_seeds_are_planned_for_what_is_open_at_the_mean_that_was_found():
    assert judged(0.8, outcome="different").needed()[0] == num_seeds_needed(0.35, 1.0, 4, 0.8)
    assert judged(1.2, outcome="different").needed()[0] == num_seeds_needed(0.35, 1.0, 4, 1.2)
    assert judged(0.8).needed()[0] > judged(0.0).needed()[0]


@pytest.mark.parametrize(
    ("how", "settled", "line"),
    [
        ({"outcome": "equivalent"}, "decided", "every pair is decided"),
        ({"outcome": "different", "beyond": 0.01}, "decided", "every pair is decided"),
        ({"accuracy": 0.05}, "near chance", "no pair to plan for; where the margin means nothing"),
        ({"failures": {"diverged": 1}}, "runs failed", "no pair to plan for; where runs failed"),
        ({"mean": 0.8}, "", f"{num_seeds_needed(0.35, 1.0, 4, 0.8)} seeds for every open pair; cautiously"),
        ({"mean": 1.0}, "", "more than 1000 seeds for mixed"),
    ],
)
def test_a_benchmark_ends_in_one_line(how, settled, line):
    question = judged(**how)
    assert question.settled == settled
    assert describe_seeds([question]).startswith(line)


def test_every_open_pair_at_once_takes_more_seeds_than_each_by_itself():
    """Two pairs that miss one time in five each are both decided less often than four times in five."""
    alone, line = judged(0.8).needed()[0], describe_seeds([judged(0.8), judged(0.5)._replace(candidate="other")])
    assert int(line.split()[0]) == num_seeds_needed(0.35, 1.0, 4, 0.8, at_power=0.9) > alone
    assert "all 2 with 80% power" in line


def test_it_says_what_the_study_has_to_ask_for_and_where_the_machine_forbids_it():
    """s = 0.02 and 5 variants: 7 launches give ±2 %, and no 8 give ±1 %. Two launches of 60 s took 120 s."""
    turns = (
        comparison()
        .turns[0]
        .model_copy(update={"half_width": 0.05, "degrees_of_freedom": 4, "target_half_width": 0.02})
    )
    circumstances = Circumstances.model_construct(spent_seconds=120.0, side_by_side=True)
    narrow, forbidden = how_to_narrow(turns, circumstances)
    needed = num_launches_needed(0.02, 5, 0.02)
    assert needed <= 8
    budget = math.ceil(needed * 60 / 0.5)
    assert (
        narrow
        == f"±2% takes {needed} launches: speed.target_half_width: 0.02, speed.budget_seconds: {budget} is enough"
    )
    assert forbidden.startswith("±1% takes a quieter machine: the 8 launches that are the most made give ±1.8%")
    assert launches_needed(turns, 0.01, side_by_side=True) is None
    assert [*how_to_narrow(turns.model_copy(update={"half_width": None, "launch_spread": None}), circumstances)] == []


def test_bad_numbers_are_refused():
    for arguments in (["--margin-pp", "-1"], ["--spread-pp", "nan"], ["--spread-pp", "1", "--num-seeds", "2"]):
        done = plan(*arguments)
        assert done.returncode == 2
        assert "Received: " in done.stderr
        assert "Traceback" not in done.stderr


def test_a_damaged_file_of_the_speed_stage_is_named(tmp_path):
    (tmp_path / "results/speed").mkdir(parents=True)
    (tmp_path / "results/speed/wide.json").write_text("{")
    with pytest.raises(InputError, match="Measure it again: dvc repro --force --single-item speed@wide"):
        read_circumstances("wide", tmp_path)


def test_without_a_study_it_says_what_to_do(tmp_path):
    for name in ("params.yaml", "claims.yaml"):
        (tmp_path / name).write_text((REPOSITORY / name).read_text())
    done = plan(cwd=tmp_path)
    assert done.returncode == 2
    assert "comparison.json is missing. Make it with: dvc repro" in done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_table_in_a_pipe_is_plain_text_of_80_columns(encoding):
    """Long names are folded, numbers never; FORCE_COLOR makes no terminal of a pipe."""
    name, outcome = "mixed_float16_2x_scaled against mixed_float16", "equivalent but shifted"
    rows = [[name, outcome, 10, "−0.918", "0.00894", "> 1000", "> 1000"]]
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
    assert heads.split()[:2] == ["candidate", "outcome"]
    where = heads.index("outcome")
    width = heads.index("seeds") - where
    for column, whole in ((slice(where), name), (slice(where, where + width), outcome)):
        assert "".join(line[column].strip() for line in folded).replace(" ", "") == whole.replace(" ", "")
    assert folded[0].replace("\\u2212", "−").split()[-7:] == ["10", "−0.918", "0.00894", ">", "1000", ">", "1000"]
    assert encoding == "ascii" or max(map(len, text.splitlines())) <= 80
