"""The study that would answer whether mixed precision is worth it for a model and a data set."""

import re
from pathlib import Path
from typing import Any

from pipeline.data.datasets import Description
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.untrusted import Remedy, read_json
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.runtimes import RUNTIMES
from pipeline.study.schema import Study

ADVISED_POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
# Guesses, which the header of the file names as such.
RECIPE = {"optimizer": {"name": "adam", "learning_rate": 0.001}, "num_epochs": 20, "steps_per_execution": 1}
COMPARISON = {"baseline": "float32", "num_warmup_epochs": 1, "max_other_cpu_share": 0.25, "further_pairs": []}
SPEED = {"budget_seconds": 300, "target_half_width": 0.05}
MARGIN_PP = 1.0
ADVISED_SEEDS = [0, 1, 2]
VALIDATION_SHARE = 0.1


def study_name(text: str) -> str:
    """Return `text` as the study can name things: cifar10_resnet50v2 for "cifar10 ResNet50V2"."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def propose(
    model: dict[str, Any],
    dataset: str,
    origin: DatasetSource,
    description: dict[str, Any],
    batch_size: int,
    *,
    runtime: str,
    image_size: int | None = None,
) -> dict[str, Any]:
    """Return the values of `params.yaml` of a study of float32 and both mixed policies, at B and 2B.

    Args:
        model: the `model` of the study, as `model_values` makes it.
        dataset: the name it has in the study, and under data/.
        description: the content of the data set's `dataset.json`.
        runtime: the locked packages that train.

    Raises:
        InputError: the study would be no valid one, or the images are too few for twice B.
    """
    num_examples = description["num_train_examples"]
    num_validation = max(1, round(VALIDATION_SHARE * num_examples))
    if 2 * batch_size > num_examples - num_validation:
        raise InputError(
            f"--batch: twice the batch must be at most the {num_examples - num_validation} training examples that "
            f"{dataset} leaves beside {num_validation} for validation. Received: {batch_size}"
        )
    engine = RUNTIMES[runtime].engine
    name = study_name(f"{dataset} {model['name'].rpartition(':')[2]}")
    split = {"num_train_examples": num_examples - num_validation, "num_validation_examples": num_validation}
    benchmark = {
        "dataset": dataset,
        "split": split | {"shuffle_seed": 0},
        "image_size": image_size or description["image_shape"][0],
        "model": model,
        "batch_size": batch_size,
        "evaluation_batch_size": min(256, num_validation),
    }
    values = {
        "campaign": "first",
        "engine": engine,
        "runtime": runtime,
        "devices": 1,
        "compilation_cache": False,
        "tensorboard": False,
        "datasets": {dataset: origin.model_dump(exclude_unset=True)},
        "benchmarks": {name: benchmark | RECIPE},
        "variants": _variants(jit_compile=engine == "jax"),
        "speed": SPEED,
        "comparison": COMPARISON | {"margin_pp": {name: MARGIN_PP}},
        "profile": "advised",
        "description": f"Is mixed precision worth it for {model['name']} on {origin.tfds}?",
        "seeds": ADVISED_SEEDS,
    }
    validate(Study, values, f"MODEL={model['name']} DATASET={dataset} BATCH={batch_size}")
    return values


def _variants(jit_compile: bool) -> dict[str, Any]:
    """Return each policy at B and at 2B, by the name of the variant."""
    return {
        policy if multiplier == 1 else f"{policy}_2x": {
            "policy": policy,
            "batch_multiplier": multiplier,
            "tf32": False,
            "jit_compile": jit_compile,
        }
        for policy in ADVISED_POLICIES
        for multiplier in (1, 2)
    }


def write_study(values: dict[str, Any], path: Path) -> None:
    """Write `params.yaml` of a proposed study, with a word on how to run it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = (
        f"# Written by make advise. To run it: cp {path} params.yaml && make repro\n"
        "# Epochs, optimizer, seeds and margin are guesses: change them to what you would train with.\n"
    )
    path.write_text(header + yaml_files.dump(values), encoding="utf-8")


def find_description(name: str) -> dict[str, Any] | None:
    """Return `dataset.json` of a prepared data set; None where there is none yet."""
    path = Path("data", name, "dataset.json")
    if not path.exists():
        return None
    remedy = f"Remove {path.parent} and ask again."
    return read_json(Description, path, Remedy(remedy, remedy)).model_dump(mode="json")
