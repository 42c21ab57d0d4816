import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, planned_record, small_study, write_small_run
from projects import stage
from studies import composed

import stages.train
from pipeline.errors import InputError
from pipeline.machine import environment
from pipeline.machine.environment import describe
from pipeline.machine.hardware import Hardware
from pipeline.numerics.facts import POLICIES
from pipeline.study.benchmark import Benchmark
from pipeline.study.configuration import validate
from pipeline.study.schema import RunKey, Study, load_study
from pipeline.study.variant import Dynamic, Fixed
from stages import check
from stages.compose import HAVE_SMALL


def quick() -> dict:
    return yaml.safe_load((REPOSITORY / "params.yaml").read_text())


def fault(values: object) -> str:
    with pytest.raises(InputError) as caught:
        validate(Study, values, "params.yaml")
    return str(caught.value)


def test_params_are_the_composed_quick_profile():
    assert quick() == composed(), "compose params.yaml again: make params"


PROFILES = sorted(path.stem for path in (REPOSITORY / "conf" / "profile").iterdir())


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_is_a_valid_study(profile):
    study = validate(Study, composed(f"profile={profile}"), profile)
    assert study.profile == profile


@pytest.mark.parametrize("profile", HAVE_SMALL)
def test_every_profile_in_small_keeps_all_but_its_numbers(profile):
    """The same models, images, variants and loops: a typo in any of them shows in the first minutes."""
    whole, small = (validate(Study, composed(f"profile={profile}", *more), profile) for more in ((), ("size=small",)))
    assert small.variants == whole.variants
    assert small.comparison == whole.comparison
    assert (small.engine, small.runtime, small.profile) == (whole.engine, whole.runtime, whole.profile)
    counts = {"split", "batch_size", "evaluation_batch_size", "num_epochs"}
    for name, benchmark in whole.benchmarks.items():
        assert small.benchmarks[name].model_dump(exclude=counts) == benchmark.model_dump(exclude=counts)
        assert small.benchmarks[name].num_steps(1) * small.benchmarks[name].num_epochs <= 4
    assert len(small.runs()) == sum(len(small.variants_of(name)) for name in small.benchmarks)


def test_evening_judges_what_the_sources_ran_at_their_own_recipe():
    evening, paper = (validate(Study, composed(f"profile={profile}"), profile) for profile in ("evening", "paper"))
    assert evening.benchmarks["mnist_dense"] == paper.benchmarks["mnist_dense"]
    assert evening.benchmarks["cifar100_efficientnet_b0"].split == paper.benchmarks["cifar100_efficientnet_b0"].split
    policies = {(variant.policy, variant.batch_multiplier) for variant in evening.variants_of("mnist_dense").values()}
    assert policies == {(policy, multiplier) for policy in POLICIES for multiplier in (1, 2)}
    for benchmark, least in (("cifar100_efficientnet_b0", 5), ("mnist_dense", 3)):
        assert all(len(evening.seeds_of(benchmark, name)) >= least for name in evening.variants_of(benchmark))
    assert set(evening.variants_of("cifar100_efficientnet_b0")) == {
        "float32", "float32_2x", "float32_2x_equal_updates", "mixed_float16", "mixed_float16_2x", "mixed_bfloat16",
        "planted_loss",
    }  # fmt: skip


def test_paper_has_the_sources_scale():
    study = validate(Study, composed("profile=paper"), "paper")
    cifar100, mnist = study.benchmarks["cifar100_efficientnet_b0"], study.benchmarks["mnist_dense"]
    assert (cifar100.image_size, cifar100.batch_size, cifar100.num_epochs) == (224, 128, 20)
    assert cifar100.split.model_dump() == {
        "num_train_examples": 40000,
        "num_validation_examples": 10000,
        "shuffle_seed": 42,
    }
    assert (mnist.model.units, mnist.batch_size, mnist.num_epochs) == (4096, 8192, 5)
    assert len(study.seeds) == 5


