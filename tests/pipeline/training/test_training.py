"""Real runs of a small model on a tiny data set."""

import time

import keras
import numpy as np
import pytest
from conftest import ENGINE, benchmark, make_run, small_study

from pipeline.comparison.finished_runs import read_epochs, read_predictions, read_record
from pipeline.data import datasets
from pipeline.errors import InputError
from pipeline.machine.disturbance import Watch
from pipeline.records.run_record import RunRecord, planned
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import RunKey
from pipeline.study.variant import Variant
from pipeline.training import building, evaluation, run
from pipeline.training.clock import EpochClock


def study_with(policy: str, variant: dict | None = None, **recipe):
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants["other"] = {"policy": policy, "batch_multiplier": 2} | (variant or {})
    return small_study(recipe, variants=variants)


def train(study, workspace, variant="other", seed=0) -> RunRecord:
    return make_run(workspace, study, RunKey("wide", variant, seed))


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "bfloat16"])
def test_a_run_leaves_a_complete_record(workspace, policy):
    record = train(study_with(policy, num_epochs=3, optimizer={"name": "rmsprop", "learning_rate": 0.001}), workspace)
    folder = workspace / "runs" / "wide" / "other" / "seed-0"
    assert sorted(path.name for path in folder.iterdir()) == ["epochs.csv", "predictions.npz", "record.json"]
    assert read_record(record.key, workspace) == record

    assert record.outcome == "completed"
    assert record.planned.policy == policy
    assert record.planned.batch_size == 32
    assert record.planned.steps_per_epoch == 2
    assert record.planned.loss_scale.mode == ("dynamic" if policy == "mixed_float16" else "none")
    assert record.environment["kernels"] in ({"XLA"} if ENGINE == "jax" else {"oneDNN", "Eigen", "CUDA"})
    assert record.num_parameters == 64 * 16 + 16 + 16 * 16 + 16 + 16 * 10 + 10

    epochs = read_epochs(record, workspace)
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3]

    with np.load(folder / "predictions.npz") as predictions:
        labels = np.load(workspace / "data" / "mnist" / "test_labels.npy")
        assert np.array_equal(predictions["labels"], labels)
        assert {predictions[name].dtype for name in ("labels", "predicted")} == {np.dtype(np.uint8)}
        assert record.scores.test_accuracy == (predictions["predicted"] == labels).mean()
        assert np.array_equal(read_predictions(record, workspace), predictions["predicted"])


def test_twice_the_batch_for_twice_the_epochs_makes_the_same_number_of_updates():
    whole = {"num_train_examples": 32, "num_validation_examples": 8}
    study = study_with("float32", {"epoch_multiplier": 2}, split=whole)
    once, twice = (planned(study, RunKey("wide", name, 0)) for name in ("float32", "other"))
    assert (once.num_epochs, twice.num_epochs) == (2, 4)
    assert once.num_epochs * once.steps_per_epoch == twice.num_epochs * twice.steps_per_epoch == 4


def test_a_run_repeats_bit_for_bit(workspace):
    study = study_with("mixed_float16")
    first, again, other = train(study, workspace), train(study, workspace), train(study, workspace, seed=1)
    assert first.scores == again.scores
    assert first.final_weights_sha256 == again.final_weights_sha256
    assert first.initial_weights_sha256 != other.initial_weights_sha256


def test_a_trained_model_beats_chance(workspace):
    """An image is as bright as its label says, so a model that trains beats chance by far."""
    record = train(study_with("mixed_bfloat16", num_epochs=30, batch_size=4), workspace)
    assert record.scores.test_accuracy > 0.4


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_the_custom_loop_gives_the_same_results_as_fit(workspace, policy):
    """From the same initial weights, over the same batches: the same numbers at every epoch."""
    recipe = {"num_epochs": 3, "optimizer": {"name": "rmsprop", "learning_rate": 0.001}}
    written_out = train(study_with(policy, {"loop": "custom"}, **recipe), workspace)
    epochs = read_epochs(written_out, workspace)
    by_keras = train(study_with(policy, **recipe), workspace)
    assert (written_out.planned.loop, by_keras.planned.loop) == ("custom", "fit")
    assert written_out.initial_weights_sha256 == by_keras.initial_weights_sha256
    assert written_out.scores.test_loss == pytest.approx(by_keras.scores.test_loss, rel=1e-3)
    for ours, theirs in zip(epochs, read_epochs(by_keras, workspace), strict=True):
        assert ours.train_loss == pytest.approx(theirs.train_loss, rel=1e-3)
        assert ours.train_accuracy == pytest.approx(theirs.train_accuracy, abs=0.026)  # one example of 40
        assert (ours.loss_scale, ours.skipped_steps) == (theirs.loss_scale, theirs.skipped_steps)


GROWING = {"mode": "dynamic", "initial": 8.0, "growth_steps": 2}  # six steps double it three times
FIXED = {"mode": "fixed", "value": 128.0}


