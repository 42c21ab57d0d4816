"""Propose a small study to find out whether mixed precision is worth it for a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.statistics.contrasts import MIN_LAUNCHES
from pipeline.study.benchmark import OWN_MODELS, Imported
from pipeline.study.configuration import validate
from pipeline.study.schema import Study
from pipeline.study.user_code import check_function

YOURS = "yours"  # names the profile and its benchmark
VALIDATION_SHARE = 0.1
MIN_STEPS = 10  # per epoch, in the shortest study
STUDY_SECONDS = 600.0
# Before it trains, a process takes PROCESS_SECONDS to start. It then takes TRACING times as long as building the model
# and taking its first step, because evaluation is traced too.
TRACING, PROCESS_SECONDS = 1.5, 3.0


class Size(NamedTuple):
    """Hold a study's number of training images, its multiples of the batch size, and the seconds that it takes."""

    num_images: int
    multiples: tuple[int, ...]
    seconds: float


def model_values(name: str, source: str | None, arguments: dict[str, Any], engine: str) -> dict[str, Any]:
    """Return the `model` of a benchmark; `arguments` override the default sizes of this project's own models.

    `source` is the file or folder of the user's model: by default, the top-level module of `name` in this folder.

    Raises:
        InputError: the user's model has a fault that shows without running it.
    """
    if name in OWN_MODELS:
        kind = OWN_MODELS[name]
        usual = {**kind.USUAL, **(kind.USUAL_ON_ACCELERATOR if engine != "cpu" else {})}
        return {"name": name, **usual, **arguments, "source": f"pipeline/models/{name}.py"}
    if name.startswith("keras.applications:"):
        return {"name": name, "arguments": arguments, "source": "pipeline/models/application.py"}
    if source is None:
        beside = Path(name.partition(":")[0].partition(".")[0])
        source = str(beside if beside.is_dir() else beside.with_suffix(".py"))
    values = {"name": name, "arguments": arguments, "source": source}
    model = validate(Imported, values, f"MODEL={name}")
    check_function(model.module, model.function, Path(source))
    return values


def choose_size(profile: Study, seconds: Mapping[str, tuple[float, float]], batch_size: int, max_images: int) -> Size:
    """Return the size of the largest study that takes at most `STUDY_SECONDS`.

    The study trains at `batch_size` (B) and 2B if there is time for both, otherwise only at B. If even the smallest
    study takes longer, return its size.

    Args:
        profile: the study to size.
        seconds: the two times of each policy that `fitness.look` returns.
    """
    num_seeds, num_epochs = len(profile.seeds), profile.benchmarks[YOURS].num_epochs
    num_controls = sum(profile.num_seeds_by_variant.get(YOURS, {}).values())
    for multiples in ((1, 2), (1,)):
        starts = sum(TRACING * start + PROCESS_SECONDS for start, _ in seconds.values()) * len(multiples)
        fixed = starts * (num_seeds + MIN_LAUNCHES) + profile.speed.budget_seconds
        num_steps = sum(step for _, step in seconds.values()) * len(multiples) * num_seeds
        num_steps += num_controls * next(iter(seconds.values()))[1]
        image_seconds = num_steps / batch_size * num_epochs
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
    """Return a study of float32, TF32 and both mixed policies.

    Args:
        profile: the values of the profile `yours`.
        asked: the user's choices for the benchmark: `dataset`, `model`, `batch_size`, perhaps `image_size`, and what
            they know of their recipe, such as `optimizer` and `num_epochs`.
        origin: where the data set comes from, with the fields of `DatasetSource`.
        description: the content of the data set's `dataset.json`.
        size: how many images to use, and at which batches; by default all images, at `batch_size` (B) and at 2B.

    Raises:
        InputError: the study would not be valid, there are too few images for a batch of 2B, or images are not square
            and no size was chosen.
    """
    num_examples, batch_size = description["num_train_examples"], asked["batch_size"]
    num_validation = max(1, round(VALIDATION_SHARE * num_examples))
    if 2 * batch_size > num_examples - num_validation:
        raise InputError(
            f"--batch: twice the batch must be at most {num_examples - num_validation}, the training examples of "
            f"{asked['dataset']} after {num_validation} are set aside for validation. Received: {batch_size}"
        )
    height, width = description["image_shape"][:2]
    if height != width and "image_size" not in asked:
        short, long = sorted((height, width))
        raise InputError(
            f"--image-size: images of {asked['dataset']} have {height} × {width} pixels, and models get square ones. "
            f"Give IMAGE_SIZE. With {short}, the longer side keeps {short / long:.0%} of its pixels; with {long}, the "
            f"shorter one is stretched {long / short:.3g} times"
        )
    num_images, multiples, _ = size or Size(num_examples - num_validation, (1, 2), 0.0)
    num_validation = min(num_validation, num_images)
    deviations = [] if {"optimizer", "num_epochs"} <= asked.keys() else list(profile["deviations"][YOURS])
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
