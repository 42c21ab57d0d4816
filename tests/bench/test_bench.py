"""What the project promises of its intervals, and how costs are measured beside a peer's."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import benchmark, small_study

from bench import costs, intervals


def test_an_interval_of_speed_holds_the_truth_as_often_as_it_says():
    held = intervals.speed(np.random.default_rng(0), intervals.World(), 3, 500)
    assert all(0.92 <= share <= 0.98 for share in held.values()), held


@pytest.mark.parametrize("is_paired", [True, False])
def test_equivalence_errs_as_seldom_and_finds_as_often_as_it_says(is_paired):
    shares = intervals.accuracy(np.random.default_rng(1), 5, 1000, is_paired)
    assert 0.93 <= shares["difference, 95 %"] <= 0.97
    errors = [share for name, share in shares.items() if name.startswith("false")]
    assert len(errors) == 4
    assert max(errors) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
    assert shares["equivalent when nothing differs"] == pytest.approx(shares["the same, as planned"], abs=0.04)


def test_overhead_is_all_but_steady_epochs():
    # 20 s, of which 3 epochs of 2 + 1 s; the first one took 3 s and 2 s longer.
    assert costs.overhead(20.0, [5.0, 2.0, 2.0], [3.0, 1.0, 1.0]) == 20.0 - 9.0


def test_the_peak_of_a_process_is_known_however_it_ends_and_whoever_started_it(tmp_path):
    fill = "import os; held = b'1' * 200_000_000; "
    for ending in ("", "os._exit(0)"):
        cost = costs.run_and_measure(sys.executable, "-c", fill + ending, cwd=tmp_path)
        assert 200e6 < cost.peak_resident_bytes < 300e6
    large = bytearray(b"1") * 400_000_000  # of the parent, which is none of the child's business
    cost = costs.run_and_measure(sys.executable, "-c", "print(1)", cwd=tmp_path)
    assert cost.peak_resident_bytes < 100e6 < len(large)
    assert (cost.printed, cost.seconds > 0) == ("1\n", True)
    with pytest.raises(RuntimeError, match="ended with 3:\nbroken"):
        costs.run_and_measure(sys.executable, "-c", "print('broken'); raise SystemExit(3)", cwd=tmp_path)


def test_a_figure_is_a_ratio_of_medians_with_its_peer_and_the_last_line_is_json(monkeypatch, capsys):
    row = costs.figure("overhead", "mnist_dense", "overhead_seconds", [3.0, 1.0, 2.0], [4.0, 4.0, 8.0])
    assert row == {
        "name": "overhead",
        "benchmark": "mnist_dense",
        "peer": costs.PEER,
        "ours_seconds": 2.0,
        "peer_seconds": 4.0,
        "ratio": 0.5,
        "ratio_low": 0.25,
        "ratio_high": 0.75,
        "repeats": 3,
    }
    monkeypatch.setattr(costs, "measure_runs", lambda _: [row])
    costs.main()
    told, last = capsys.readouterr().out.splitlines()
    assert told == f"overhead mnist_dense · 0.500 (0.250 to 0.750) · 2.0 / 4.0 seconds against {costs.PEER}"
    assert json.loads(last)["figures"] == [row]


def test_the_peer_trains_the_same(monkeypatch):
    """Parameters, batch size, epochs and steps, on made-up examples."""
    import keras
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from bench import peer
    from pipeline.training.building import build_model

    recipe = benchmark(16, num_epochs=3)
    study = small_study(benchmarks={"wide": recipe, "narrow": recipe})
    model, _ = build_model(study.benchmarks["wide"], "mixed_bfloat16", 10, 1, seed=0)
    read = tf.data.Dataset.from_tensor_slices((tf.zeros((50, 8, 8, 1), tf.uint8), tf.zeros(50, tf.int64)))
    features = {"image": tf.zeros((8, 8, 1)), "label": SimpleNamespace(num_classes=10)}
    info = SimpleNamespace(features=features, splits={"train": SimpleNamespace(num_examples=50)})
    monkeypatch.setattr(tfds, "load", lambda *_, **__: ((read, read), info))
    try:
        done = peer.train(costs.peer_settings(study, "wide", "mixed_2x"))
    finally:
        keras.config.set_dtype_policy("float32")
    assert done["num_parameters"] == model.count_params()
    assert (done["batch_size"], done["num_epochs"], done["steps_per_epoch"]) == (32, 3, 2)
    assert len(done["train_seconds"]) == len(done["validation_seconds"]) == 3
    json.dumps(done)


def test_a_run_is_before_its_peer_as_often_as_after_it(monkeypatch, tmp_path):
    order = []
    trained, other = (costs.Run(1.0, 700, (1, 2, 3, last)) for last in (4, 5))
    monkeypatch.setattr(costs, "_ours", lambda *_, **__: order.append("ours") or trained)
    monkeypatch.setattr(costs, "_peers", lambda *_: order.append("peer") or trained)
    study = costs.small_quick_study()
    rows = costs.measure_benchmark(tmp_path, study, "mnist_dense")
    assert order == ["ours", "ours", "ours", "peer", "peer", "ours", "ours"]  # the first starts the warm process
    assert [each["name"] for each in rows] == ["overhead", "overhead_warm", "peak_memory"]
    monkeypatch.setattr(costs, "_peers", lambda *_: other)
    with pytest.raises(RuntimeError, match="not trained the same"):
        costs.measure_benchmark(tmp_path, study, "mnist_dense")