@pytest.mark.parametrize(
    ("loop", "policy", "loss_scale", "final"),
    [
        ("fit", "mixed_float16", GROWING, 64.0),
        ("custom", "float16", GROWING, 64.0),
        ("custom", "mixed_float16", FIXED, 128.0),
    ],
)
def test_dynamic_loss_scales_work_with_both_loops_and_a_fixed_one_with_the_custom_loop(
    workspace, loop, policy, loss_scale, final
):
    adam = {"name": "rmsprop", "learning_rate": 0.001}
    record = train(
        study_with(policy, {"loop": loop, "loss_scale": loss_scale}, num_epochs=3, optimizer=adam), workspace
    )
    last = read_epochs(record, workspace)[-1]
    assert (record.planned.loss_scale.mode, last.loss_scale) == (loss_scale["mode"], final)
    assert (record.outcome, last.skipped_steps) == ("completed", 0)


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_an_overflowing_step_is_skipped_under_a_dynamic_scale_and_taken_under_a_fixed_one(workspace, loop):
    dynamic, fixed = {"mode": "dynamic", "initial": 2.0**40}, {"mode": "fixed", "value": 2.0**40}

    def run_with(loss_scale):
        record = train(study_with("mixed_float16", {"loop": loop, "loss_scale": loss_scale}, num_epochs=3), workspace)
        return record, read_epochs(record, workspace)[-1]

    skipping, last = run_with(dynamic)
    assert (skipping.outcome, last.skipped_steps, last.loss_scale) == ("completed", 6, 2.0**34)
    overflowing, last = run_with(fixed)
    assert (overflowing.outcome, last.skipped_steps, overflowing.num_epochs) == ("diverged", 0, 1)
    assert overflowing.scores.test_accuracy is None
    assert overflowing.first_not_finite.startswith("the gradient of ")


@pytest.mark.parametrize("step", [0, 2])
def test_a_step_that_runs_out_of_memory_leaves_a_record(workspace, monkeypatch, step):
    """Inside Keras's loop, which on JAX has taken the model's values away by then."""
    make = keras.Model.make_train_function

    def make_one_that_fails(model, force=False):
        make(model, force)
        train, calls = model.train_function, iter(range(100))

        def fail(*arguments):
            if next(calls) == step:
                raise MemoryError
            return train(*arguments)

        model.train_function = fail

    monkeypatch.setattr(keras.Model, "make_train_function", make_one_that_fails)
    record = train(study_with("mixed_float16", num_epochs=3), workspace)
    assert (record.outcome, record.scores.test_accuracy) == ("out_of_memory", None)
    assert record.num_parameters == 64 * 16 + 16 + 16 * 16 + 16 + 16 * 10 + 10


def test_our_callbacks_do_not_make_keras_wait_for_every_step():
    """It fetches the loss of every step where a callback might read it; on TensorFlow it always does."""
    clock = EpochClock(lambda: (0.0, 0.0), lambda _: None)
    waits = [not keras.callbacks.CallbackList(callbacks)._async_train for callbacks in ([clock], [])]
    assert waits == ([False, False] if ENGINE == "jax" else [True, True])


def test_a_record_states_the_xla_setting_and_the_rounding_of_float32_products(workspace):
    whole = {"num_train_examples": 32, "num_validation_examples": 8}  # batches of one shape, which compile once
    record = train(study_with("mixed_bfloat16", {"xla": True, "loop": "custom"}, split=whole), workspace)
    assert (record.planned.xla, record.float32_products, record.outcome) == (True, "float32", "completed")


def test_a_run_refuses_rounded_float32_unless_its_policy_allows_it(workspace, monkeypatch):
    monkeypatch.setattr(keras.ops, "conv", lambda images, *_, **__: images.round(3))
    with pytest.raises(InputError, match="round float32 to tf32"):
        train(study_with("float32"), workspace)
    assert train(study_with("tf32", {}), workspace).outcome == "completed"


def test_training_times_exclude_validation(workspace, monkeypatch):
    real = evaluation.score

    def slow(*arguments):
        time.sleep(1.0)  # far longer than an epoch, also on a busy machine
        return real(*arguments)

    monkeypatch.setattr(run, "score", slow)
    record = train(study_with("float32"), workspace)
    for epoch in read_epochs(record, workspace):
        assert epoch.validation_seconds >= 1.0
        assert epoch.epoch == 1 or epoch.train_seconds < 1.0  # the first one compiles


def test_the_score_matches_that_of_keras_evaluate(workspace, monkeypatch):
    monkeypatch.chdir(workspace)
    data = datasets.load_dataset("mnist", small_study().benchmarks["wide"].split)
    recipe = Benchmark.model_validate(benchmark(units=16))
    model, _ = building.build_model(recipe, "float32", 10, 1, seed=0)
    building.compile_model(model, recipe, Variant(policy="float32", batch_multiplier=1))
    loss, accuracy, predicted = evaluation.score(model, data.test, batch_size=16)
    expected = model.evaluate(data.test.images, data.test.labels, batch_size=16, verbose=0)
    np.testing.assert_allclose([loss, accuracy], expected, rtol=1e-5)
    assert predicted.shape == (20,)


def test_a_model_that_ignores_its_policy_is_refused(workspace, monkeypatch):
    real = building.build_model
    monkeypatch.setattr(run, "build_model", lambda recipe, _policy, *rest: real(recipe, "float32", *rest))
    with pytest.raises(InputError, match=r"bfloat16, float32, float32 under mixed_bfloat16\. Received: float32"):
        train(study_with("mixed_bfloat16"), workspace)
    assert not list(workspace.glob("runs/**/record.json"))


def test_a_run_watches_the_gpu_it_trains_on(workspace, monkeypatch):
    monkeypatch.setattr(run.engine, "gpu_place", lambda: 1)
    watched = []
    monkeypatch.setattr(run, "Watch", lambda gpu: watched.append(gpu) or Watch())
    train(study_with("float32"), workspace)
    assert set(watched) == {1}
