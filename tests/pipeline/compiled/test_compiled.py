"""Compiled programs: read off texts written here by hand, and off the files that are committed."""

import re
from pathlib import Path

import pytest
from conftest import REPOSITORY
from imported import closure
from programs import made_up, program
from projects import stage

from pipeline.compiled import answers, making, sources
from pipeline.compiled.compiler import last_message
from pipeline.compiled.lowering import versions
from pipeline.compiled.optimised import operations
from pipeline.compiled.programs import Step, programs
from pipeline.compiled.reading import read_answer
from pipeline.compiled.schema import COMPILED_FILES, read_target
from pipeline.compiled.targets import TARGETS, find_target
from pipeline.errors import InputError

MADE = sorted((REPOSITORY / COMPILED_FILES).glob("*.json"))

# As a TPU's compiler writes it: products are convolutions, and operands are named, not typed.
TPU_TEXT = """\
HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[4,2]{1,0:T(8,128)}, /*index=1*/u8[3]{0})->(bf16[4]{0}, pred[])}, x=true

%fused_computation.1 (param_0: f32[4,2], param_1: bf16[2,2]) -> bf16[4,2] {
  %param_0 = f32[4,2]{1,0:T(8,128)} parameter(0)
  %param_1 = bf16[2,2]{1,0:T(8,128)(2,1)} parameter(1)
  %narrow = bf16[4,2]{1,0:T(8,128)(2,1)} convert(%param_0)
  ROOT %convolution.1 = bf16[4,2]{1,0:T(8,128)(2,1)} convolution(%narrow, %param_1), dim_labels=bf_io->bf, operand_precision={highest,highest}, metadata={op_name="jit(step)/jvp(dense)/dense_1/dot_general" stack_frame_id=1}
}

ENTRY %main (a: f32[4,2]) -> bf16[4] {
  %param_0 = f32[8,8,1,3]{3,2,1,0} parameter(0)
  %kernel = f32[3,3,3,8]{3,2,1,0} parameter(1)
  %convolution.2 = f32[8,8,1,8]{3,2,1,0} convolution(%param_0, %kernel), window={size=3x3}, dim_labels=b01f_01io->b01f, metadata={op_name="jit(step)/jvp(net)/conv2d/conv_general_dilated"}, backend_config={"estimated_cycles":"40"}
  %fusion.1 = bf16[4,2]{1,0} fusion(%param_0, %kernel), kind=kOutput, calls=%fused_computation.1, backend_config={"estimated_cycles":"2"}
}
"""
# As the compiler for NVIDIA writes it: calls of libraries, whose results are tuples with a workspace.
GPU_TEXT = """\
HloModule jit_step, entry_computation_layout={(f16[4,2]{1,0})->f32[2]{0}}, frontend_attributes={}

ENTRY %main.1 (a: f16[4,2]) -> f32[2] {
  %a = f16[4,2]{1,0} parameter(0)
  %b = f16[2,2]{1,0} parameter(1)
  %wide = f32[2,2]{1,0} parameter(2)
  %matmul.3 = (f16[4,2]{1,0}, s8[33554432]{0}) custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", metadata={op_name="jit(step)/transpose(jvp(dense))/dense/transpose"}, backend_config={"gemm_backend_config":{"precision_config":{"operand_precision":["HIGHEST","HIGHEST"],"algorithm":"ALG_UNSET"}}}
  %get-tuple-element.1 = f16[4,2]{1,0} get-tuple-element(%matmul.3), index=0
  %conv.1 = (f16[4,2]{1,0}, u8[0]{0}) custom-call(%get-tuple-element.1, %b), custom_call_target="__cudnn$convForward", metadata={op_name="jit(step)/net/conv2d/conv_general_dilated"}
  ROOT %dot.1 = f32[2,2]{1,0} dot(%wide, %wide), lhs_contracting_dims={1}, metadata={op_name="jit(step)/net/resizing/dot_general"}
  %call = f32[2]{0} custom-call(%a), custom_call_target="Sharding"
}
"""


