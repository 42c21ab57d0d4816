"""Propose a small study of mixed precision for a user's model, and then additions to the study.

The additions show which layers make 16-bit training slow, and which layer must compute in float32 to keep a run finite.
`planned` is the study in params.yaml. `made` is the same study without the variants that this machine left out. The
default is the variant of TF32 if `made` has one, otherwise the baseline. A mixture is a 16-bit variant in which some
layers compute in float32. B is the user's batch size.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.comparison.tables import Row, Tables
from pipeline.errors import InputError
from pipeline.files.code import check_exists
from pipeline.statistics.contrasts import MIN_LAUNCHES
from pipeline.study.benchmark import OWN_MODELS, Imported
from pipeline.study.configuration import validate
from pipeline.study.schema import Study
from pipeline.study.variant import DEFAULT_POLICY

YOURS = "yours"  # the name of the profile in conf/profile, and of the benchmark in that profile
LAYERS = "yours_layers"  # the name of the benchmark that times mixtures
VALIDATION_SHARE = 0.1  # of the data set's training examples
BATCH_NORM_MOMENTUM = 0.9  # Keras's usual 0.99 leaves the running averages unsettled for some hundred steps
MIN_STEPS = 10  # of batch size B, per epoch, in the shortest study
STUDY_SECONDS = 600.0
# A process takes PROCESS_SECONDS to start. Until it trains, it then takes TRACING times the time that `fitness.look`
# measures for building the model and the first step, because the process also traces evaluation.
TRACING, PROCESS_SECONDS = 1.5, 3.0
BUDGET_SECONDS = 100.0  # for timing the mixtures


class Size(NamedTuple):
    """Hold a study's number of training images, its batch sizes as multiples of B, and its estimated seconds."""

    num_images: int
    multiples: tuple[int, ...]
    seconds: float


def model_values(name: str, source: str | None, arguments: dict[str, Any], engine: str) -> dict[str, Any]:
    """Return the values under `model` of a benchmark in params.yaml.

    Args:
        name: a model of this project, `keras.applications:<function>`, or the user's `<module>:<function>`.
        source: the file or folder of the user's model. By default, the file or folder of the top-level module of
            `name` in the working directory.
        arguments: the model's arguments. They override the default sizes of this project's own models.
        engine: the installed engine. Some models are smaller by default if the engine is "cpu".

    Raises:
        InputError: `name` or `arguments` are not valid for a user's model, or `source` does not exist.
    """
    if name in OWN_MODELS:
        kind = OWN_MODELS[name]
        usual = {**kind.USUAL, **(kind.USUAL_ON_ACCELERATOR if engine != "cpu" else {})}
        return {"name": name, **usual, **arguments, "source": f"pipeline/models/{name}.py"}
    values = {"name": name, "arguments": arguments, "batch_norm_momentum": BATCH_NORM_MOMENTUM}
    if name.startswith("keras.applications:"):
        return values | {"source": "pipeline/models/application.py"}
    if source is None:
        beside = Path(name.partition(":")[0].partition(".")[0])
        source = str(beside if beside.is_dir() else beside.with_suffix(".py"))
    values["source"] = source
    validate(Imported, values, f"MODEL={name}")
    check_exists(Path(source))
    return values