def test_seeds_are_outermost_and_left_out_combinations_are_absent():
    runs = small_study(seeds=[5, 3]).runs()
    assert [run.seed for run in runs] == [5] * 6 + [3] * 6
    assert RunKey("wide", "mixed", 5) in runs
    assert RunKey("narrow", "mixed", 5) not in runs


def test_a_benchmark_may_be_run_at_the_first_seeds_alone():
    study = small_study(num_seeds={"narrow": 1})
    assert study.seeds_of("wide", "float32") == [0, 1, 2]
    assert [key.seed for key in study.runs() if key.benchmark == "narrow"] == [0, 0]
    assert study.digest != small_study().digest
    with pytest.raises(ValueError, match="num_seeds: must be names of benchmarks"):
        small_study(num_seeds={"brood": 1})


def test_a_variant_may_be_run_at_the_first_seeds_alone():
    study = small_study(num_seeds={"wide": 2}, num_seeds_by_variant={"wide": {"mixed": 1, "float32": 3}})
    assert [len(study.seeds_of("wide", name)) for name in ("float32", "mixed")] == [2, 1]
    assert [key.seed for key in study.runs() if key.benchmark == "wide" and key.variant == "mixed"] == [0]
    assert study.digest != small_study(num_seeds={"wide": 2}).digest
    with pytest.raises(ValueError, match="num_seeds_by_variant: must be names of benchmarks"):
        small_study(num_seeds_by_variant={"brood": {}})
    with pytest.raises(ValueError, match=r"num_seeds_by_variant\.narrow: must be variants that run there"):
        small_study(num_seeds_by_variant={"narrow": {"mixed": 1}})


@pytest.mark.parametrize("change", [{"learning_rate_multiplier": 2.0}, {"epoch_multiplier": 2}])
def test_variants_that_differ_in_their_learning_rate_or_epochs_alone_have_one_speed(change):
    variants = small_study().model_dump(mode="json")["variants"]
    scaled = variants["float32_2x"] | change
    study = small_study(variants=variants | {"scaled": scaled})
    assert study.measured_as("narrow") == {"float32": "float32", "float32_2x": "float32_2x", "scaled": "float32_2x"}
    assert not study.variants["scaled"].is_plain(study.engine)


def test_a_run_knows_its_folder_and_its_stage():
    key = RunKey("wide", "mixed_2x", 3)
    assert str(key.directory) == "runs/wide/mixed_2x/seed-3"
    assert key.stage == "train@3-wide-mixed_2x"


def test_an_unknown_key_names_the_nearest_known_one():
    values = quick()
    values["benchmarks"]["mnist_dense"]["batch_sise"] = 8
    assert "benchmarks.mnist_dense.batch_sise: unknown key. Did you mean 'batch_size'?" in fault(values)


def test_a_wrong_type_is_not_converted():
    values = quick()
    values["seeds"] = ["0"]
    text = fault(values)
    assert "seeds.0:" in text
    assert "Received: '0'" in text


def test_a_policy_that_does_not_exist_lists_those_that_do():
    values = quick()
    values["variants"]["float32"]["policy"] = "int32"
    text = fault(values)
    assert "variants.float32.policy:" in text
    assert "'mixed_bfloat16'" in text
    assert "Received: 'int32'" in text


@pytest.mark.parametrize("name", ["mixed-float16", "Mixed", "a b", "a@b", "ä", "-x", "a.b", "16", "a/b", "", "x;rm"])
def test_a_name_that_breaks_stage_names_or_shells_is_refused(name):
    values = quick()
    values["variants"][name] = values["variants"]["float32"]
    assert f"variants.{name}:" in fault(values)


def test_a_batch_larger_than_the_data_is_refused():
    values = quick()
    values["benchmarks"]["mnist_dense"]["batch_size"] = 40000
    text = fault(values)
    assert "benchmarks.mnist_dense.batch_size: 40000 × 2 of variant float32_2x is more than the 48000" in text