def test_products_and_convolutions_of_a_tpu_are_told_apart_and_typed_by_their_computation():
    inside, outside = operations(TPU_TEXT)
    assert inside == ("product", "bfloat16", "bfloat16", "jvp(dense)/dense_1/dot_general")
    assert outside == ("convolution", "float32", "float32", "jvp(net)/conv2d/conv_general_dilated")


def test_library_calls_of_a_gpu_are_products_and_convolutions():
    found = operations(GPU_TEXT)
    assert [each.kind for each in found] == ["product", "convolution", "product"]
    assert [each.operands for each in found] == ["float16", "float16", "float32"]


STEP = Step(
    benchmark="b", recipe={}, image_shape=(8, 8, 1), num_classes=10, precision="mixed_float16", batch_size=16
)  # fmt: skip
ANSWER = {
    "program_sha256": "a" * 64,
    "seconds": 1.26,
    "memory": {"arguments": 100, "outputs": 60, "aliased": 50, "temporaries": 1000, "code": 7},
    "peak_bytes": 0,
    "text": GPU_TEXT,
}


def test_an_answer_is_read_into_a_record():
    found = read_answer(STEP, ANSWER)
    assert (found.memory.total, found.memory.peak, found.seconds) == (1117, None, 1.3)
    assert found.wide == {"net/resizing/dot_general": 1}
    assert answers.multiplied_in(found, 16) == (2, 3)


def test_places_that_are_left_out_are_counted():
    line = next(line for line in GPU_TEXT.splitlines() if "resizing" in line)
    rest = "\n".join(line.replace("resizing", f"conv2d_{index}") for index in range(50))
    found = read_answer(
        STEP, ANSWER | {"text": GPU_TEXT.replace("ROOT %dot.1", "%dot.1").replace("\n}", f"\n{rest}\n}}")}
    )
    assert (len(found.wide), found.num_wide_left_out) == (40, 11)
    strict = STEP.model_copy(update={"precision": "float32"})
    assert (read_answer(strict, ANSWER).wide, read_answer(strict, ANSWER).num_wide_left_out) == ({}, 0)


@pytest.mark.parametrize(
    ("words", "for_memory"),
    [("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm", True), ("INTERNAL: no such kernel", False)],
)
def test_a_refusal_keeps_the_compilers_words_and_is_a_result(words, for_memory):
    found = read_answer(STEP, {"program_sha256": None, "seconds": 2.0, "refused": words})
    assert (found.refusal.words, found.refusal.for_memory) == (words, for_memory)
    made = made_up(found)
    assert made.fits(found) is (False if for_memory else None)
    assert answers.memory_ratio(made, "b", "mixed_float16", 16) is None


def test_memory_is_compared_with_strict_float32_at_the_same_batch():
    made = made_up(
        program("float32", 1000), program("mixed_float16", 600), program("float32", 2000, 32), program("mixed_float16", 1100, 32)
    )  # fmt: skip
    assert answers.memory_ratio(made, "b", "mixed_float16", 16) == 0.6
    assert answers.memory_ratio(made, "b", "mixed_float16", 64) is None
    fits = [answers.step_fits(made, "b", each, 32) for each in ("float32", "mixed_float16", "mixed_bfloat16")]
    assert fits == [False, True, None]


def products(counts: dict[str, int]) -> list[dict]:
    return [{"kind": "product", "operands": name, "result": "float32", "count": n} for name, n in counts.items()]


def test_operands_rounded_by_the_compiler_are_counted_in_float32_too():
    found = program("float32_default", 1, operations=products({"bfloat16 × float32": 5, "float32": 1}))
    assert answers.rounded_to_16_bits(found) == (5, 6)
    assert answers.multiplied_in(found, 16) == (0, 6)


def test_products_of_two_kinds_of_8_bits_are_counted():
    kinds = {"f8e4m3fn": 3, "f8e4m3fn × f8e5m2": 4, "f8e4m3fn × bfloat16": 1}
    found = program("float8", 1100, operations=products(kinds))
    assert (answers.multiplied_in(found, 8), answers.multiplied_in(found, 16)) == ((7, 8), (0, 8))


