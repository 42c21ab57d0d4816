"""TensorFlow and JAX, from one code path: each in a process of its own, because a process has one engine."""

import json

import pytest
from engines.starting import ENGINES, PROBE, probe, start

from pipeline.errors import InputError


def test_jax_passes_the_training_and_numerics_tests():
    """Run on JAX what the rest of the suite tests on TensorFlow."""
    chosen = ["complete_record and mixed_float16", "overflow"]
    chosen += ["custom_loop_gives_the_same_results_as_fit and mixed_float16"]
    chosen += ["runs_out_of_memory", "wait_for_every_step", "worked_out_in_float64", "range_as", "growth_period"]
    chosen += ["dtypes_under", "random_state", "planted_fault", "float8"]
    chosen += ["layers_compute_in_float32", "all_layers_in_float32"]
    rooms = ("training", "numerics", "advice/test_fitness.py", "models/test_own_model.py")
    files = [f"tests/pipeline/{room}" for room in rooms]
    done = start("jax", "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", " or ".join(chosen))
    assert " passed" in done.stdout
    assert " skipped," not in done.stdout


def test_both_engines_have_the_same_weights_batches_and_first_losses(workspace):
    """Weights and batches are the same bit for bit. Losses are float32 sums in another order.

    A sum of n products is off by about √n · 2⁻²⁴ relatively: for the 784 to some thousand terms here 2e-6 to 5e-6, and
    more after steps of Adam, which divides by the size of gradients near zero.
    """
    ours, theirs = (probe(engine, "losses", workspace) for engine in ENGINES)
    for model in ("dense", "convolutional", "transformer"):
        assert ours[model]["weights"] == theirs[model]["weights"]
        assert ours[model]["labels"] == theirs[model]["labels"]
        assert ours[model]["losses"][0] == pytest.approx(theirs[model]["losses"][0], rel=1e-5)
        assert ours[model]["losses"] == pytest.approx(theirs[model]["losses"], rel=1e-4)
        assert len(set(ours[model]["losses"])) == 3  # it trains


@pytest.mark.parametrize(
    ("engine", "absent"),
    [("tensorflow", ["jax", "tensorflow_datasets", "dvc"]), ("jax", ["tensorflow", "tensorflow_datasets", "dvc"])],
)
def test_training_needs_only_its_engine_and_the_prepared_arrays(workspace, engine, absent):
    code = f"""
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
sys.argv[1:] = ["trained", "{workspace}"]
runpy.run_path("{PROBE}", run_name="__main__")
"""
    done = start(engine, "-c", code)
    assert json.loads(done.stdout.splitlines()[-1])  # the digest of the weights, which a completed run alone has


@pytest.mark.parametrize("custom", [0, 1])
def test_keeping_images_on_the_device_gives_bit_identical_weights(workspace, custom):
    (was_kept, sent), (is_kept, kept) = probe("jax", "fed", workspace, custom)
    assert (was_kept, is_kept) == (False, True)
    assert kept == sent


def test_turns_train_the_same_steps_when_images_stay_on_the_device(workspace):
    sent, kept = probe("jax", "turns", workspace)
    assert [block[:2] for block in kept] == [[2, 32], [2, 32], [7, 112]]
    assert kept == sent


def test_xla_compiles_nothing_after_the_first_epoch(workspace):
    """Every epoch ends in a smaller batch; its shape is compiled once, like that of the others."""
    first, *rest = probe("jax", "compilations", workspace)
    assert first > 0
    assert rest == [0] * 4


def test_the_next_process_reuses_what_xla_compiled(workspace):
    first, second = (probe("jax", "cached", workspace) for _ in range(2))
    assert first["misses"] > 0
    assert second["misses"] == 0
    assert second["hits"] >= first["misses"]
    assert second["losses"] == first["losses"]


WITHOUT_CUDNN = """
import jax
from pipeline.engine import on_jax

def is_out_of_memory(peak, free, words="INTERNAL: No DNN support for stream"):
    statistics = {"peak_bytes_in_use": peak, "bytes_limit": 100}
    jax.local_devices = lambda: [type("Device", (), {"memory_stats": lambda self: statistics})()]
    on_jax.free_gpu_bytes = lambda: free
    return on_jax.is_out_of_memory(jax.errors.JaxRuntimeError(words))

assert is_out_of_memory(95, 2**33)
assert is_out_of_memory(50, 0)
assert not is_out_of_memory(50, 2**33)
assert not is_out_of_memory(50, None)
assert is_out_of_memory(50, 2**33, "RESOURCE_EXHAUSTED: Out of memory")
assert not is_out_of_memory(95, 2**27, "INTERNAL: an illegal instruction")
"""


def test_a_cudnn_error_counts_as_out_of_memory_if_the_memory_was_full():
    start("jax", "-c", WITHOUT_CUDNN)


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_ignore_the_users_keras_settings(workspace, tmp_path_factory, engine):
    """Those in ~/.keras/keras.json and in the environment would make runs slower, wrong, or silently shorter."""
    home = tmp_path_factory.mktemp("home")
    (home / ".keras").mkdir()
    hostile = {"floatx": "float64", "epsilon": 1e-3, "image_data_format": "channels_first"}
    (home / ".keras" / "keras.json").write_text(json.dumps(hostile | {"backend": "torch", "nnx_enabled": True}))
    variables = {"HOME": str(home), "KERAS_HOME": str(home / ".keras"), "KERAS_NNX_ENABLED": "1"}
    variables |= {"KERAS_MAX_EPOCHS": "1", "KERAS_MAX_STEPS_PER_EPOCH": "1"}
    arguments = [str(PROBE), "trained", str(workspace)]
    said = [start(engine, *arguments, **more).stdout.splitlines()[-1] for more in ({}, variables)]
    assert said[0] == said[1]


def test_numerics_on_jax_need_no_tensorflow(workspace):
    code = f"""import importlib.util, os, sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "tensorflow" else found(name, *rest)
os.chdir({str(workspace)!r})
from pipeline.numerics import finding
from conftest import small_study
found = finding.find(small_study(numerics="facts"))
print(*found["facts"], *found["samples"])"""
    said = start("jax", "-c", code).stdout
    assert "notebook_split is skipped: the notebook splits by a shuffle of TensorFlow" in said
    found = said.splitlines()[-1].split()
    assert not [name for name in found if name.startswith("notebook_split")]
    assert "gradients.wide.some_flushed" in found


def test_the_error_names_an_engine_that_is_not_installed():
    code = "import sys; sys.modules['jax'] = None; import pipeline.engine"
    done = start("jax", "-c", code, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        InputError.__name__ + ": engine: jax is not installed here; see `make help` for the engines."
    )


SPARED = """
import sys
import pipeline.engine
spared = {"IPython", "jax", "matplotlib", "pandas", "pyarrow"}
assert not spared & sys.modules.keys(), spared & sys.modules.keys()
import keras, pandas
assert keras.ops.convert_to_numpy(keras.ops.add(1, 1)) == pandas.Series([1, 1]).sum()
"""


def test_tensorflow_loads_without_unneeded_packages_which_remain_importable():
    start("tensorflow", "-c", SPARED)