@pytest.mark.parametrize("number", [10**40, 10**400, 1e300])
@pytest.mark.parametrize(
    "path",
    [
        "benchmarks.mnist_dense.split.num_train_examples",
        "benchmarks.mnist_dense.split.shuffle_seed",
        "benchmarks.mnist_dense.model.units",
        "benchmarks.mnist_dense.optimizer.learning_rate",
        "variants.float32.batch_multiplier",
        "comparison.num_warmup_epochs",
        "comparison.margin_pp.mnist_dense",
        "datasets.mnist.image_size",
        "devices",
        "max_run_seconds",
    ],
)
def test_a_number_that_is_no_quantity_is_refused(path, number):
    """Some overflow where two of them are multiplied, some where they are divided."""
    values = quick()
    *around, last = path.split(".")
    part = values
    for key in around:
        part = part[key]
    part[last] = number
    assert f"{path}: Input should be " in fault(values)


def test_steps_are_counted_in_whole_numbers():
    values = quick()["benchmarks"]["mnist_dense"]
    values["split"]["num_train_examples"] = 10**12 - 1
    assert Benchmark.model_validate(values | {"batch_size": 10**6}).num_steps(1) == 10**6


def test_more_runs_than_dvc_can_plan_are_refused():
    variants = {f"v{number}": {"policy": "float32", "batch_multiplier": 1} for number in range(40)}
    few = small_study(variants=variants | {"float32": variants["v0"]}, seeds=list(range(243))).model_dump()
    validate(Study, few, "params.yaml")
    found = fault(few | {"seeds": list(range(244))})
    assert found.endswith("seeds: 244 of 82 runs each are 20,008 runs; a study has 20,000 at most.")


def test_zero_seeds_are_refused():
    values = quick()
    values["seeds"] = []
    assert "seeds: List should have at least 1 item" in fault(values)


def test_a_seed_that_stands_twice_is_refused():
    values = quick()
    values["seeds"] = [1, 1]
    assert "seeds: 1 stands twice." in fault(values)


def test_the_baseline_must_run_on_every_benchmark():
    values = quick()
    values["comparison"]["baseline"] = "mixed_bfloat16"
    assert "comparison.baseline: must be a variant that runs on cifar100_efficientnet_b0" in fault(values)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (
            {"policy": "mixed_bfloat16", "loss_scale": {"mode": "fixed", "value": 8.0}},
            "variants.odd.loss_scale: mixed_bfloat16 has the range of float32 and is never scaled",
        ),
        ({"policy": "float32", "loss_scale": {"mode": "dynamic"}}, "variants.odd.loss_scale: float32 has the range"),
        ({"policy": "float16", "tf32": True}, "variants.odd.tf32: float16 has no float32 products"),
        ({"policy": "float32", "loss_scale": {"mode": "static"}}, "variants.odd.loss_scale: Input tag 'static' found"),
        (
            {"policy": "float16", "loss_scale": {"mode": "fixed", "valeu": 8.0}},
            "variants.odd.loss_scale.valeu: unknown key. Did you mean 'value'?",
        ),
        ({"policy": "float32", "benchmarks": []}, "variants.odd.benchmarks: List should have at least 1 item"),
        ({"policy": "float32", "benchmarks": ["mnist_dense"] * 2}, "'mnist_dense' stands twice"),
    ],
)
def test_what_an_engine_cannot_run_is_refused_at_the_door(variant, message):
    values = quick()
    values["variants"]["odd"] = {"batch_multiplier": 1} | variant
    assert message in fault(values)


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        (
            {"engine": "jax"},
            [
                "runtime: cpu has no jax; cuda-jax and tpu have it.",
                "variants.float32.jit_compile: must be true, JAX compiles",
            ],
        ),
        ({"runtime": "tpu"}, ["runtime: tpu has no tensorflow; cpu and cuda have it."]),
        ({"compilation_cache": True}, ["compilation_cache: TensorFlow keeps nothing"]),
        (
            {"devices": 5},
            [
                "benchmarks.mnist_dense.batch_size: batches of 8192 can't be shared by 5 devices",
                "variants.mixed_float16_custom.loop: custom trains on one device",
            ],
        ),
        ({"devices": 0}, ["devices: Input should be greater than 0"]),
    ],
)
def test_what_an_engine_or_several_devices_cannot_run_is_refused(changes, messages):
    found = fault(quick() | changes)
    for message in messages:
        assert message in found
    assert "7040" not in found  # the last batch of MNIST, which five devices can share