def test_every_target_is_told_to_its_compiler_with_what_is_installed():
    installed = {"nvidia-cuda-runtime-cu12": "12.9.79", "nvidia-cudnn-cu12": "9.28.0.42"}
    text = TARGETS["v100-16gb"].description(installed)
    for line in (
        "device_memory_size: 16935682048",
        "cuda_compute_capability { major: 7 minor: 0 }",
        'runtime_version: "12.9.0"',
        "dnn_version_info { major: 9 minor: 28 patch: 0 }",
    ):
        assert line in text
    assert "ACCELERATED_FEATURES" in TARGETS["h100"].description(installed)
    assert TARGETS["tpu-v5e"].description({}) == "v5e:2x2"


def test_every_recipe_is_compiled_at_its_batch_and_twice_that_in_all_numbers_of_the_target():
    for target in TARGETS.values():
        steps = list(programs(target, REPOSITORY))
        assert {(each.benchmark, each.batch_size) for each in steps} == {
            *(("mnist_dense", size) for size in (8192, 16_384)),
            *(("cifar100_efficientnet_b0", size) for size in (128, 256)),
        }
        in_8_bits = [each.benchmark for each in steps if each.precision == "float8"]
        assert in_8_bits == 2 * ["mnist_dense"] * ("float8" in target.precisions)  # dense layers alone compute in it
        assert len(steps) - len(in_8_bits) == 4 * len({*target.precisions} - {"float8"})
    assert "float32_default" not in TARGETS["v100-16gb"].precisions  # which has no TF32
    assert [name for name, target in TARGETS.items() if "float8" in target.precisions] == ["h100", "h200", "b200"]


def test_an_unknown_target_lists_the_known_ones():
    with pytest.raises(InputError, match=r"must be one of tpu-v3, .*b200. Received: 'tpu-v9'"):
        find_target("tpu-v9")


def test_an_interrupted_call_goes_on_where_it_was(tmp_path, monkeypatch):
    asked = []

    class Compiler:
        """Stand for a compiler, which the tests' environment has not, and end after three programs."""

        def __init__(self, _, known):
            self._known = {(each.benchmark, each.precision, each.batch_size): each for each in known}

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def compile(self, step):
            key = step.benchmark, step.precision, step.batch_size
            if key in self._known:
                return self._known[key]
            asked.append(key)
            if len(asked) == 4:
                raise InputError("the system ended the compiler")
            return program(step.precision, 1, step.batch_size, benchmark=step.benchmark)

    installed = {"nvidia-cuda-runtime-cu12": "12.9.79", "nvidia-cudnn-cu12": "9.28.0.42"}
    monkeypatch.setattr(making, "versions", lambda _: installed)
    monkeypatch.setattr(making, "Compiler", Compiler)
    monkeypatch.setattr(making, "UNFINISHED", tmp_path / "unfinished")
    with pytest.raises(InputError, match="ended the compiler"):
        making.make_target(TARGETS["v100-16gb"], print, tmp_path)
    assert not (tmp_path / "v100-16gb.json").exists()
    making.make_target(TARGETS["v100-16gb"], print, tmp_path)
    assert len(read_target("v100-16gb", tmp_path).programs) == 12
    assert len(asked) == 12 + 1  # the fourth twice
    assert not list((tmp_path / "unfinished").iterdir())


@pytest.mark.parametrize(("target", "package"), [("tpu-v5e", "libtpu"), ("h100", "jax-cuda12-plugin")])
def test_without_its_compiler_it_says_what_to_install(target, package):
    """The environment of the tests has neither."""
    with pytest.raises(InputError, match=rf"{package}, .* `make compiled` installs"):
        versions(find_target(target))


def test_a_part_does_not_take_the_place_of_a_whole_file():
    done = stage(REPOSITORY, "compiled", "h100", "--benchmark", "mnist_dense")
    assert (done.returncode, "name a folder with --out" in done.stderr) == (2, True)


