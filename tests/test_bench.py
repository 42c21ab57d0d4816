"""What the project promises of its intervals and of the cost of comparing; how costs are measured beside a peer's."""

import json
import subprocess
import sys
from argparse import Namespace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from conftest import benchmark, small_study

from bench import costs, figures, gpu, intervals, processes, repository, runs, scaling
from bench.device import forward_flops
from pipeline.machine.hardware import gpus
from pipeline.speed.turns import MAX_LAUNCHES


@pytest.mark.parametrize("num_launches", intervals.NUM_LAUNCHES)
@pytest.mark.parametrize("stalled", [0.0, 0.1])
def test_the_intervals_of_speed_hold_the_truth_as_often_as_they_say(num_launches, stalled):
    held = intervals.speed(np.random.default_rng(0), intervals.World(stalled=stalled), num_launches, 1000)
    for name in ("the baseline over itself", "speedup", "interaction", "one more launch"):
        assert 0.93 <= held[name] <= 0.975, name


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.04])
def test_a_study_that_ends_for_its_narrow_intervals_has_intervals_that_hold(spread):
    held = intervals.ending_early(np.random.default_rng(0), spread, 3000)
    assert min(held["speedup"], held["the baseline over itself"]) >= 0.93
    assert held["launches"] < MAX_LAUNCHES - 1  # it does end early


@pytest.mark.parametrize("num_seeds", intervals.NUM_SEEDS)
def test_equivalence_errs_as_seldom_and_finds_as_often_as_it_says(num_seeds):
    shares = intervals.accuracy(np.random.default_rng(1), num_seeds, 3000)
    assert 0.93 <= shares["difference, 95 %"] <= 0.97
    assert 0.88 <= shares["difference, 90 %"] <= 0.92
    assert shares["false equivalent at the margin"] <= 0.05 + 3 * (0.05 * 0.95 / 3000) ** 0.5
    assert shares["equivalent when nothing differs"] == pytest.approx(shares["the same, as planned"], abs=0.03)


def test_seeds_that_are_added_where_five_left_the_margin_open_cost_what_the_documents_say():
    at_the_margin, within = (intervals.going_on(np.random.default_rng(2), 500, true_pp) for true_pp in (1.0, 0.5))
    assert 0.05 < at_the_margin["equivalent"] <= 0.14  # about 10 %: two looks
    assert within["difference, 95 %"] >= 0.92
    assert within["equivalent"] >= 0.92


def test_a_thousand_runs_compare_in_20_seconds_and_500_megabytes(tmp_path):
    cost = scaling.measure(tmp_path, 1000)
    assert cost["cpu_seconds"] < 20  # of which other work on the machine takes nothing
    assert cost["peak_resident_bytes"] < 500e6


def row(ratio: float, better: str = "lower", name: str = "overhead", **where) -> dict:
    return figures.figure(name, "seconds", [ratio * 4, ratio * 8], [4.0, 8.0], of="a peer", better=better, **where)


def test_a_figure_is_a_ratio_of_medians_with_its_peer_and_its_target():
    assert figures.figure(
        "overhead", "seconds", [3.0, 1.0, 2.0], [4.0, 4.0, 8.0], of="p", target=0.5, benchmark="b"
    ) == {
        "name": "overhead",
        "benchmark": "b",
        "peer": "p",
        "better": "lower",
        "ours_seconds": 2.0,
        "peer_seconds": 4.0,
        "ratio": 0.5,
        "ratio_low": 0.25,
        "ratio_high": 0.75,
        "repeats": 3,
        "target": 0.5,
        "met": True,
    }
    faster = figures.figure("throughput", "images_per_second", [9.0], [10.0], of="p", better="higher", target=1.0)
    assert not faster["met"]
    assert faster["ratio_low"] == faster["ratio_high"] == 0.9
    limited = figures.within(row(1.5), 5.0)
    assert (limited["ours_seconds"], limited["met"]) == (9.0, False)
    assert "MISSED" in figures.line(limited)


