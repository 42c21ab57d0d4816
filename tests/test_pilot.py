"""A pilot's turns, and what becomes of a process that ends before its time."""

import contextlib
import textwrap

import pytest

from pipeline.errors import InputError
from pipeline.speed.pilot import MAX_TURNS, run_pilot
from pipeline.speed.worker import Block, worker
from pipeline.statistics.intervals import MIN_BLOCKS

VARIANTS = ["float32", "float32_2x", "mixed"]


class Trainers:
    """Trainers of known speed, in images a second, and what was asked of them."""

    def __init__(self, outcomes=(), speeds=()):
        self.outcomes = dict(outcomes)
        self.speeds = dict(speeds)
        self.started: list[str] = []
        self.trained: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def start(self, variant):
        self.started.append(variant)

        def train(num_images):
            self.trained.append((variant, num_images))
            if variant in self.outcomes:
                return Block(outcome=self.outcomes[variant])
            return Block(outcome="completed", seconds=num_images / self.speeds.get(variant, 1000), peak_memory_bytes=1)

        yield train


def pilot(trainers, *, variants=VARIANTS, num_available=10_000, budget_seconds=0.0, keep_processes=True):
    return run_pilot(trainers.start, variants, 64, num_available, budget_seconds, keep_processes, say=lambda _: None)


def test_turns_are_interleaved_and_begin_with_another_variant_each():
    trainers = Trainers()
    found = pilot(trainers)
    assert [variant for variant, _ in trainers.trained] == [
        "float32",  # by which the blocks are sized
        *("float32", "float32_2x", "mixed"),
        *("float32_2x", "mixed", "float32"),
        *("mixed", "float32", "float32_2x"),
    ]
    assert [len(trial.seconds) for trial in found.trials] == [MIN_BLOCKS] * 3
    assert trainers.started == VARIANTS


def test_blocks_take_a_second_of_the_baseline_in_whole_batches_of_what_there_is():
    assert pilot(Trainers()).num_images == 1024  # 16 batches of 64, nearest to 1000
    assert pilot(Trainers(), num_available=300).num_images == 256
    assert pilot(Trainers(), num_available=64).num_images == 64


def test_the_budget_allows_for_more_turns_up_to_a_limit():
    assert len(pilot(Trainers(), budget_seconds=60).trials[0].blocks) == MAX_TURNS


def test_a_spent_budget_ends_the_pilot_after_three_turns_however_many_variants_there_are():
    found = pilot(Trainers(), variants=[*VARIANTS, "mixed_2x", "other", "other_2x"])
    assert [len(trial.blocks) for trial in found.trials] == [MIN_BLOCKS] * 6


def test_every_block_may_have_a_process_of_its_own():
    trainers = Trainers()
    assert not pilot(trainers, keep_processes=False).keeps_processes
    assert len(trainers.started) == len(trainers.trained) == 1 + 3 * MIN_BLOCKS


def test_processes_that_do_not_fit_side_by_side_are_not_kept():
    trainers = Trainers()
    start = trainers.start

    @contextlib.contextmanager
    def large(variant):
        with start(variant) as train:
            yield lambda num_images: train(num_images).model_copy(update={"peak_memory_bytes": 2**50})

    trainers.start = large
    assert not pilot(trainers).keeps_processes
    assert len(trainers.started) == 1 + 3 * MIN_BLOCKS


def test_a_variant_that_fails_has_no_more_turns():
    trainers = Trainers({"float32_2x": "out_of_memory"})
    found = pilot(trainers)
    assert found.find("float32_2x").outcome == "out_of_memory"
    assert [len(trial.blocks) for trial in found.trials] == [3, 1, 3]


def test_a_variant_that_is_hopelessly_slow_has_no_more_turns():
    trainers = Trainers(speeds={"mixed": 300})
    assert [len(trial.blocks) for trial in pilot(trainers).trials] == [3, 3, 1]
    assert [len(trial.blocks) for trial in pilot(Trainers(speeds={"mixed": 500})).trials] == [3, 3, 3]


@pytest.mark.parametrize(
    ("outcome", "words"), [("out_of_memory", "does not fit into memory"), ("diverged", "loss that is not finite")]
)
def test_without_a_baseline_there_is_no_pilot(outcome, words):
    with pytest.raises(InputError, match=f"float32, the baseline, .*{words}. Try a smaller batch"):
        pilot(Trainers({"float32": outcome}))


def scripted(blocks: dict[str, list[Block]]) -> Trainers:
    """Trainers of whom some answer with the blocks that are given here, in this order, and after the last with none."""
    trainers = Trainers()
    start = trainers.start

    @contextlib.contextmanager
    def start_scripted(variant):
        with start(variant) as train:
            yield lambda num_images: blocks[variant].pop(0) if variant in blocks else train(num_images)

    trainers.start = start_scripted
    return trainers


@pytest.mark.parametrize(
    ("outcome", "words"), [("out_of_memory", "does not fit into memory"), ("diverged", "loss that is not finite")]
)
def test_a_baseline_that_fails_later_ends_the_pilot(outcome, words):
    well = Block(outcome="completed", seconds=1.0)
    with pytest.raises(InputError, match=f"float32, the baseline, .*{words} in turn 2. Try a smaller batch"):
        pilot(scripted({"float32": [well, well, Block(outcome=outcome)]}))


def test_a_slow_turn_of_the_baseline_brings_back_no_hopeless_variant():
    seconds = {"float32": [0.128, 1.0, 3.0, 1.0], "mixed": [3.1, 3.1, 3.1]}
    blocks = {
        variant: [Block(outcome="completed", seconds=value) for value in values] for variant, values in seconds.items()
    }
    assert pilot(scripted(blocks)).find("mixed").seconds == [3.1]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes a module and returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(code: str) -> list[str]:
        (tmp_path / "trainer.py").write_text(textwrap.dedent(code))
        return ["trainer"]

    return write


def test_a_process_answers_line_by_line(module):
    command = module("""
        for line in iter(input, None):
            print('{"outcome": "completed", "seconds": %f}' % (int(line) / 100), flush=True)
    """)
    with worker(command) as train:
        assert train(100).seconds == 1
        assert train(50).seconds == 0.5


def test_a_process_that_the_system_ends_had_too_little_memory(module):
    with worker(module("import os; input(); os.kill(os.getpid(), 9)")) as train:
        assert train(1).outcome == "out_of_memory"


def test_a_process_that_fails_says_why(module):
    command = module("import sys; print('error: no such thing', file=sys.stderr); sys.exit(2)")
    with worker(command) as train, pytest.raises(InputError) as raised:
        train(1)
    assert str(raised.value) == "no such thing"
