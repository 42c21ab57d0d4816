"""Float16 on this machine's CPU, whoever made it: no kernel that a study takes may fall back to reference code."""

import numpy as np
import pytest
import yaml
from conftest import REPOSITORY, write_arrays

from pipeline.machine.processes import Parent
from pipeline.speed.measuring import Trained, prepare
from pipeline.speed.turns import Task
from pipeline.study.schema import load_study

NUM_STEPS = 3
MOST = 20.0  # times float32's; reference kernels take a hundred times as long and more


def seconds(study, benchmark, variant) -> float:
    """The shorter of two blocks of a few steps, each after a warm-up, in a process that chooses its kernels."""
    with Parent(1, prepare, [study.variants[variant].policy]) as parent:
        train = Trained(parent.lines[0], study, benchmark, variant)
        return min(train(Task(NUM_STEPS)).wall_seconds for _ in range(2))


@pytest.mark.parametrize("benchmark", ["mnist_dense", "cifar100_efficientnet_b0"])
def test_a_step_in_float16_takes_no_reference_kernels(tmp_path, monkeypatch, benchmark):
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(text)
    recipe = yaml.safe_load(text)["benchmarks"][benchmark]
    num_channels, num_classes = (1, 10) if recipe["dataset"] == "mnist" else (3, 100)
    num_train_examples = sum(recipe["split"][f"num_{part}_examples"] for part in ("train", "validation"))
    generator = np.random.default_rng(0)
    shape = (recipe["image_size"], recipe["image_size"], num_channels)
    write_arrays(
        tmp_path,
        recipe["dataset"],
        {
            f"{part}_{what}": values
            for part, count in (("train", num_train_examples), ("test", 100))
            for what, values in (
                ("images", generator.integers(0, 256, (count, *shape), np.uint8)),
                ("labels", generator.integers(0, num_classes, count)),
            )
        },
        num_classes,
    )
    study = load_study()
    ratio = seconds(study, benchmark, "mixed_float16") / seconds(study, benchmark, "float32")
    print(f"{benchmark}: a float16 step takes {ratio:.1f} times float32's")
    assert ratio < MOST