@pytest.mark.parametrize(
    ("better", "ratio", "is_worse"),
    [
        ("lower", 1.25, False),
        ("lower", 1.26, True),
        ("lower", 0.5, False),
        ("higher", 0.8, False),
        ("higher", 0.79, True),
        ("higher", 2.0, False),
    ],
)
def test_a_ratio_is_worse_than_the_baselines_by_more_than_a_quarter(better, ratio, is_worse):
    baseline = figures.ratios([row(1.0, better, benchmark="b"), row(0.1, better, benchmark="c")])
    *found, last = figures.worse([row(ratio, better, benchmark="b")], baseline)
    assert [line.startswith("WORSE overhead b: ratio") for line in found] == [True] * is_worse
    assert last == "NOT COMPARED overhead c: only the baseline has it"


def test_what_is_kept_has_no_seconds_and_a_figure_without_a_baseline_is_named():
    kept = figures.ratios([figures.within(row(1.0, num_runs=10), 1.0)])
    assert "seconds" not in json.dumps(kept)
    found = list(figures.worse([row(1.0, num_runs=100)], kept))
    assert [
        line.startswith(f"NOT COMPARED overhead {num_runs} runs")
        for num_runs, line in zip((100, 10), found, strict=True)
    ]
    with pytest.raises(ValueError, match="schema_version"):
        list(figures.worse([], {"schema_version": 0}))


def test_the_kept_baseline_has_a_ratio_for_each_figure_of_a_light_run():
    kept = json.loads(costs.BASELINE.read_text())
    assert kept["schema_version"] == figures.SCHEMA_VERSION
    assert all(figure["ratio"] > 0 and figure["better"] in ("lower", "higher") for figure in kept["figures"])
    assert {figure["name"] for figure in kept["figures"]} == {
        "overhead",
        "peak_memory",
        "no_op",
        "one_change",
        "comparing",
    }


def test_the_last_line_is_json(monkeypatch, capsys, tmp_path):
    rows = [row(9.0, benchmark="mnist_dense"), row(1.0, name="no_op", num_runs=10)]
    monkeypatch.setattr(costs, "_light", lambda: iter(rows))
    costs.main(Namespace(light=True, parts=["runs"], num_runs=[10], store=tmp_path / "kept.json"))
    *_, last = capsys.readouterr().out.splitlines()
    result = json.loads(last)
    assert result.keys() == {"schema_version", "machine", "figures", "worse", "not_measured"}
    assert result["figures"] == rows
    assert {"num_cpus", "load_average", "packages"} <= result["machine"].keys()
    assert all(gap.keys() == {"name", "reason"} for gap in result["not_measured"])
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert len(kept["figures"]) == 2
    assert kept["worse"] == result["worse"]


def test_overhead_is_all_but_steady_epochs():
    # 20 s, of which 3 epochs of 2 + 1 s; the first one took 3 s and 2 s longer.
    assert runs.overhead(20.0, [5.0, 2.0, 2.0], [3.0, 1.0, 1.0]) == 20.0 - 9.0


def test_the_peak_of_a_process_is_known_however_it_ends_and_whoever_started_it(tmp_path):
    fill = "import os; held = b'1' * 200_000_000; "
    for ending in ("", "os._exit(0)"):
        cost = processes.measure(sys.executable, "-c", fill + ending, cwd=tmp_path)
        assert 200e6 < cost.peak_resident_bytes < 300e6
    large = bytearray(b"1") * 400_000_000  # of the parent, which is none of the child's business
    cost = processes.measure(sys.executable, "-c", "print(1)", cwd=tmp_path)
    assert cost.peak_resident_bytes < 100e6 < len(large)
    assert (cost.printed, cost.seconds > 0) == ("1\n", True)
    with pytest.raises(RuntimeError, match="ended with 3:\nbroken"):
        processes.measure(sys.executable, "-c", "print('broken'); raise SystemExit(3)", cwd=tmp_path)