# As Python, Keras and JAX say it of a model that can't be traced.
UNTRACEABLE = """\
W0000 00:00:1 cuda.cc:1] no device
Traceback (most recent call last):
  File "/project/pipeline/compiled/lowering.py", line 90, in compile_program
    before = lowered(program)
             ^^^^^^^^^^^^^^^^
TypeError: Exception encountered when calling Functional.call().

\x1b[1mthe branch is not known\x1b[0m

Arguments received by Functional.call():
  • training=True
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception.
"""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("WARNING: no device\nerror: DATASET=x: it is missing.\n", "DATASET=x: it is missing."),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'x'\n", "KeyError: 'x'"),
        ("the last line\nof something else\n", "of something else"),
        ("", ""),
        (
            UNTRACEABLE,
            "TypeError: Exception encountered when calling Functional.call().\nthe branch is not known\n"
            "Arguments received by Functional.call():\n  • training=True",
        ),
    ],
)
def test_a_process_that_ends_by_itself_is_told_of_by_its_last_message(said, message):
    assert last_message(said) == message


# What lowering imports that changes no program: a recipe comes in as values, which the answers' names hold, and the
# rest refuses, prints, or is for the other engine.
CHANGES_NO_PROGRAM = (
    "pipeline/engine/__init__.py",
    "pipeline/engine/activations.py",
    "pipeline/engine/fused_batch_norm.py",
    "pipeline/engine/loading.py",
    "pipeline/engine/on_tensorflow.py",
    "pipeline/errors.py",
    "pipeline/files/",
    "pipeline/study/benchmark.py",
    "pipeline/study/configuration.py",
    "pipeline/study/user_code.py",
)


def test_the_sources_are_all_that_lowering_imports_to_make_a_step():
    """What it imports imports more. The models are imported by name; each of them is a source."""
    models = (path.relative_to(REPOSITORY) for path in (REPOSITORY / "pipeline/models").glob("*.py"))
    found = closure(Path("pipeline/compiled/lowering.py"), *models)
    known = {*sources.STEP_CODE, *sources.READING_CODE}
    assert {path for path in found - known if not path.startswith(CHANGES_NO_PROGRAM)} == set()
    assert all(any(path.startswith(name) for path in found) for name in CHANGES_NO_PROGRAM)


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.stem)
def test_what_is_committed_was_compiled_from_the_sources_of_today(path: Path):
    made = read_target(path.stem, path.parent)
    now = sources.source_digests(REPOSITORY)
    changed = sorted(name for name in now.keys() | made.sources.keys() if now.get(name) != made.sources.get(name))
    assert not changed, f'older than {", ".join(changed)}. Run: make compiled TARGETS="{path.stem}"'


def test_a_damaged_file_says_how_it_is_made(tmp_path):
    (tmp_path / "h100.json").write_text("{}")
    with pytest.raises(InputError, match='make compiled TARGETS="h100"'):
        read_target("h100", tmp_path)
    with pytest.raises(InputError, match=r'is missing\. Make it with: make compiled TARGETS="b200"'):
        read_target("b200", tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r'("arguments"|"outputs"|"temporaries"|"code"|"aliased"): \d+', r"\1: 0"),
        (r'"aliased": \d+', r'"aliased": 1000000000000'),
    ],
)
def test_what_no_compiler_can_say_is_refused(tmp_path, old, new):
    """A ratio of it would divide by nothing."""
    text = (REPOSITORY / COMPILED_FILES / "v100-16gb.json").read_text()
    (tmp_path / "v100-16gb.json").write_text(re.sub(old, new, text))
    said = r"v100-16gb\.json is damaged \(.*a program in it takes no memory\). Remove it. Make it with: make compiled"
    with pytest.raises(InputError, match=said):
        answers.read_compiled(tmp_path)


COMMITTED = answers.read_compiled(REPOSITORY / COMPILED_FILES)


def test_the_peak_lies_above_what_is_allocated_by_no_more_than_a_tpu_has_on_its_chip():
    """A peak beyond that would be memory of the device, and what fits could not be judged without it."""
    on_chip = 128 * 2**20
    for made in COMMITTED:
        for each in made.programs:
            if each.memory and each.memory.peak:
                assert each.memory.peak <= each.memory.total + (on_chip if made.kind == "tpu" else 0)