def test_a_crash_of_keras_on_several_devices_is_refused_with_its_reference():
    values = quick() | {"devices": 2, "num_seeds_by_variant": {}}
    values["variants"] = {
        "float32": {"policy": "float32", "batch_multiplier": 1},
        "odd": {"policy": "mixed_float16", "batch_multiplier": 1, "jit_compile": True},
    }
    values["comparison"] |= {"further_pairs": [], "must_differ": []}
    assert fault(values).count("keras #21366") == 1
    assert "steps_per_execution" not in fault(values)
    values["benchmarks"]["mnist_dense"]["steps_per_execution"] = 2
    assert "benchmarks.mnist_dense.steps_per_execution: must be 1 on several devices" in fault(values)
    values["benchmarks"]["mnist_dense"]["steps_per_execution"] = 1
    values["variants"]["odd"]["jit_compile"] = False
    Study.model_validate(values)


def test_the_custom_loop_takes_one_step_at_a_time():
    values = quick()
    values["benchmarks"]["mnist_dense"]["steps_per_execution"] = 16
    assert "variants.mixed_float16_custom.loop: the custom loop takes one step at a time, mnist_dense has" in fault(
        values
    )


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ({"baseline": "float23", "candidate": "mixed_float16"}, "further_pairs.0.baseline: must be a variant"),
        (
            {"baseline": "float32", "candidate": "mixed_float16"},
            "further_pairs.0: float32 and mixed_float16 are compared anyway",
        ),
    ],
)
def test_further_pairs_name_variants_that_are_not_compared_anyway(pair, message):
    values = quick()
    values["comparison"]["further_pairs"] = [pair]
    assert message in fault(values)


@pytest.mark.parametrize("name", ["float32", "float23"])
def test_a_control_is_a_variant_besides_the_baseline(name):
    values = quick()
    values["comparison"]["must_differ"] = [name]
    assert "comparison.must_differ: must be a variant besides the baseline (float32_2x, " in fault(values)


def test_a_recipe_is_chosen_on_a_set_that_is_named_for_a_benchmark_that_there_is():
    assert "recipe_chosen_on.mnist_dense: Input should be" in fault(
        quick() | {"recipe_chosen_on": {"mnist_dense": "x"}}
    )
    assert "recipe_chosen_on: must be names of benchmarks" in fault(quick() | {"recipe_chosen_on": {"mnist": "test"}})


def test_a_further_pair_stands_once_and_runs_somewhere():
    values = quick()
    pair = {"baseline": "mixed_float16", "candidate": "mixed_float16_custom"}
    values["comparison"]["further_pairs"] = [pair, {"baseline": pair["candidate"], "candidate": pair["baseline"]}]
    assert "further_pairs.1: mixed_float16_custom and mixed_float16 stand there already." in fault(values)
    values["comparison"]["further_pairs"] = [pair]
    values["variants"]["mixed_float16"]["benchmarks"] = ["cifar100_efficientnet_b0"]
    assert "further_pairs.0: mixed_float16 and mixed_float16_custom run on no benchmark together." in fault(values)