@pytest.mark.parametrize("peer_input", ["pipeline", "arrays"])
def test_the_peer_trains_the_same(peer_input, monkeypatch):
    """Parameters, batch size, epochs and steps, on made-up examples."""
    import keras
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from bench import peer
    from pipeline.training.building import build_model

    recipe = benchmark(16, num_epochs=3)
    study = small_study(benchmarks={"wide": recipe, "narrow": recipe})
    model, _ = build_model(study.benchmarks["wide"], "mixed_bfloat16", 10, 1, seed=0)
    settings = runs.peer_settings(study, "wide", "mixed_2x", peer_input)
    whole = tf.zeros((50, 8, 8, 1), tf.uint8), tf.zeros(50, tf.int64)
    read = whole if peer_input == "arrays" else tf.data.Dataset.from_tensor_slices(whole)
    features = {"image": whole[0][0], "label": SimpleNamespace(num_classes=10)}
    info = SimpleNamespace(features=features, splits={"train": SimpleNamespace(num_examples=50)})
    monkeypatch.setattr(tfds, "load", lambda *_, **__: ((read, read), info))
    try:
        done = peer.train(settings)
    finally:
        keras.config.set_dtype_policy("float32")
    assert done["num_parameters"] == model.count_params()
    assert (done["batch_size"], done["num_epochs"], done["steps_per_epoch"]) == (32, 3, 2)
    assert len(done["train_seconds"]) == len(done["validation_seconds"]) == 3
    assert done["num_images_per_epoch"] == (40 if peer_input == "arrays" else 64)
    json.dumps(done)


def test_a_run_s_figures_are_of_the_first_variant_and_speed_of_all(monkeypatch, tmp_path):
    study = runs.quick_study(runs.SMALL)
    monkeypatch.setattr(runs, "_ours", lambda *_: runs.Run(1.0, 100.0, 700, (1, 2, 3, 4)))
    monkeypatch.setattr(runs, "_peers", lambda *_: runs.Run(2.5, 50.0, 1000, (1, 2, 3, 4)))
    rows = runs.measure_benchmark(tmp_path, study, runs.CIFAR, runs.VARIANTS, 2)
    found = [(row["name"], row["variant"], row["ratio"], row["met"]) for row in rows]
    assert found[:2] == [("overhead", "float32", 0.4, True), ("peak_memory", "float32", 0.7, True)]
    assert found[2:] == [("throughput", variant, 2.0, True) for variant in runs.VARIANTS]
    monkeypatch.setattr(runs, "_peers", lambda *_: runs.Run(2.0, 50.0, 1000, (1, 2, 3, 5)))
    with pytest.raises(RuntimeError, match="not trained the same"):
        runs.measure_benchmark(tmp_path, study, runs.CIFAR, ["float32"], 1)
    full_size = runs.quick_study({runs.CIFAR: runs.FULL_SIZE}).benchmarks[runs.CIFAR]
    assert (full_size.image_size, full_size.model.depth) == (224, None)


def test_the_peer_builds_the_same_efficientnet():
    from bench import peer
    from pipeline.training.building import build_model

    study = runs.quick_study()
    model, _ = build_model(study.benchmarks[runs.CIFAR], "float32", 100, 3, seed=0)
    settings = runs.peer_settings(study, runs.CIFAR, "float32", "pipeline")
    network = peer.build(settings["model"], (32, 32, 3), 100)
    assert network.count_params() == model.count_params() > 1e6


def test_every_variant_is_measured_on_every_benchmark():
    """Also those that `quick` leaves out: a run that is left out has no record to read."""
    study = runs.quick_study()
    assert all(set(runs.VARIANTS) <= set(study.variants_of(name)) for name in (runs.MNIST, runs.CIFAR))


def test_the_products_of_a_model_are_counted_by_hand():
    """3 × 3 kernels from 2 to 4 channels at 6 × 6 places, depthwise ones, a dense layer; two operations a product."""
    images = keras.Input((8, 8, 2))
    x = keras.layers.Conv2D(4, 3)(images)
    x = keras.layers.DepthwiseConv2D(3, padding="same")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(images, keras.layers.Dense(10)(x))
    assert forward_flops(model) == 2 * (36 * 9 * 2 * 4 + 36 * 9 * 4 + 4 * 10)


