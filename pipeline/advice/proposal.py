"""Propose the small study that answers whether mixed precision is worth it for a model, and make its folder."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.writing import write_whole
from pipeline.statistics.speeds import MIN_LAUNCHES
from pipeline.study.benchmark import Imported
from pipeline.study.configuration import validate
from pipeline.study.dataset_source import DatasetSource
from pipeline.study.schema import Study
from pipeline.study.user_code import check_function

ADVICE = Path("advice")  # where advice lies, in folders and files of its own
ADVISED_POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")  # those that people train any model with
SEEDS = [0, 1, 2]
NUM_EPOCHS = 5
MARGIN_PP = 1.0
TURN_SECONDS = 60
VALIDATION_SHARE = 0.1
MIN_STEPS = 10  # an epoch of the shortest study
STUDY_SECONDS = 600.0
# What a run and a launch of the turns take before they train, by what building and the first step took: evaluation is
# traced, too, and a process starts.
TRACING, PROCESS_SECONDS = 1.5, 3.0


class Size(NamedTuple):
    """How much of the question a study asks: images to train with, multiples of the batch; and how long that takes."""

    num_images: int
    multiples: tuple[int, ...]
    seconds: float


def study_name(text: str) -> str:
    """Return `text` as the study can name things: cifar10_resnet50v2 for "cifar10 ResNet50V2"; a long one cut short."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if len(name) <= 100 else f"{name[:91]}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def benchmark_name(dataset: str, model: str) -> str:
    return study_name(f"{dataset} {model.removeprefix('keras.applications:')}")


def model_values(name: str, source: str | None, arguments: dict[str, Any], engine: str) -> dict[str, Any]:
    """Return the `model` of a study; `arguments` come before the sizes that the sources' models have here.

    `source` is the file or folder of a model of one's own, by default the one beside this project.

    Raises:
        InputError: a model of one's own can be seen to be wrong.
    """
    if name in (
        usual := {"dense": {"units": 64 if engine == "cpu" else 4096}, "efficientnet": {}, "resnet9": {"width": 16}}
    ):
        return {"name": name, **usual[name], **arguments, "source": f"pipeline/models/{name}.py"}
    if name.startswith("keras.applications:"):
        return {"name": name, "arguments": arguments, "source": "pipeline/models/application.py"}
    if source is None:
        beside = Path(name.partition(":")[0].partition(".")[0])
        is_folder = os.path.isdir(beside)  # noqa: PTH112  Path.is_dir fails for a name that is too long
        source = str(beside if is_folder else beside.with_suffix(".py"))
    values = {"name": name, "arguments": arguments, "source": source}
    model = validate(Imported, values, f"MODEL={name}")
    check_function(model.module, model.function, Path(source))
    return values


def choose_size(seconds: Mapping[str, tuple[float, float]], batch_size: int, max_images: int) -> Size:
    """Return the largest study of at most `STUDY_SECONDS`: at B and 2B if both fit in, else at B.

    One that takes longer even so is the smallest there is.

    Args:
        seconds: under each policy, what building the model with its first step takes, and what another step takes.
    """
    for multiples in ((1, 2), (1,)):
        starts = sum(TRACING * start + PROCESS_SECONDS for start, _ in seconds.values()) * len(multiples)
        fixed = starts * (len(SEEDS) + MIN_LAUNCHES) + TURN_SECONDS
        image_seconds = (
            sum(step for _, step in seconds.values()) / batch_size * len(multiples) * len(SEEDS) * NUM_EPOCHS
        )
        affordable = int((STUDY_SECONDS - fixed) / max(image_seconds, 1e-9))
        num_images = min(max(affordable, MIN_STEPS * batch_size), max_images)
        if affordable >= num_images:
            break
    num_images = max(num_images // (2 * batch_size), 1) * 2 * batch_size
    return Size(num_images, multiples, fixed + num_images * image_seconds)


def propose(
    model: dict[str, Any],
    dataset: str,
    origin: DatasetSource,
    description: dict[str, Any],
    batch_size: int,
    *,
    image_size: int | None = None,
    size: Size | None = None,
) -> dict[str, Any]:
    """Return the values of `params.yaml` of a study of float32 and both mixed policies.

    Args:
        model: the `model` of the study, as `model_values` makes it.
        dataset: the name it has in the study, and under data/.
        description: the content of the data set's `dataset.json`.
        size: by default all of the data set, at B and at 2B.

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
    num_images, multiples, _ = size or Size(num_examples - num_validation, (1, 2), 0.0)
    num_validation = min(num_validation, num_images)
    split = {"num_train_examples": num_images, "num_validation_examples": num_validation}
    name = benchmark_name(dataset, model["name"])
    deviations = [f"Optimizer, margin and the {NUM_EPOCHS} epochs are those of every such study, not your recipe's."]
    if num_images + num_validation < num_examples:
        deviations.append(
            f"{num_images:,} images for training and {num_validation:,} for validation, so that the study is short; "
            f"the data set has {num_examples:,}."
        )
    if multiples == (1,):
        deviations.append("Twice the batch is left out, because the study would take longer.")
    values = {
        "campaign": "first",
        "devices": 1,
        "datasets": {dataset: origin.model_dump(exclude_unset=True)},
        "benchmarks": {
            name: {
                "dataset": dataset,
                "split": split | {"shuffle_seed": 0},
                "image_size": image_size or description["image_shape"][0],
                "model": model,
                "optimizer": {"name": "adam", "learning_rate": 0.001},
                "batch_size": batch_size,
                "evaluation_batch_size": min(256, num_validation),
                "num_epochs": NUM_EPOCHS,
            }
        },
        "variants": {
            policy if multiple == 1 else f"{policy}_{multiple}x": {"policy": policy, "batch_multiplier": multiple}
            for policy in ADVISED_POLICIES
            for multiple in multiples
        },
        "comparison": {"baseline": "float32", "num_warmup_epochs": 1, "margin_pp": {name: MARGIN_PP}},
        "speed": {"budget_seconds": TURN_SECONDS, "target_half_width": 0.05},
        "name": "advised",
        "description": f"Is mixed precision worth it for {model['name']} on {origin.name}?",
        "seeds": SEEDS,
        "deviations": {name: deviations},
    }
    validate(Study, values, f"MODEL={model['name']} DATASET={dataset} BATCH={batch_size}")
    return values


# The pipeline, by links; the study, its claims and all that it makes are the folder's own.
LINKS = (
    "bundled",
    "conf",
    "dvc.yaml",
    "pipeline",
    "requirements",
    "stages",
)
NO_CLAIMS: dict[str, object] = {"sources": {}, "benchmarks": {}, "variants": {}, "claims": []}


def make_folder(folder: Path, root: Path) -> None:
    """Make `folder` a DVC project that has the pipeline of `root`; its cache is its own, so that it goes with it."""
    (folder / ".dvc").mkdir(parents=True, exist_ok=True)
    write_whole(folder / ".dvc" / "config", "[core]\n    no_scm = true\n    analytics = false\n")
    write_whole(folder / "claims.yaml", yaml_files.dump(NO_CLAIMS))
    for name in LINKS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(seen_from(folder, name, root))


def seen_from(folder: Path, path: str, root: Path) -> str:
    """Return `path`, which is given from `root` on, as it is given from `folder` on; an absolute one stays."""
    return path if Path(path).is_absolute() else os.path.relpath(root / path, folder)