def test_a_wrong_type_is_one_fault_and_says_that_more_may_follow():
    values = quick()
    values["variants"]["float32"]["policy"] = "float23"
    text = fault(values)
    assert text.startswith("params.yaml: 1 fault")
    assert text.endswith("What depends on several keys is checked once these are mended.")


def test_a_loss_scale_follows_keras_where_none_is_given():
    variants = Study.model_validate(quick()).variants
    assert variants["mixed_float16"].loss_scale == Dynamic(mode="dynamic", initial=2.0**15, growth_steps=2000)
    assert variants["mixed_float16_fixed"].loss_scale == Fixed(mode="fixed", value=1024.0)
    assert {variants[name].loss_scale.mode for name in ("float32", "mixed_bfloat16")} == {"none"}


H200 = Hardware("nvidia_gpu", "H200", 9.0)
CPU = Hardware("cpu", "CPU", cpu_features=("avx2",))


@pytest.mark.parametrize(
    ("runtime", "hardware", "said"),
    [
        ("cpu", Hardware("cpu", "Xeon"), "trains on Xeon"),
        ("cuda", Hardware("nvidia_gpu", "H100"), "trains on H100"),
        ("cuda", Hardware("cpu", "Xeon"), "note: the packages are for a cuda device and none is visible here"),
        ("cuda-jax", Hardware("nvidia_gpu", "H100"), "trains on H100"),
        ("cpu", Hardware("nvidia_gpu", "H100"), "note: the packages are for a cpu device and H100 is here"),
    ],
)
def test_what_trains_is_named(runtime, hardware, said):
    assert check.describe_device(runtime, hardware).startswith(said)


def test_slow_choices_are_named_and_fast_ones_are_not():
    study = Study.model_validate(quick())
    notes = check.slow_choices(study, CPU)
    assert len(notes) == 2
    assert (
        "float16 is not computed in hardware on this machine: do not expect speed of mixed_float16, mixed_float16_2x"
        in notes[0]
    )
    assert (
        "bfloat16 is not computed in hardware on this machine: do not expect speed of mixed_bfloat16, mixed_bfloat16_2x"
        in notes[1]
    )
    assert check.slow_choices(study, H200) == []


def test_all_faults_are_reported_at_once():
    values = quick()
    values["seeds"] = []
    values["engine"] = "torch"
    del values["campaign"]
    values["benchmarks"]["mnist_dense"]["model"]["unit"] = 3
    text = fault(values)
    assert text.startswith("params.yaml: 4 faults, nothing was started.")
    for line in (
        "seeds:",
        "engine:",
        "campaign: missing",
        "benchmarks.mnist_dense.model.unit: unknown key. Did you mean 'units'?",
    ):
        assert line in text


def test_faults_across_fields_are_counted_one_by_one():
    values = quick()
    values["seeds"] = [1, 1]
    values["benchmarks"]["mnist_dense"]["batch_size"] = 40000
    values["comparison"]["num_warmup_epochs"] = 4
    text = fault(values)
    assert "comparison.num_warmup_epochs: must leave an epoch of the 2 of cifar100_efficientnet_b0" in text
    assert "(the whole file)" not in text
    assert text.startswith(f"params.yaml: {len(text.splitlines()) - 1} faults")


@pytest.mark.parametrize(("value", "expected"), [("1e-05", 1e-5), ("1E3", 1000.0), ("2.5e-3", 2.5e-3), ("1e+2", 100.0)])
def test_numbers_are_read_as_dvc_writes_them(tmp_path, value, expected):
    path = tmp_path / "params.yaml"
    text = (REPOSITORY / "params.yaml").read_text()
    path.write_text(text.replace("learning_rate: 0.001", f"learning_rate: {value}"))
    assert load_study(path).benchmarks["mnist_dense"].optimizer.learning_rate == expected


@pytest.mark.parametrize("value", [".inf", ".nan", "-1", "0"])
def test_numbers_without_sense_are_refused(tmp_path, value):
    path = tmp_path / "params.yaml"
    text = (REPOSITORY / "params.yaml").read_text()
    path.write_text(text.replace("learning_rate: 0.001", f"learning_rate: {value}"))
    with pytest.raises(InputError, match=r"optimizer\.learning_rate: "):
        load_study(path)


