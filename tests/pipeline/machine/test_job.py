"""Whoever is ended of those between `make` and a training process: it ends within seconds, and nothing goes on.

tests/engines/test_endings.py ends each of the others.
"""

import signal
import sys

import pytest
from endings import SECONDS, end_one, started, wait_for


@pytest.mark.parametrize(("who", "how"), [("make", signal.SIGTERM), ("DVC", signal.SIGKILL)])
def test_training_ends_with_each_that_started_it(tmp_path, who, how):
    end_one(tmp_path, who, how)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda how: how.name)
def test_a_signal_to_training_itself_ends_it_within_a_call_of_the_engine(tmp_path, how):
    with started(tmp_path, sys.executable, "training.py") as (first, _):
        first.send_signal(how)
        wait_for(lambda: first.poll() is not None, SECONDS)
    assert first.returncode == 128 + how
    assert (tmp_path / "said").read_text() == "interrupted: as if in training\n"
