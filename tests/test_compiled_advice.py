"""Advice for a device that is not here: what is searched, and the sentences, where the compiler refuses too."""

import pytest
from test_compiled import program

from pipeline.compiled.answers import place_words
from pipeline.compiled.fitting_in import ask_compiler, sentences
from pipeline.compiled.programs import recipes
from pipeline.compiled.schema import LargestBatch, Refusal
from pipeline.compiled.targets import TARGETS
from pipeline.errors import InputError
from stages.advise_target import image_data

TPU, GPU = TARGETS["tpu-v5e"], TARGETS["h100"]
TOO_LARGE = Refusal(words="RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm.", for_memory=True)
NO_KERNEL = Refusal(words="INTERNAL: no such kernel", for_memory=False)


class LinearCompiler:
    """Stand for a compiler, which the tests' environment has not: a step takes 20 MiB an example."""

    def __init__(self, refusing_above: int = 10**9, refusal: Refusal = TOO_LARGE) -> None:
        self._refusing_above = refusing_above
        self._refusal = refusal

    def compile(self, step):
        if step.batch_size > self._refusing_above:
            return program(step.numbers, 0, step.batch_size, memory=None, refusal=self._refusal)
        return program(step.numbers, 20 * 2**20 * step.batch_size, step.batch_size)


def asked(compiler, target, batch_size=128):
    name, benchmark = "cifar100_efficientnet_b0", recipes()["cifar100_efficientnet_b0"]
    said: list[str] = []
    benchmark = benchmark.model_copy(update={"batch_size": batch_size})
    programs, largest = ask_compiler(compiler, target, name, benchmark, ((32, 32, 3), 100), said.append)
    return programs, largest, said


def test_strict_float32_is_compiled_once_on_a_tpu_and_its_largest_batch_is_not_searched():
    programs, largest, said = asked(LinearCompiler(), TPU)
    assert [each.numbers for each in programs] == ["float32", "float32_default", "mixed_bfloat16"]
    assert [each.numbers for each in largest] == ["float32_default", "mixed_bfloat16"]
    assert len([line for line in said if line.startswith("tpu-v5e float32 ")]) == 1
    assert [each.numbers for each in asked(LinearCompiler(), GPU)[1]] == ["float32", "mixed_float16", "mixed_bfloat16"]
    first, second, _ = sentences(TPU, programs, largest)
    assert first == (
        "strict float32 at batch 128 fits: 2,560 of 16,384 MiB; 0 of 0 products and convolutions are in 16 bits."
    )
    assert f"MiB; the largest batch that fits is {largest[0].fits:,}; 0 of 0" in second


def test_where_the_batch_is_refused_for_its_memory_the_largest_that_fits_is_said():
    programs, largest, _ = asked(LinearCompiler(refusing_above=700), TPU, batch_size=1000)
    assert {each.fits for each in largest} == {696}
    strict, default, _ = sentences(TPU, programs, largest)
    assert strict == f"strict float32 at batch 1,000 does not fit. The compiler says: {TOO_LARGE.words}"
    assert default == (
        "float32 as the device multiplies it by default at batch 1,000 does not fit; the largest batch that fits is "
        f"696. The compiler says: {TOO_LARGE.words}"
    )
    nothing = LargestBatch(benchmark="b", numbers="float32_default", fits=None, does_not_fit=1)
    assert "does not fit; no batch fits. The compiler" in sentences(TPU, programs[1:2], [nothing])[0]


def test_a_refusal_for_another_reason_is_said_and_searches_nothing():
    programs, largest, _ = asked(LinearCompiler(refusing_above=1, refusal=NO_KERNEL), TPU)
    assert largest == []
    assert sentences(TPU, programs, largest)[0] == f"strict float32 at batch 128: TPU v5e refuses it: {NO_KERNEL.words}"
    with pytest.raises(InputError, match="TPU v5e refuses a batch of 256: INTERNAL: no such kernel"):
        asked(LinearCompiler(refusing_above=200, refusal=NO_KERNEL), TPU)


def test_places_in_float32_are_counted_once_whatever_the_number_of_policies():
    places = {"net/resizing/dot_general": 2, "net/rescaling/mul": 1}
    programs = [program(numbers, 1, wide=places) for numbers in ("mixed_float16", "mixed_bfloat16")]
    batches = [LargestBatch(benchmark="b", numbers=each.numbers, fits=16, does_not_fit=17) for each in programs]
    found = sentences(GPU, programs, batches)[2:]
    assert found == [
        "In float32 under a mixed policy: resizing: images are resized in float32 whatever the policy.",
        "In float32 under a mixed policy: rescaling: images are scaled in float32 whatever the policy.",
    ]
    many = program("mixed_float16", 1, wide={f"net/conv2d_{index}/conv_general_dilated": 1 for index in range(5)})
    said = sentences(GPU, [many], batches)[1]
    assert "conv2d_2 and 2 more places: the layer has a dtype of its own" in said
    cut = many.model_copy(update={"num_wide_left_out": 7})
    assert sentences(GPU, [cut], batches)[-1].endswith(": 7 more places, of which no list was kept.")


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
