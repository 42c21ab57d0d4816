"""From what a compiler answered to a record of it. It needs no engine."""

from collections import Counter
from typing import Any

from pipeline.compiled.optimised import counted, operations
from pipeline.compiled.programs import Step
from pipeline.compiled.schema import CompiledProgram, Operations, ProgramMemory, Refusal

MAX_PLACES = 40


def read_answer(program: Step, answer: dict[str, Any]) -> CompiledProgram:
    """Return the record of a program from what `open_compiler`'s function gave for it."""
    asked = {
        "benchmark": program.benchmark,
        "precision": program.precision,
        "batch_size": program.batch_size,
        "program_sha256": answer["program_sha256"],
        "seconds": round(answer["seconds"], 1),
    }
    if "refused" in answer:
        return CompiledProgram(**asked, refusal=_refusal(answer["refused"]))
    found = operations(answer["text"])
    wide = Counter(operation.place for operation in found if operation.operands == "float32")
    if program.policy == "float32":
        wide.clear()
    return CompiledProgram(
        **asked,
        memory=ProgramMemory(**answer["memory"], peak=answer["peak_bytes"] or None),
        operations=[
            Operations(kind=kind, operands=operands, result=result, count=count)  # type: ignore[arg-type]
            for (kind, operands, result), count in sorted(counted(found).items())
        ],
        wide=dict(sorted(wide.items())[:MAX_PLACES]),
        num_wide_left_out=max(0, len(wide) - MAX_PLACES),
    )


def _refusal(words: str) -> Refusal:
    return Refusal(words=words, for_memory="RESOURCE_EXHAUSTED" in words or "Ran out of memory" in words)
