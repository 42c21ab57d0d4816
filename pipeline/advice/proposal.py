"""Propose the small study that answers whether mixed precision is worth it for a model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.statistics.speeds import MIN_LAUNCHES
from pipeline.study.benchmark import Imported
from pipeline.study.configuration import validate
from pipeline.study.schema import Study
from pipeline.study.user_code import check_function

YOURS = "yours"  # the profile, and its benchmark
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


def choose_size(profile: Study, seconds: Mapping[str, tuple[float, float]], batch_size: int, max_images: int) -> Size:
    """Return the largest study of at most `STUDY_SECONDS`: at B and 2B if both fit in, else at B.

    One that takes longer even so is the smallest there is.

    Args:
        profile: the study that images and batches are put into.
        seconds: under each policy, what building the model with its first step takes, and what another step takes.
    """
    num_seeds, num_epochs = len(profile.seeds), profile.benchmarks[YOURS].num_epochs
    for multiples in ((1, 2), (1,)):
        starts = sum(TRACING * start + PROCESS_SECONDS for start, _ in seconds.values()) * len(multiples)
        fixed = starts * (num_seeds + MIN_LAUNCHES) + profile.speed.budget_seconds
        image_seconds = sum(step for _, step in seconds.values()) / batch_size * len(multiples) * num_seeds * num_epochs
        affordable = int((STUDY_SECONDS - fixed) / max(image_seconds, 1e-9))
        num_images = min(max(affordable, MIN_STEPS * batch_size), max_images)
        if affordable >= num_images:
            break
    num_images = max(num_images // (2 * batch_size), 1) * 2 * batch_size
    return Size(num_images, multiples, fixed + num_images * image_seconds)


def propose(
    profile: Mapping[str, Any],
    asked: Mapping[str, Any],
    origin: Mapping[str, Any],
    description: Mapping[str, Any],
    size: Size | None = None,
) -> Study:
    """Return the study of float32 and both mixed policies.

    Args:
        profile: the values of the profile `yours`.
        asked: what is asked for of the benchmark: `dataset`, `model`, `batch_size` and perhaps `image_size`.
        origin: where the data set comes from, by the names of `DatasetSource`.
        description: the content of the data set's `dataset.json`.
        size: by default all of the data set, at B and at 2B.

    Raises:
        InputError: the study would be no valid one, or the images are too few for twice B.
    """
    num_examples, batch_size = description["num_train_examples"], asked["batch_size"]
    num_validation = max(1, round(VALIDATION_SHARE * num_examples))
    if 2 * batch_size > num_examples - num_validation:
        raise InputError(
            f"--batch: twice the batch must be at most the {num_examples - num_validation} training examples that "
            f"{asked['dataset']} leaves beside {num_validation} for validation. Received: {batch_size}"
        )
    num_images, multiples, _ = size or Size(num_examples - num_validation, (1, 2), 0.0)
    num_validation = min(num_validation, num_images)
    deviations = list(profile["deviations"][YOURS])
    if num_images + num_validation < num_examples:
        deviations.append(
            f"{num_images:,} images for training and {num_validation:,} for validation, so that the study is short; "
            f"the data set has {num_examples:,}."
        )
    if multiples == (1,):
        deviations.append("Twice the batch is left out, because the study would take longer.")
    recipe = profile["benchmarks"][YOURS] | {
        "split": {
            "num_train_examples": num_images,
            "num_validation_examples": num_validation,
            "shuffle_seed": profile["benchmarks"][YOURS]["split"]["shuffle_seed"],
        },
        "image_size": description["image_shape"][0],
        "evaluation_batch_size": min(profile["benchmarks"][YOURS]["evaluation_batch_size"], num_validation),
    }
    variants = {
        name: variant for name, variant in profile["variants"].items() if variant["batch_multiplier"] in multiples
    }
    values = dict(profile) | {
        "datasets": {asked["dataset"]: origin},
        "benchmarks": {YOURS: recipe | asked},
        "variants": variants,
        "deviations": {YOURS: deviations},
    }
    return validate(Study, values, f"MODEL={asked['model']['name']} DATASET={asked['dataset']} BATCH={batch_size}")
