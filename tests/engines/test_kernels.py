"""Float16 on this machine's CPU, whatever its vendor: no kernel of a study may fall back to reference code."""

import pytest
from conftest import REPOSITORY

from pipeline.data.preparation import prepare as prepare_data
from pipeline.machine.processes import Parent
from pipeline.speed.measuring import Trained, do_nothing, import_engine
from pipeline.speed.turns import Task
from pipeline.study.schema import load_study

NUM_STEPS = 3
MOST = 20.0  # times float32's; reference kernels take a hundred times as long and more


def seconds(study, benchmark, variant) -> float:
    """The shorter of two blocks of a few steps, each after a warm-up, in a process that chooses its kernels."""
    with Parent(1, import_engine, [study.variants[variant].policy], do_nothing) as parent:
        train = Trained(parent.lines[0], study, benchmark, variant)
        return min(train(Task(NUM_STEPS)).wall_seconds for _ in range(2))


BENCHMARKS = load_study(REPOSITORY / "params.yaml").benchmarks


@pytest.mark.parametrize("benchmark", {of.model.name: name for name, of in BENCHMARKS.items()}.values())
def test_a_float16_step_uses_no_reference_kernels(tmp_path, monkeypatch, benchmark):
    monkeypatch.chdir(tmp_path)
    study = load_study(REPOSITORY / "params.yaml")
    dataset = study.benchmarks[benchmark].dataset
    prepare_data(dataset, study.datasets[dataset])
    ratio = seconds(study, benchmark, "mixed_float16") / seconds(study, benchmark, "float32")
    print(f"{benchmark}: a float16 step takes {ratio:.1f} times float32's")
    assert ratio < MOST