def test_a_key_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text((REPOSITORY / "params.yaml").read_text() + "\nseeds: [7]\n")
    with pytest.raises(InputError, match=r'line \d+, column 1: found duplicate key "seeds"'):
        load_study(path)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not readable"):
        load_study(tmp_path)


def test_check_reports_both_files_at_once(tmp_path):
    (tmp_path / "params.yaml").write_text("seeds: []\n")
    (tmp_path / "claims.yaml").write_text("claim: []\n")
    done = stage(tmp_path, "check")
    assert done.returncode == 2
    assert "params.yaml: " in done.stderr
    assert "claim: unknown key. Did you mean 'claims'?" in done.stderr


def test_check_refuses_a_study_that_compares_nothing(tmp_path):
    shutil.copy(REPOSITORY / "claims.yaml", tmp_path)
    values = small_study().model_dump(mode="json")
    values |= {"variants": {"float32": values["variants"]["float32"]}}
    values["comparison"]["further_pairs"] = []
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    done = stage(tmp_path, "check")
    assert done.returncode == 2
    assert "variants: no benchmark has two, so there is nothing to compare" in done.stderr


def test_check_tells_before_training_that_finished_runs_have_another_device(tmp_path):
    """Made on the two cores of an Example CPU; those of another campaign train again anyway."""
    shutil.copy(REPOSITORY / "claims.yaml", tmp_path)
    study = small_study()
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    keys = study.runs()[:2]
    for key in keys:
        write_small_run(tmp_path, planned_record(key, study), 9.0, 2.0)
    said = stage(tmp_path, "check")
    assert said.returncode == 0, said.stderr
    assert "note: 2 finished runs of this study were made on Example CPU, 2 cores, and this is " in said.stdout
    here = describe("cpu", [], {}, "")
    for key in keys:
        record = planned_record(key, study)
        environment = record.environment | {name: here[name] for name in ("cpu", "machine", "num_cpus")}
        write_small_run(tmp_path, record.model_copy(update={"environment": environment}), 9.0, 2.0)
    assert "finished runs" not in stage(tmp_path, "check").stdout
    for key in keys:
        write_small_run(tmp_path, planned_record(key, study, campaign="earlier"), 9.0, 2.0)
    assert "finished runs" not in stage(tmp_path, "check").stdout


@pytest.mark.parametrize("text", ["", "[]", "seeds: [", "\x00", "- 1\n"])
def test_what_is_no_study_is_a_fault_and_no_traceback(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"params\.yaml"):
        load_study(path)


def test_a_missing_file_says_how_to_get_it_back(tmp_path):
    with pytest.raises(InputError, match=r"params\.yaml is missing\. Get it back with: git checkout -- params\.yaml"):
        load_study(tmp_path / "params.yaml")


@pytest.mark.parametrize(
    "command",
    [
        ["check"],
        ["train", "--benchmark", "mnist_dense", "--variant", "float32", "--seed", "0"],
        ["compare"],
    ],
)
def test_commands_end_with_status_2_and_no_traceback(tmp_path, command):
    (tmp_path / "params.yaml").write_text("seeds: []\nbenchmark: {}\n")
    done = stage(tmp_path, *command)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "benchmark: unknown key. Did you mean 'benchmarks'?" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["params.yaml"]


def test_a_study_of_other_packages_than_those_installed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "IMAGE", tmp_path / "none.json")
    assert environment.installed_runtime() in ("cpu", None)  # by .venv
    (tmp_path / "image.json").write_text('{"target": "cuda"}')
    monkeypatch.setattr(environment, "IMAGE", tmp_path / "image.json")
    monkeypatch.chdir(REPOSITORY)
    with pytest.raises(InputError, match="the study wants cpu, and the packages here are those of cuda"):
        stages.train.main(argparse.Namespace(benchmark="mnist_dense", variant="float32", seed=0))


