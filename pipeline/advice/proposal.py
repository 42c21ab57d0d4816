"""The study that would answer whether mixed precision is worth it for a model and a data set."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.data.description import Description
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.untrusted import Remedy, read_json
from pipeline.statistics.equivalence import MAX_SEEDS, detectable_margin, num_seeds_needed
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.runtimes import RUNTIMES
from pipeline.study.schema import Study

ADVISED_POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
# The standard deviation of a test accuracy from seed to seed, in percentage points, that nobody has measured yet. A
# difference of two independent runs has √2 times that.
ASSUMED_SPREAD_PP = 0.5
_DIFFERENCE_SPREAD_PP = ASSUMED_SPREAD_PP * 2**0.5
# Guesses, which the header of the file names as such.
RECIPE = {"optimizer": {"name": "adam", "learning_rate": 0.001}, "num_epochs": 20, "steps_per_execution": 1}
COMPARISON = {"baseline": "float32", "num_warmup_epochs": 1, "max_other_cpu_share": 0.25, "further_pairs": []}
SPEED = {"budget_seconds": 300, "target_half_width": 0.05}
VALIDATION_SHARE = 0.1


def study_name(text: str) -> str:
    """Return `text` as the study can name things: cifar10_resnet50v2 for "cifar10 ResNet50V2"."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def num_seeds(margin_pp: float, num_candidates: int) -> int:
    """Return how many seeds establish ±`margin_pp` if nothing differs, for the assumed spread.

    Raises:
        InputError: more than anybody runs.
    """
    needed = num_seeds_needed(_DIFFERENCE_SPREAD_PP, margin_pp, num_candidates)
    if needed is None:
        least = math.ceil(100 * detectable_margin(_DIFFERENCE_SPREAD_PP, MAX_SEEDS, num_candidates)) / 100
        raise InputError(
            f"--margin-pp: so small a margin takes more than {MAX_SEEDS} seeds, if accuracies vary by "
            f"{ASSUMED_SPREAD_PP:g} pp from seed to seed. The least is {least:g}. Received: {margin_pp:g}"
        )
    return needed


def propose(
    model: dict[str, Any],
    dataset: str,
    origin: DatasetSource,
    description: dict[str, Any],
    batch_size: int,
    *,
    runtime: str,
    image_size: int | None = None,
    margin_pp: float = 1.0,
    policies: Sequence[str] = ADVISED_POLICIES,
) -> dict[str, Any]:
    """Return the values of `params.yaml` of a study of `policies` at B and 2B.

    Args:
        model: the `model` of the study, as `model_values` makes it.
        dataset: the name it has in the study, and under data/.
        description: the content of the data set's `dataset.json`.
        runtime: the locked packages that train.

    Raises:
        InputError: the study would be no valid one, it takes too many seeds, or the images are too few for twice B.
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
    variants = _variants(policies, jit_compile=engine == "jax")
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
        "variants": variants,
        "speed": SPEED,
        "comparison": COMPARISON | {"margin_pp": {name: margin_pp}},
        "profile": "advised",
        "description": f"Is mixed precision worth it for {model['name']} on {origin.tfds}?",
        "seeds": list(range(num_seeds(margin_pp, len(variants) - 1))),
    }
    validate(Study, values, f"MODEL={model['name']} DATASET={dataset} BATCH={batch_size}")
    return values


def _variants(policies: Sequence[str], jit_compile: bool) -> dict[str, Any]:
    """Return each policy at B and at 2B, by the name of the variant."""
    return {
        policy if multiplier == 1 else f"{policy}_2x": {
            "policy": policy,
            "batch_multiplier": multiplier,
            "tf32": False,
            "jit_compile": jit_compile,
        }
        for policy in policies
        for multiplier in (1, 2)
    }


def write_study(values: dict[str, Any], path: Path) -> None:
    """Write `params.yaml` of a proposed study, with a word on how to run it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = (
        f"# Written by make advise. To run it: cp {path} params.yaml && make repro\n"
        "# Epochs, optimizer and margin are guesses: change them to what you would train with.\n"
    )
    path.write_text(header + yaml_files.dump(values), encoding="utf-8")


def find_description(name: str) -> dict[str, Any] | None:
    """Return `dataset.json` of a prepared data set; None where there is none yet."""
    path = Path("data", name, "dataset.json")
    if not path.exists():
        return None
    remedy = f"Remove {path.parent} and ask again."
    return read_json(Description, path, Remedy(remedy, remedy)).model_dump(mode="json")
