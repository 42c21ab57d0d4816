"""From what a compiler answered to a record of it. It needs no engine."""

from collections import Counter
from typing import Any

from pipeline.compiled.optimised import counted, estimated_cycles, operations, wanted_bytes
from pipeline.compiled.programs import Product, Step
from pipeline.compiled.schema import CompiledProgram, Operations, ProgramMemory, Refusal

MAX_PLACES = 40


def read_answer(program: Step | Product, answer: dict[str, Any]) -> CompiledProgram:
    """Return the record of a program from what `open_compiler`'s function gave for it."""
    asked = {
        "benchmark": program.benchmark if isinstance(program, Step) else None,
        "numbers": program.numbers,
        "batch_size": program.batch_size if isinstance(program, Step) else program.num_rows,
        "width": program.width if isinstance(program, Product) else None,
        "program_sha256": answer["program_sha256"],
        "seconds": round(answer["seconds"], 1),
    }
    if "refused" in answer:
        return CompiledProgram(**asked, refusal=_refusal(answer["refused"]))
    text = answer["text"]
    found = operations(text)
    wide = Counter(operation.place for operation in found if operation.operands == "float32")
    if program.policy == "float32":
        wide.clear()
    return CompiledProgram(
        **asked,
        memory=ProgramMemory(**answer["memory"], peak=answer["peak_bytes"] or None),
        wanted_bytes=wanted_bytes(text),
        operations=[
            Operations(kind=kind, operands=operands, result=result, precision=precision, count=count)  # type: ignore[arg-type]
            for (kind, operands, result, precision), count in sorted(counted(found).items())
        ],
        wide=dict(sorted(wide.items())[:MAX_PLACES]),
        num_wide_left_out=max(0, len(wide) - MAX_PLACES),
        flops=answer["costs"].get("flops"),
        bytes_moved=answer["costs"].get("bytes accessed"),
        estimated_cycles=estimated_cycles(text),
    )


def _refusal(words: str) -> Refusal:
    return Refusal(words=words, for_memory="RESOURCE_EXHAUSTED" in words or "Ran out of memory" in words)
