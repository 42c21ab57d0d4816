"""Compiled programs and targets of made-up sizes."""

from pipeline.compiled.schema import CompiledProgram, CompiledTarget


def made_up(*programs: CompiledProgram, **changes) -> CompiledTarget:
    values = {
        "target": "h100", "title": "t", "kind": "gpu", "memory_bytes": 1500, "description": "", "flags": "",
        "versions": {}, "sources": {}, "programs": list(programs),
    }  # fmt: skip
    return CompiledTarget(**values | changes)


def program(precision: str, total: int, batch_size: int = 16, **changes) -> CompiledProgram:
    memory = {"arguments": 0, "outputs": 0, "aliased": 0, "temporaries": total, "code": 0, "peak": None}
    values = {
        "benchmark": "b",
        "precision": precision,
        "batch_size": batch_size,
        "program_sha256": None,
        "seconds": 1.0,
    }
    return CompiledProgram(**values | {"memory": memory} | changes)
