"""Hand the project's own training step to the compiler of a device that is not here, and keep what it answers."""

import hashlib
import importlib.metadata
import os
import time
from collections.abc import Callable
from typing import Any

from pipeline.compiled.programs import Step
from pipeline.compiled.targets import Target
from pipeline.errors import InputError

# A compiler that asks no device: no metadata server, no lock on a chip, no timing of kernels. Without the last one,
# XLA fails to tile the resizing of images for Triton.
ENVIRONMENT = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}
PACKAGES = {
    "tpu": ("jax", "jaxlib", "keras", "libtpu"),
    "gpu": (
        *("jax", "jaxlib", "keras", "jax-cuda12-plugin", "jax-cuda12-pjrt"),
        *("nvidia-cuda-nvcc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12", "nvidia-cublas-cu12"),
    ),
}
MAX_WORDS = 600  # characters of what a compiler said


def versions(target: Target) -> dict[str, str]:
    """Return the versions of what compiles for `target`.

    Raises:
        InputError: a package is missing.
    """
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES[target.kind]}
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(
            f"{error.name}, which compiles for {target.title}, is not installed here. `make compiled` installs "
            "requirements/compiled.txt into .compilers and compiles with that."
        ) from None


def open_compiler(target: Target) -> Callable[[Step, str | None], dict[str, Any]]:
    """Return a function that compiles programs for `target`. A model is built once for steps that follow each other.

    It takes a program and the SHA-256 of one that is known already, and returns `program_sha256` with either
    `unchanged`, or `refused` (the compiler's words), or the optimised program's `text`, `memory`, and `seconds`.

    Raises:
        InputError: the compiler is not installed, or JAX runs on something else.
    """
    description = target.description(versions(target))
    os.environ.update(ENVIRONMENT)
    from pipeline import engine  # noqa: F401, I001  first, and late: it reads the environment
    import jax
    from jax.experimental import topologies

    if target.gpu is None:
        topology = topologies.get_topology_desc(description, "tpu")
    else:
        topology = topologies.get_topology_desc(platform="cuda", target_config=description, topology=target.topology)
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    built: dict[str, Any] = {}

    def shape_of(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    def lowered(program: Step) -> Any:
        jax.config.update("jax_default_matmul_precision", _precision(target, program.precision))
        key = program.model_copy(update={"batch_size": 0}).model_dump_json()
        if key not in built:
            built.clear()
            built[key] = training_step_of(program)
        step, state = built[key]
        images = shape_of((program.batch_size, *program.image_shape), "uint8")
        state = jax.tree.map(lambda value: shape_of(value.shape, value.dtype), state)
        return step.lower(state, images, shape_of((program.batch_size,), "int32"))

    def compile_program(program: Step, known: str | None = None) -> dict[str, Any]:
        before = lowered(program)
        digest = hashlib.sha256(before.as_text().encode()).hexdigest()
        if digest == known:
            return {"program_sha256": digest, "unchanged": True}
        started = time.monotonic()
        try:
            after = before.compile()
        except jax.errors.JaxRuntimeError as error:
            refused = {"refused": str(error)[:MAX_WORDS], "seconds": time.monotonic() - started}
            return {"program_sha256": digest, **refused}
        return {"program_sha256": digest, **answer_of(after), "seconds": time.monotonic() - started}

    return compile_program


def _precision(target: Target, precision: str) -> str | None:
    if precision != "float32_default":
        return "highest"
    return "tensorfloat32" if target.has_tf32 else None


def training_step_of(program: Step) -> tuple[Any, Any]:
    """Return the JAX engine's step of a model under the policy of `program`, and the state it begins with.

    Keras numbers the layers of a process. It starts again for each model, so that a place in a program has the same
    name whatever was built before.
    """
    import keras

    from pipeline.engine.jax_steps import training_step
    from pipeline.study.benchmark import Benchmark
    from pipeline.study.variant import Variant
    from pipeline.training.building import build_model, compile_model

    keras.utils.clear_session()
    benchmark = Benchmark.model_validate(program.recipe)
    variant = Variant.model_validate({"policy": program.policy, "batch_multiplier": 1, "jit_compile": True})
    model, _ = build_model(benchmark, program.policy, program.num_classes, program.image_shape[-1], seed=0)
    compile_model(model, benchmark, variant)
    step, first_state = training_step(model)
    return step, first_state()


def answer_of(program: Any) -> dict[str, Any]:
    """Return what the compiler says of an optimised program."""
    found = program.memory_analysis()
    memory = {
        kind: getattr(found, f"{field}_size_in_bytes")
        for kind, field in (
            ("arguments", "argument"),
            ("outputs", "output"),
            ("aliased", "alias"),
            ("temporaries", "temp"),
            ("code", "generated_code"),
        )
    }
    return {
        "memory": memory,
        "peak_bytes": getattr(found, "peak_memory_in_bytes", None),
        "text": program.as_text(),
    }
