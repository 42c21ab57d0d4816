"""The image for JAX on NVIDIA GPUs compiles the sources' training step for an H100, on a machine that has none."""

import json
from functools import cache
from pathlib import Path

import pytest
from container.docker_images import output, run
from studies import composed

from container import docker_images
from pipeline.files import yaml_files

docker, base = docker_images.docker, docker_images.base
build_environment = docker_images.build_environment
IMAGE = "mixed-precision-test:cuda-jax"
MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def compiled(docker, build_environment, tmp_path_factory):
    """What the compiler says of a variant of EfficientNet-B0 at 224 × 224."""
    run("make", "image", "TARGET=cuda-jax", IMAGE=IMAGE, **build_environment)
    folder = tmp_path_factory.mktemp("study")
    (folder / "params.yaml").write_text(yaml_files.dump(composed("profile=paper_jax")))

    @cache
    def compile_step(variant: str) -> dict:
        mounts = [f"--volume={folder}:/study:ro", f"--volume={Path(__file__).parent}:/tests:ro"]
        arguments = ["/study/params.yaml", "cifar100_efficientnet_b0", variant]
        command = ["env", "PYTHONPATH=/opt/mixed-precision", "python", "/tests/compile_step.py", *arguments]
        found = json.loads(output(docker, "run", "--rm", *mounts, IMAGE, *command).splitlines()[-1])
        print(variant, found)
        return found

    return compile_step


def test_a_mixed_step_convolves_in_float16_and_takes_little_more_than_half_the_memory(compiled):
    """Weights, optimizer and whatever stays in float32 are the same."""
    mixed, plain = compiled("mixed_float16"), compiled("float32")
    assert mixed["convolutions"].keys() == {"f16"}
    assert plain["convolutions"].keys() == {"f32"}
    assert mixed["convolutions"]["f16"] == plain["convolutions"]["f32"] > 200
    assert 0.5 < mixed["temporary_bytes"] / plain["temporary_bytes"] < 0.6
    assert 6_000 * MEBIBYTE < plain["temporary_bytes"] < 9_000 * MEBIBYTE


def test_strict_float32_asks_for_the_highest_precision_and_tf32_does_not(compiled):
    assert compiled("float32")["highest"] > 100
    assert compiled("tf32")["highest"] == 0
