"""ENGINE=… changes what names the engine in the study that is there, and keeps the rest."""

import difflib

import pytest
from studies import composed

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.reproduction.porting import port
from pipeline.study.configuration import validate
from pipeline.study.schema import Study

OWN = """\
# Mine.
name: "mine"   # nobody else's
description: 'it''s mine'
campaign: first
engine: &engine "tensorflow" # by now
runtime: 'cpu'
devices: 1
seeds: [ 0,1 ]
datasets: {mnist: {tfds: mnist}}
benchmarks:
    mine:
        dataset: mnist
        split: {num_train_examples: 40, num_validation_examples: 10}
        image_size: 8
        model: {name: dense, units: 8, source: pipeline/models/dense.py}
        optimizer: {name: adam, learning_rate: 1e-02}
        batch_size: 0016
        evaluation_batch_size: 8
        num_epochs: 2
variants:
    float32: &plain {policy: float32, batch_multiplier: 1}
    again: *plain
    mixed:
        # 16 bits
        policy: mixed_bfloat16
        batch_multiplier: 1   # the same
    compiled:
        policy: mixed_bfloat16
        batch_multiplier: 1
        jit_compile: true
comparison:
  baseline: float32
  num_warmup_epochs: 1
  margin_pp:
    mine: 1.0
speed: {budget_seconds: 1, target_half_width: 0.05}
"""


COMMENTS = [line.partition("#")[2] for line in OWN.splitlines() if "#" in line]


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line[0] in "+-"]


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_a_study_for_gpus_differs_in_its_runtime_alone(profile):
    before = yaml_files.dump(composed(f"profile={profile}"))
    text, changes = port(before, "cuda", "params.yaml")
    assert changed_lines(before, text) == ["- runtime: cpu", "+ runtime: cuda"]
    assert changes == ["runtime is cuda (was cpu), engine is tensorflow (was tensorflow)."]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_author_of_a_study_finds_every_comment_again(mark):
    text, _ = port(mark + OWN, "cuda", "params.yaml")
    assert [line.partition("#")[2] for line in text.splitlines() if "#" in line] == COMMENTS
    assert yaml_files.parse(text, "") == yaml_files.parse(OWN, "") | {"runtime": "cuda"}


@pytest.mark.parametrize("runtime", ["cuda-jax", "tpu"])
def test_jax_compiles_every_variant_and_says_so(runtime):
    text, changes = port(OWN, runtime, "params.yaml")
    assert [line.partition("#")[2] for line in text.splitlines() if "#" in line] == COMMENTS
    study = validate(Study, yaml_files.parse(text, "params.yaml"), "params.yaml")
    assert all(variant.jit_compile for variant in study.variants.values())
    assert changes == [
        f"runtime is {runtime} (was cpu), engine is jax (was tensorflow).",
        "jit_compile is true in float32, again, mixed: JAX compiles every step with XLA.",
        "mixed and compiled are the same now; leave one out to spare its runs.",
    ]


def test_what_is_merged_is_changed_with_the_rest():
    merged = OWN.replace("    again: *plain\n", "    again:\n        <<: *plain\n        batch_multiplier: 2\n")
    merged = merged.replace("    mixed:\n", "    <<: {more: {policy: float16, batch_multiplier: 1}}\n    mixed:\n")
    text, _ = port(merged, "tpu", "params.yaml")
    before, after = yaml_files.parse(merged, "params.yaml"), yaml_files.parse(text, "params.yaml")
    compiled = {name: variant | {"jit_compile": True} for name, variant in before["variants"].items()}
    assert after == before | {"engine": "jax", "runtime": "tpu", "variants": compiled}


def test_a_value_that_another_repeats_is_changed_alone():
    shared = OWN.replace("description: 'it''s mine'", "description: &engine tensorflow").replace('&engine "', '"')
    shared = shared.replace("runtime: 'cpu'", "runtime: &runtime cpu").replace("dataset: mnist", "dataset: *runtime", 1)
    shared = shared.replace("datasets: {mnist:", "datasets: {cpu:")
    text, _ = port(shared, "cuda", "params.yaml")
    assert yaml_files.parse(text, "") == yaml_files.parse(shared, "") | {"runtime": "cuda"}


def test_a_study_of_jax_keeps_xla_and_loses_its_cache_of_programs():
    before = yaml_files.dump(composed("profile=tpu"))
    text, changes = port(before, "cuda", "params.yaml")
    assert sorted(line for line in changed_lines(before, text) if line[0] == "+") == [
        "+ compilation_cache: false",
        "+ engine: tensorflow",
        "+ runtime: cuda",
    ]
    assert changes[1].startswith("jit_compile stays true in float32, float32_2x,")
    assert changes[2] == "compilation_cache is false: TensorFlow keeps nothing that it compiled."


def test_there_and_back_is_the_same_for_a_gpu():
    once, _ = port(OWN, "cuda", "params.yaml")
    assert port(once, "cuda", "params.yaml").text == once
    assert yaml_files.parse(port(once, "cpu", "params.yaml").text, "") == yaml_files.parse(OWN, "")


def test_a_fault_names_the_file_that_is_there():
    with pytest.raises(InputError, match=r"^params\.yaml: 1 fault"):
        port(OWN.replace("devices: 1", "devices: 0"), "cuda", "params.yaml")
