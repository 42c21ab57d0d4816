"""The study in params.yaml: its settings, its runs, and its faults, each named by its key path before anything runs."""

import copy

import pytest
from conftest import REPOSITORY, small_study
from studies import composed

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.study.configuration import validate
from pipeline.study.schema import RunKey, Study, load_study
from pipeline.study.variant import Dynamic, Fixed
from stages.compose import in_small

QUICK = yaml_files.load(REPOSITORY / "params.yaml")
VARIANT = QUICK["variants"]["float32"]


def quick(changes: dict | None = None) -> dict:
    """The study of params.yaml with other values at these places, such as "seeds" or "variants.float32.policy"."""
    values = copy.deepcopy(QUICK)
    for place, value in (changes or {}).items():
        *around, last = place.split(".")
        part = values
        for key in around:
            part = part[key]
        part[last] = copy.deepcopy(value)
    return values


def fault(values: object) -> str:
    with pytest.raises(InputError) as caught:
        validate(Study, values, "params.yaml")
    return str(caught.value)


def test_params_yaml_is_the_composed_quick_profile():
    assert quick() == composed(), "compose params.yaml again: make params"


PROFILES = sorted(path.stem for path in (REPOSITORY / "conf" / "profile").iterdir())


@pytest.mark.parametrize("profile", PROFILES)
def test_the_small_version_of_a_profile_changes_only_its_numbers(profile):
    """The same models, images, variants and loops: a typo in any of them shows in the first minutes."""
    values = composed(f"profile={profile}")
    whole, small = (validate(Study, each, profile) for each in (values, in_small(values)))
    assert small.variants == whole.variants
    assert small.comparison == whole.comparison
    assert small.name == whole.name == profile
    counts = {"split", "batch_size", "evaluation_batch_size", "num_epochs", "learning_rate_rule", "steps_per_execution"}
    counts.add("optimizer")
    for name, recipe in whole.benchmarks.items():
        assert small.benchmarks[name].model_dump(exclude=counts) == recipe.model_dump(exclude=counts)
        assert small.benchmarks[name].steps_per_epoch(1) * small.benchmarks[name].num_epochs <= 4
    assert {key[:2] for key in small.runs()} == {key[:2] for key in whole.runs()}
    assert len(small.runs()) == len({key[:2] for key in small.runs()})


def test_runs_are_ordered_by_seed_without_excluded_combinations():
    runs = small_study(seeds=[5, 3]).runs()
    assert [run.seed for run in runs] == [5] * 6 + [3] * 6
    assert RunKey("wide", "mixed", 5) in runs
    assert RunKey("narrow", "mixed", 5) not in runs


def test_a_benchmark_or_variant_may_run_at_only_the_first_seeds():
    study = small_study(num_seeds={"wide": 2, "narrow": 1}, num_seeds_by_variant={"wide": {"mixed": 1, "float32": 3}})
    assert [study.seeds_of("wide", name) for name in ("float32", "mixed")] == [[0, 1], [0]]
    assert [key.seed for key in study.runs() if key.benchmark == "narrow"] == [0, 0]
    assert [key.seed for key in study.runs() if key[:2] == ("wide", "mixed")] == [0]


@pytest.mark.parametrize("change", [{"learning_rate_multiplier": 2.0}, {"epoch_multiplier": 2}])
def test_variants_that_differ_only_in_learning_rate_or_epochs_share_one_speed(change):
    variants = small_study().model_dump(mode="json")["variants"]
    scaled = variants["float32_2x"] | change
    study = small_study(variants=variants | {"scaled": scaled})
    assert study.measured_as("narrow") == {"float32": "float32", "float32_2x": "float32_2x", "scaled": "float32_2x"}
    assert not study.variants["scaled"].is_plain


def test_the_loss_scale_defaults_to_that_of_keras():
    scale = {"mode": "fixed", "value": 1024.0}
    variants = Study.model_validate(quick(odd(policy=FLOAT16, loss_scale=scale))).variants
    assert variants["mixed_float16"].loss_scale == Dynamic(mode="dynamic", initial=2.0**15, growth_steps=2000)
    assert variants["odd"].loss_scale == Fixed(mode="fixed", value=1024.0)
    assert {variants[name].loss_scale.mode for name in ("float32", "mixed_bfloat16")} == {"none"}


def recipe(**values: object) -> dict:
    return {f"benchmarks.mnist_dense.{name}": value for name, value in values.items()}


def odd(**values: object) -> dict:
    """One more variant."""
    return {"variants.odd": VARIANT | values}


def further(*pairs: tuple[str, str]) -> dict:
    keys = ("baseline", "candidate")
    return {"comparison.further_pairs": [dict(zip(keys, pair, strict=True)) for pair in pairs]}