@pytest.mark.parametrize("setting", ["profile=papier", "seeds=[]", "runtime=tpu"])
def test_what_is_no_study_is_not_composed(tmp_path, setting):
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    (tmp_path / "params.yaml").write_text("mine: 1\n")
    done = stage(tmp_path, "compose", setting)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert (
        "PROFILE is one of evening, float8, night, paper, paper_jax, quick, seeds, tpu. Received: papier" in done.stderr
        or "params.partial.yaml: " in done.stderr
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf", "params.yaml"]
    assert (tmp_path / "params.yaml").read_text() == "mine: 1\n"


def test_more_seeds_of_a_profile(tmp_path):
    """As `dvc exp run -S` composes, and as an edit of the profile's file does."""
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    stage(tmp_path, "compose", "profile=evening", "seeds=[0,1,2,3,4,5,6]")
    study = load_study(tmp_path / "params.yaml")
    assert (study.profile, len(study.seeds)) == ("evening", 7)
    path = tmp_path / "conf" / "profile" / "evening.yaml"
    path.write_text(re.sub("^seeds: .*$", "seeds: [0, 1, 2, 3, 4, 5]", path.read_text(), flags=re.MULTILINE))
    stage(tmp_path, "compose", "profile=evening")
    assert len(load_study(tmp_path / "params.yaml").seeds) == 6


def test_what_was_there_is_kept_where_a_study_is_composed(tmp_path):
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    (tmp_path / "params.yaml").write_text("mine: 1\n")
    assert "what was there is in params.before.yaml" in stage(tmp_path, "compose", "profile=paper").stdout
    assert load_study(tmp_path / "params.yaml").profile == "paper"
    assert (tmp_path / "params.before.yaml").read_text() == "mine: 1\n"
    assert stage(tmp_path, "compose", "profile=paper").stdout == ""
    for _ in range(2):
        (tmp_path / "params.yaml").write_text("mine: 2\n")
        assert "what was there is in params.before-2.yaml" in stage(tmp_path, "compose", "profile=paper").stdout
    kept = [(tmp_path / f"params.before{number}.yaml").read_text() for number in ("", "-2")]
    assert kept == ["mine: 1\n", "mine: 2\n"]


def test_a_full_disk_is_a_message_and_no_traceback():
    code = """
import argparse, stages
def main(_):
    with open("/dev/full", "w") as file:
        file.write("something")
stages.run(main, argparse.ArgumentParser())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: No space left on device. Make room, then run the same command: what is finished stays.\n"
    )


def test_train_refuses_a_run_outside_the_study(tmp_path):
    (tmp_path / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    done = stage(tmp_path, "train", "--benchmark", "mnist_dense", "--variant", "float33", "--seed", "0")
    assert done.returncode == 2
    assert "--variant: must be one of float32, float32_2x," in done.stderr


def test_a_combination_the_study_leaves_out_ends_at_once(tmp_path):
    """DVC has its inputs written, which say so; by hand there are none, and it is refused."""
    (tmp_path / "params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    run = Path("runs", "cifar100_efficientnet_b0", "mixed_bfloat16", "seed-0")
    arguments = ["--benchmark", "cifar100_efficientnet_b0", "--variant", "mixed_bfloat16", "--seed", "0"]
    done = stage(tmp_path, "train", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "does not name cifar100_efficientnet_b0: nothing to run." in done.stderr
    inputs = tmp_path / "inputs" / f"{run}.json"
    inputs.parent.mkdir(parents=True)
    inputs.write_text(json.dumps({"left_out": "nothing to run."}))
    done = stage(tmp_path, "train", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing to run.\n", "")
    assert [path.name for path in (tmp_path / run).iterdir()] == ["left_out.txt"]