def choose_size(profile: Study, seconds: Mapping[str, tuple[float, float]], batch_size: int, max_images: int) -> Size:
    """Return the size of the largest study that is expected to take at most `STUDY_SECONDS`.

    The study trains at batch sizes B and 2B if the time suffices, otherwise only at B. If even the smallest study takes
    longer, return the size of the smallest study. The number of images is a multiple of 2B, and at least 2B.

    Args:
        profile: the study to size.
        seconds: the two times of each policy that `fitness.look` returns.
        batch_size: B.
        max_images: the number of training images that the data set offers.
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
    """Return the study of the profile `yours` with the user's data set, model and recipe.

    Args:
        profile: the values of the profile `yours`.
        asked: the user's values for the benchmark: `dataset`, `model` and `batch_size` (B), and optionally others, such
            as `image_size`, `optimizer` and `num_epochs`.
        origin: the source of the data set, with the fields of `DatasetSource`.
        description: the content of the data set's `dataset.json`.
        size: the number of training images and the batch sizes. By default, the study trains at B and 2B on all images
            except those for validation.

    Raises:
        InputError: the study is not valid, for example because a batch of 2B needs more images than there are; or the
            images are not square, and `asked` has no `image_size`.
    """
    num_examples = description["num_train_examples"]
    num_validation = max(1, round(VALIDATION_SHARE * num_examples))
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
    if "batch_norm_momentum" in asked["model"]:
        deviations.append(
            f"If the model has batch norm, the momentum of its running averages is {BATCH_NORM_MOMENTUM}, so that they "
            "settle in few steps."
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
    model, dataset, batch = asked["model"]["name"], asked["dataset"], asked["batch_size"]
    return validate(Study, values, f"MODEL={model} DATASET={dataset} BATCH={batch}")


def slow_policy(made: Study, tables: Tables) -> str | None:
    """Return the 16-bit variant of which to time mixtures, or None if a 16-bit variant is faster than the default.

    Choose the fastest of those that the baseline's library computes, if there are any. Where another library steps in,
    as Eigen does for float16 on a CPU, every kind of layer is slow.

    Also return None if no 16-bit variant was timed, or if the study has the benchmark of mixtures already.
    """
    rows = _speeds(made, tables, YOURS)
    if LAYERS in made.benchmarks or not rows or any(row.speedup.lies_above(1) for row in rows):
        return None
    usual = _kernels(tables, made.comparison.baseline)
    return str(max(rows, key=lambda row: (_kernels(tables, row.candidate) <= usual, row.speedup.value)).candidate)


def _kernels(tables: Tables, variant: str) -> set[str]:
    return {run.kernels for run in tables.runs_of(YOURS, variant) if run.kernels}


def with_mixtures(planned: Study, policy: str, kinds: Sequence[str]) -> Study:
    """Return the study with a benchmark that times mixtures of `policy` and trains no runs.

    In the mixtures, layers of the first kind compute in float32, or layers of the second kind, or layers of these two
    kinds. The benchmark has the user's model and batch size. It also times `policy`, the baseline and the default.

    Args:
        policy: the name of a 16-bit variant.
        kinds: kinds of layers, at least one, such as "Conv2D". Kinds after the second are ignored.
    """
    values, chosen = _values(planned), planned.variants[policy]
    timed = {planned.comparison.baseline, planned.plain(YOURS, DEFAULT_POLICY), policy}
    for name, variant in values["variants"].items():
        variant["benchmarks"] = [YOURS, LAYERS] if name in timed else [YOURS]
    for layers in [[kind] for kind in kinds[:2]] + [list(kinds[:2])] * (len(kinds) > 1):
        values["variants"]["_".join([policy, *map(str.lower, layers), "in_float32"])] = {
            "policy": chosen.policy,
            "batch_multiplier": chosen.batch_multiplier,
            "float32_layers": layers,
            "benchmarks": [LAYERS],
        }
    values["benchmarks"][LAYERS] = values["benchmarks"][YOURS]
    values["comparison"]["margin_pp"][LAYERS] = values["comparison"]["margin_pp"][YOURS]
    values["deviations"] = dict.fromkeys((YOURS, LAYERS), values["deviations"][YOURS])
    values.setdefault("num_seeds", {})[LAYERS] = 0
    values["speed"].setdefault("budgets", {})[LAYERS] = BUDGET_SECONDS
    return validate(Study, values, LAYERS)


def with_best_mixture(planned: Study, made: Study, tables: Tables) -> Study | None:
    """Return the study with the fastest mixture added to the user's benchmark.

    There, the mixture is trained and is timed once more. The second timing is needed because the fastest of several
    variants owes a part of its measured speed to chance.

    Return None if the fastest mixture is not shown to be faster than the default, if the study times no mixtures, or if
    the user's benchmark has a variant with `float32_layers` already.
    """
    if LAYERS not in made.benchmarks or any(variant.float32_layers for variant in made.variants_of(YOURS).values()):
        return None
    rows = [row for row in _speeds(made, tables, LAYERS) if made.variants[row.candidate].float32_layers]
    if not rows or not rows[0].speedup.lies_above(1):
        return None
    values = _values(planned)
    values["variants"][rows[0].candidate]["benchmarks"] = [YOURS, LAYERS]
    return validate(Study, values, rows[0].candidate)


def with_repair(planned: Study, made: Study, tables: Tables) -> Study | None:
    """Return the study with a repaired copy of each 16-bit variant that diverged, or None if no copy is to be added.

    A repaired copy has one run. The layer whose output or gradient was first not finite computes in float32. A variant
    is skipped if no such layer was found, if the variant has `float32_layers`, or if its repaired copy exists already.
    """
    values, is_new = _values(planned), False
    for name in made.recommendable(YOURS):
        where = [run.first_not_finite for run in tables.runs_of(YOURS, name) if run.first_not_finite]
        if not where or made.variants[name].float32_layers or f"{name}_repaired" in made.variants:
            continue
        repaired = {"float32_layers": [layer_of(where[0])], "benchmarks": [YOURS]}
        values["variants"][f"{name}_repaired"] = values["variants"][name] | repaired
        values.setdefault("num_seeds_by_variant", {}).setdefault(YOURS, {})[f"{name}_repaired"] = 1
        is_new = True
    return validate(Study, values, YOURS) if is_new else None


def layer_of(where: str) -> str:
    """Return the name of the layer in `where`, which is the `first_not_finite` of a run's record.

    The name is "attend" for "the output of block/attend", and also for "the gradient of attend/kernel".
    """
    what, _, path = where.partition(" of ")
    parts = path.split("/")
    return parts[-2] if what == "the gradient" and len(parts) > 1 else parts[-1]


def _speeds(study: Study, tables: Tables, benchmark: str) -> list[Row]:
    """Return the rows of `pairs.csv` that compare the speed of a 16-bit variant with the default, fastest first."""
    default = study.plain(benchmark, DEFAULT_POLICY) or study.comparison.baseline
    rows = [tables.pair(benchmark, name, default) for name in study.recommendable(benchmark)]
    timed = [row for row in rows if row and row.speedup.value is not None]
    return sorted(timed, key=lambda row: -row.speedup.value)


def _values(study: Study) -> dict[str, Any]:
    return study.model_dump(mode="json", exclude_unset=True)