ADAM = {"name": "adam", "learning_rate": 0.1}
RESNET9 = {"name": "resnet9", "width": 4, "source": "pipeline/models/resnet9.py"}
TURN = {"name": "random_translation", "height_factor": 0.2, "width_factor": 0.2}
FLOAT16 = "mixed_float16"
# What is wrong, and what is said of it.
NAMES_TYPES_AND_COUNTS = [
    (recipe(batch_sise=8), "benchmarks.mnist_dense.batch_sise: unknown key. Did you mean 'batch_size'?"),
    ({"seeds": ["0"]}, "seeds.0: Input should be a valid integer. Received: '0'"),
    ({"seeds": [1, 1]}, "seeds: 1 is given twice."),
    ({"num_seeds": {"brood": 1}}, "num_seeds: must be names of benchmarks"),
    ({"num_seeds_by_variant.mnist_dense": {"float23": 1}}, "mnist_dense: must be variants that run there (float32, "),
    (recipe(num_epochs=10**40), "mnist_dense.num_epochs: Input should be less than or equal to"),
]
COMPARISONS = [
    ({"comparison.baseline": "planted_loss"}, "comparison.baseline: must be a variant that runs on cifar100_"),
    ({"comparison.must_differ": ["float32"]}, "must_differ: must be a variant besides the baseline ("),
    (further(("float23", FLOAT16)), "further_pairs.0.baseline: must be a variant"),
]
VARIANTS = [
    (odd(policy="float17"), "variants.odd.policy: must be one of float32, tf32, "),
    (odd(policy="float8", float32_layers=["Dense"]), "variants.odd.float32_layers: float8 is no mixed policy, so "),
    (odd(loss_scale={"mode": "dynamic"}), "variants.odd.loss_scale: float32 has the range"),
    ({"variants": ["float32"]}, "variants: must be keys with values. Received: ['float32']"),
    ({"variants.float32": None}, "variants.float32: must be keys with values (policy, batch_multiplier, "),
    (odd(loss_scale="dynamic"), "variants.odd.loss_scale: must be keys with values (mode). Received: 'dynamic'"),
    (odd(loss_scale={"value": 8.0}), "variants.odd.loss_scale.mode: missing; it is one of dynamic, fixed, none."),
]
RECIPES = [
    (
        recipe(batch_size=40000) | odd(batch_multiplier=2, benchmarks=["mnist_dense"]),
        "1 fault, nothing was started.\n  benchmarks.mnist_dense.batch_size: 40000 × 2 of odd ",
    ),
    (recipe(steps_per_execution=16) | odd(loop="custom"), "odd.loop: the custom loop takes one step"),
    (recipe(optimizer=ADAM | {"name": "adan"}), "benchmarks.mnist_dense.optimizer.name: "),
    (recipe(optimizer=ADAM | {"arguments": {"name": "x"}}), "mnist_dense.optimizer.arguments: name can't stand here"),
    (
        recipe(learning_rate_rule={"num_warmup_epochs": 5}),
        "_rule.num_warmup_epochs: must leave at least one",
    ),
    (
        recipe(augmentation=[TURN | {"height": 0.1}]),
        "augmentation.0.height: unknown key. Did you mean 'height_factor'?",
    ),
]
MODELS = [
    (recipe(model={"units": 3}), "benchmarks.mnist_dense.model.name: missing"),
    (
        recipe(model={"name": "dens", "units": 3}),
        "model.name: must be dense, efficientnet, resnet9, transformer, keras",
    ),
    (recipe(model={"name": "dense", "units": 3}), "model.source: missing; it is 'pipeline/models/dense.py'"),
    (recipe(model={"name": "a.b:c"}), "benchmarks.mnist_dense.model.source: missing."),
    (
        recipe(model=RESNET9) | odd(policy="float8"),
        "model: odd uses float8, which is only for layers of the kinds Dense, EinsumDense.",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [*NAMES_TYPES_AND_COUNTS, *COMPARISONS, *VARIANTS, *RECIPES, *MODELS],
)
def test_a_faulty_setting_is_refused_with_its_key_path(changes, message):
    assert message in fault(quick(changes))


@pytest.mark.parametrize("name", ["mixed-float16", "a.b", "16", ""])
def test_a_name_that_would_break_stage_names_or_shells_is_refused(name):
    values = quick()
    values["variants"][name] = VARIANT
    assert f"variants.{name}:" in fault(values)


def test_all_faults_are_reported_at_once():
    """Faults that span several keys are reported once the others are mended."""
    values = quick({"seeds": [], "max_run_seconds": "two", "benchmarks.mnist_dense.model.unit": 3})
    del values["campaign"]
    text = fault(values)
    assert text.startswith("params.yaml: 4 faults, nothing was started.")
    assert text.endswith("What depends on several keys is checked once these are mended.")
    for line in (
        "seeds:",
        "max_run_seconds:",
        "campaign: missing",
        "mnist_dense.model.unit: unknown key. Did you mean 'units'?",
    ):
        assert line in text
    text = fault(quick({"seeds": [1, 1], "comparison.must_differ": ["x"]}))
    assert text.startswith(f"params.yaml: {len(text.splitlines()) - 1} faults")


def test_a_missing_params_yaml_is_reported_with_its_remedy(tmp_path):
    with pytest.raises(InputError, match=r"params\.yaml is missing\. If .*: git checkout -- params\.yaml"):
        load_study(tmp_path / "params.yaml")


def test_removing_a_variant_removes_every_mention_of_it():
    study = Study.model_validate(quick())
    fewer = study.without(["planted_loss", "mixed_float16"])
    assert study.variants.keys() - fewer.variants.keys() == {"planted_loss", "mixed_float16"}
    assert not fewer.comparison.must_differ
    assert not {"planted_loss", "mixed_float16"} & {
        name for pair in fewer.comparison.further_pairs for name in pair.model_dump().values()
    }
    assert fewer.num_seeds_by_variant["mnist_dense"].keys() == study.num_seeds_by_variant["mnist_dense"].keys() - {
        "planted_loss"
    }


def test_a_study_does_not_fit_a_smaller_gpu_but_fits_a_machine_without_one():
    study = small_study(gpu_memory_gb=18.0)
    assert [study.fits(each) for each in (None, int(80e9), int(16e9))] == [True, True, False]
    assert small_study().fits(1)
