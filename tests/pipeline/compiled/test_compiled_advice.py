"""Advice for a device that is not here: the sentences, where the compiler refuses too."""

import pytest
from programs import program

from pipeline.compiled.answers import place_words, sentences
from pipeline.compiled.schema import Refusal
from pipeline.compiled.targets import TARGETS
from pipeline.errors import InputError
from stages.advise_target import image_data

TPU, GPU = TARGETS["tpu-v5e"], TARGETS["h100"]
TOO_LARGE = Refusal(words="RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.", for_memory=True)
NO_KERNEL = Refusal(words="INTERNAL: no such kernel", for_memory=False)


def test_what_fits_and_what_the_compiler_refuses_is_said():
    programs = [
        program("float32", 2560 * 2**20, 128),
        program("float32", 0, 1000, memory=None, refusal=TOO_LARGE),
        program("mixed_bfloat16", 0, 128, memory=None, refusal=NO_KERNEL),
    ]
    assert sentences(TPU, programs) == [
        "strict float32 at batch 128 fits: 2,560 of 16,384 MiB; 0 of 0 products and convolutions are in 16 bits.",
        f"strict float32 at batch 1,000 does not fit. The compiler says: {TOO_LARGE.words}",
        f"mixed_bfloat16 at batch 128: TPU v5e refuses it: {NO_KERNEL.words}",
    ]


def test_places_in_float32_are_counted_once_whatever_the_number_of_policies():
    places = {"net/resizing/dot_general": 2, "net/rescaling/mul": 1}
    programs = [program(policy, 1, wide=places) for policy in ("mixed_float16", "mixed_bfloat16")]
    found = sentences(GPU, programs)[2:]
    assert found == [
        "In float32 under a mixed policy: resizing: images are resized in float32 whatever the policy.",
        "In float32 under a mixed policy: rescaling: images are scaled in float32 whatever the policy.",
    ]
    many = program("mixed_float16", 1, wide={f"net/conv2d_{index}/conv_general_dilated": 1 for index in range(5)})
    said = sentences(GPU, [many])[1]
    assert "conv2d_2 and 2 more places: the layer has a dtype of its own" in said
    cut = many.model_copy(update={"num_wide_left_out": 7})
    assert sentences(GPU, [cut])[-1].endswith(": 7 more places, of which no list was kept.")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("jvp(resizing)/jit(_resize)/dot_general", "resizing, forward"),
        ("jvp(dense)/dense_1/dot_general", "dense_1, forward"),
        ("transpose(jvp(dense))/dense_1/transpose", "dense_1, backward"),
        ("jvp(net)/block/conv2d/conv_general_dilated", "block/conv2d, forward"),
        ("net/resizing/dot_general", "resizing"),
        ("dot_general", "outside of the layers"),
    ],
)
def test_a_place_in_a_model_is_told_in_words(place, words):
    assert place_words(place) == words


def test_data_that_nobody_prepared_are_asked_for_by_a_command_that_works_on_a_fresh_clone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "make .venv/ready && .venv/bin/python -m stages.download --dataset cifar10_3_0_2 --tfds cifar10:3.0.2"
    with pytest.raises(InputError, match=f"Prepare it with: {command}$"):
        image_data("cifar10:3.0.2")
    assert image_data("mnist") == ((28, 28, 1), 10)
