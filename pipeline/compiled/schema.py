"""Describe `compiled/<target>.json`: what the compiler of a device said of each program. It needs no engine."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pipeline.compiled.targets import StepNumbers
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, Sha256, Untrusted, read_json
from pipeline.records.planned import Count

COMPILED_FILES = Path("compiled")
Text = Annotated[str, Field(max_length=2000)]


class ProgramMemory(Untrusted):
    """Bytes of device memory by kind; `aliased` are outputs that take the place of arguments, which count once.

    `peak` is the compiler's own count, where it gives one, of the most that lives at one time. It leaves out code and
    the gaps between values, so that it mostly lies below `total`. A TPU's compiler adds what it copies into the memory
    on the chip, which is no part of the device's: there it can lie above.
    """

    arguments: Count
    outputs: Count
    aliased: Count
    temporaries: Count
    code: Count
    peak: Count | None

    @property
    def total(self) -> int:
        """Return the bytes that are allocated on the device for the program: by them it fits, and they are compared."""
        return self.arguments + self.outputs - self.aliased + self.temporaries + self.code


class Operations(Untrusted):
    """Products or convolutions of the optimised program that have operands of the same dtypes and one precision.

    `precision` is what the program asks for: "highest" multiplies float32 as float32, "tf32" and "default" as the
    device does by default. It says nothing where operands have 16 bits.
    """

    kind: Literal["product", "convolution"]
    operands: Annotated[str, Field(max_length=50)]
    result: Annotated[str, Field(max_length=50)]
    precision: Annotated[str, Field(max_length=20)]
    count: Count


class Refusal(Untrusted):
    """Hold the compiler's words for why it makes no program; `for_memory` where the program would not fit."""

    words: Text
    for_memory: bool


class CompiledProgram(Untrusted):
    """A program, and what the compiler said of it.

    Attributes:
        benchmark: of a step; None for a product.
        batch_size: of a step; for a product its rows.
        width: of a product.
        program_sha256: of the program as it went into the compiler; None where that ended its process.
        wanted_bytes: of arguments and outputs by their shapes, before anything is padded.
        operations: of the optimised program, by dtype.
        wide: where in the model operations have float32 operands; how many further places there are, is
            `num_wide_left_out`.
        flops, bytes_moved: as the compiler counts them, where it does.
        estimated_cycles: the sum of the compiler's own estimates, where it gives them. No measurement.
        seconds: to compile.
    """

    benchmark: str | None
    numbers: StepNumbers
    batch_size: Count
    width: Count | None = None
    program_sha256: Sha256 | None
    refusal: Refusal | None = None
    memory: ProgramMemory | None = None
    wanted_bytes: Count | None = None
    operations: list[Operations] = Field(default_factory=list, max_length=100)
    wide: dict[Text, Count] = Field(default_factory=dict, max_length=100)
    num_wide_left_out: Count = 0
    flops: float | None = None
    bytes_moved: float | None = None
    estimated_cycles: Count | None = None
    seconds: float


class LargestBatch(Untrusted):
    """The largest batch of a step found to fit, and the smallest found not to; None where none was found."""

    benchmark: str
    numbers: StepNumbers
    fits: Count | None
    does_not_fit: Count | None


class CompiledTarget(Untrusted):
    """All that was compiled for a target, and what it depends on."""

    schema_version: Literal[1] = 1
    target: str
    title: str
    kind: Literal["tpu", "gpu"]
    memory_bytes: Count
    description: Annotated[str, Field(max_length=5000)]
    flags: Text
    versions: Annotated[dict[Text, Text], Field(max_length=50)]
    sources: Annotated[dict[Text, Sha256], Field(max_length=100)]
    programs: Annotated[list[CompiledProgram], Field(max_length=1000)]
    largest_batches: Annotated[list[LargestBatch], Field(max_length=100)]

    def find(self, benchmark: str, numbers: str, batch_size: int) -> CompiledProgram | None:
        wanted = (benchmark, numbers, batch_size)
        return next((p for p in self.programs if (p.benchmark, p.numbers, p.batch_size) == wanted), None)

    def find_product(self, numbers: str, width: int) -> CompiledProgram | None:
        return next((p for p in self.programs if (p.benchmark, p.numbers, p.width) == (None, numbers, width)), None)

    def fits(self, program: CompiledProgram) -> bool | None:
        """Return whether a program fits into the memory; None where the compiler refuses it for another reason."""
        if program.refusal:
            return False if program.refusal.for_memory else None
        return program.memory is not None and program.memory.total <= self.memory_bytes


def read_target(target: str, folder: Path = COMPILED_FILES) -> CompiledTarget:
    """Read what was compiled for `target`.

    Raises:
        InputError: the file is missing or damaged, or is another target's.
    """
    path = folder / f"{target}.json"
    remedy = f'Make it with: make compiled TARGETS="{target}"'
    found = read_json(CompiledTarget, path, Remedy(remedy, f"Remove it. {remedy}"))
    if found.target != target:
        raise InputError(f"{path} is of {found.target}. {remedy}")
    return found
