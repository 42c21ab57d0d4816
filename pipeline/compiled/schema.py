"""Describe `compiled/<target>.json`: what the compiler of a device said of each program. It needs no engine."""

from datetime import date
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipeline.compiled.targets import CompiledPrecision
from pipeline.errors import InputError
from pipeline.files.untrusted import Remedy, Sha256, Untrusted, read_json, read_rows
from pipeline.records.schema import Count, Part

COMPILED_FILES = Path("compiled")
CHECK = "check.csv"
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

    @model_validator(mode="after")
    def _takes_some(self) -> Self:
        """Refuse what no compiler can have said: ratios are taken of it."""
        if self.total <= 0:
            raise ValueError("a program in it takes no memory")
        return self

    @property
    def total(self) -> int:
        """Return the bytes that are allocated on the device for the program: by them it fits, and they are compared."""
        return self.arguments + self.outputs - self.aliased + self.temporaries + self.code


class Operations(Untrusted):
    """Count the products or convolutions of the optimised program that have operands and results of the same dtypes."""

    kind: Literal["product", "convolution"]
    operands: Annotated[str, Field(max_length=50)]
    result: Annotated[str, Field(max_length=50)]
    count: Count


class Refusal(Untrusted):
    """Hold the compiler's words for why it makes no program; `for_memory` where the program would not fit."""

    words: Text
    for_memory: bool


class CompiledProgram(Untrusted):
    """A training step of a benchmark, and what the compiler said of it.

    Attributes:
        program_sha256: of the program as it went into the compiler; None where that ended its process.
        operations: of the optimised program, by dtype.
        wide: where in the model operations have float32 operands; how many further places there are, is
            `num_wide_left_out`.
        seconds: to compile.
    """

    benchmark: str
    precision: CompiledPrecision
    batch_size: Count
    program_sha256: Sha256 | None
    refusal: Refusal | None = None
    memory: ProgramMemory | None = None
    operations: list[Operations] = Field(default_factory=list, max_length=100)
    wide: dict[Text, Count] = Field(default_factory=dict, max_length=100)
    num_wide_left_out: Count = 0
    seconds: float


class CompiledTarget(Untrusted):
    """All that was compiled for a target, and what it depends on."""

    schema_version: Literal[3] = 3
    target: str
    title: str
    kind: Literal["tpu", "gpu"]
    memory_bytes: Count
    description: Annotated[str, Field(max_length=5000)]
    flags: Text
    versions: Annotated[dict[Text, Text], Field(max_length=50)]
    sources: Annotated[dict[Text, Sha256], Field(max_length=100)]
    programs: Annotated[list[CompiledProgram], Field(max_length=1000)]

    def find(self, benchmark: str, precision: str, batch_size: int) -> CompiledProgram | None:
        wanted = (benchmark, precision, batch_size)
        return next((p for p in self.programs if (p.benchmark, p.precision, p.batch_size) == wanted), None)

    def fits(self, program: CompiledProgram) -> bool | None:
        """Return whether a program fits into the memory; None where the compiler refuses it for another reason."""
        if program.refusal:
            return False if program.refusal.for_memory else None
        return program.memory is not None and program.memory.total <= self.memory_bytes


class CheckedStep(Part):
    """A step that was compiled for the CPU that is here, and then run: bytes as compiled and as its process took them.

    `measured_bytes` are the peak of the resident set over several steps, less the resident set before their arguments
    were made. `once_bytes` are what the process had kept by then of steps before: threads, code, what was not freed.
    """

    benchmark: Annotated[str, Field(max_length=100)]
    image_size: Count
    precision: CompiledPrecision
    batch_size: Count
    compiled_bytes: Count
    measured_bytes: Annotated[int, Field(gt=0, le=2**63 - 1)]
    once_bytes: Count
    cpu: Annotated[str, Field(max_length=200)] | None
    jax: Annotated[str, Field(max_length=50)]
    day: date

    @property
    def ratio(self) -> float:
        return self.compiled_bytes / self.measured_bytes


def read_check(folder: Path = COMPILED_FILES) -> list[CheckedStep]:
    """Read how far off the compiler was where its steps can run; nothing where nobody tried."""
    path = folder / CHECK
    if not path.exists():
        return []
    # `python -m bench.xla_memory` makes it now. This text is part of the digest in every compiled/<target>.json, so it
    # is put right when those are next compiled.
    remedy = "Make it with: .compilers/bin/python -m stages.compiled --check"
    return read_rows(CheckedStep, path, Remedy(remedy, f"Remove it. {remedy}"))


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