def test_how_full_this_machine_is():
    """In half a second: a few epochs of MNIST, and as many on a batch that lies ready."""
    settings = {"name": runs.MNIST, "variant": "float32", "device": "cpu", "engine": "tensorflow", "seconds": 0.5}
    done = subprocess.run(
        [sys.executable, "-m", "bench.device", "--measure", json.dumps(settings)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["batch_size"], found["image_size"]) == (8192, 28)
    assert 1 <= found["steps"] <= 48000 / 8192 + 1
    assert found["flops_per_second"] == pytest.approx(
        3 * 2 * 64 * (784 + 64 + 10) * found["images_per_second"], rel=0.1
    )
    assert found["input_bound_share"] < 1
    assert found["compile_seconds"] > 0
    assert found["share_of_peak"] is found["joules_per_epoch"] is None or gpus()


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB", "NVIDIA H200"])
def test_a_gpu_is_found_in_the_table_of_peaks(name):
    study = runs.composed("paper")
    peaks = [gpu.peak(study.variants[variant], name) for variant in ("float32", "tf32", "mixed_float16")]
    assert peaks[0] < peaks[2]
    assert peaks[1] is None or peaks[0] < peaks[1] < peaks[2]


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("visible", "places", "found"),
    [
        (None, [0], ("NVIDIA H200", 10.0)),
        ("1,0", [0], ("NVIDIA A100-SXM4-80GB", 20.0)),
        ("GPU-ac3", [0], ("Tesla V100-SXM2-16GB", 30.0)),
        ("0,2", [1], ("Tesla V100-SXM2-16GB", 30.0)),  # the engine has left the first one out
        (None, [], (None, None)),  # a CPU trains
    ],
)
def test_the_energy_is_that_of_the_gpu_that_trains(monkeypatch, visible, places, found):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    trainer = gpu.gpu_of(places)
    assert (gpu.name(trainer), gpu.joules(trainer)) == found


def test_each_side_is_first_as_often_as_last(tmp_path):
    """Of commands: what warms a cache, or the machine, serves both."""
    sides = [(sys.executable, "-c", f"open('order', 'a').write('{name}')") for name in "ab"]
    processes.interleaved(4, *sides, cwd=tmp_path)
    assert (tmp_path / "order").read_text() == "abbaabba"


@pytest.mark.parametrize(
    ("benchmark_name", "expected"),
    [(runs.CIFAR, ["ours", "pipeline"]), (runs.MNIST, ["ours", "pipeline", "arrays"])],
)
def test_a_run_is_before_its_peer_as_often_as_after_it(monkeypatch, tmp_path, benchmark_name, expected):
    order, trained = [], runs.Run(1.0, 100.0, 700, (1, 2, 3, 4))
    monkeypatch.setattr(runs, "_ours", lambda *_: order.append("ours") or trained)
    monkeypatch.setattr(runs, "_peers", lambda _, settings: order.append(settings["input"]) or trained)
    runs.measure_benchmark(tmp_path, runs.quick_study(runs.SMALL), benchmark_name, ["float32"], 2)
    assert order == expected + expected[::-1]


def test_dvc_is_before_its_peers_as_often_as_after_them(monkeypatch, tmp_path):
    order = []
    monkeypatch.setattr(repository, "prepare", lambda *_: order.append("bare") or 1.0)
    monkeypatch.setattr(repository, "_conclude", lambda _: order.append("bare") or 1.0)
    monkeypatch.setattr(repository, "_change", lambda *_: None)
    monkeypatch.setattr(repository, "measure", lambda *_, **__: order.append("dvc") or processes.Cost(1.0, 0, ""))
    costs_of = [[processes.Cost(1.0, 0, "")] * 3] * 2
    monkeypatch.setattr(repository, "interleaved", lambda *_, **__: order.append("read") or costs_of)
    repository.measure_repository(tmp_path, 10, 2, num_changes=4)
    del order[1]  # nothing to do, against `dvc status`
    assert order == ["bare", "dvc", "read", "read", "dvc", "bare"] * 2


def test_how_full_a_gpu_is_needs_one():
    if gpus():
        pytest.skip("there is one")
    done = subprocess.run([sys.executable, "-m", "bench.device", "--device", "gpu"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "NVIDIA's driver shows none here" in done.stderr
