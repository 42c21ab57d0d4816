"""Compile the project's own training step for a TPU v5e or an H100 that is not here; print its products as JSON.

`.compilers/bin/python tests/compilers/lower.py tpu-v5e mixed_bfloat16`. The Python is one with the packages of
requirements.txt beside this file; it needs no accelerator and no driver.
"""

import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path

# Ask no device: no metadata server, no lock on a chip, no timing of kernels.
os.environ |= {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}
REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

import jax  # noqa: E402
from jax.experimental import topologies  # noqa: E402

from pipeline.engine.jax_steps import training_step  # noqa: E402
from pipeline.files import yaml_files  # noqa: E402
from pipeline.study.benchmark import Benchmark  # noqa: E402
from pipeline.study.variant import Variant  # noqa: E402
from pipeline.training.building import build_model, compile_model  # noqa: E402

# XLA's description of an H100 80GB HBM3; its own repository has these numbers.
H100 = """\
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800
  clock_rate_ghz: 1.98 device_memory_size: 84942979072 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64 device_address_bits: 64
  device_vendor: "NVIDIA Corporation" platform_version: "Compute Capability 9.0a" ecc_enabled: true
  name: "NVIDIA H100 80GB HBM3" driver_version: "13.0.0"
  runtime_version: "%(cuda)s" compile_time_toolkit_version: "%(cuda)s" dnn_version: "%(cudnn)s"
}
platform_name: "CUDA"
dnn_version_info { major: %(major)s minor: %(minor)s patch: %(patch)s }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
# %name = f32[8,4]{1,0} opcode(%a, %b), attributes; a library's call gives a tuple, with a workspace.
INSTRUCTION = re.compile(r"%?([\w.-]+) = \(?([a-z]+\d+)\[.*? (dot|convolution|custom-call|[\w-]+)\((.*)")
OF_A_LIBRARY = re.compile(r'custom_call_target="__(?:cublas|cudnn)')


def device_of(target: str) -> object:
    if target == "tpu-v5e":
        return topologies.get_topology_desc("v5e:2x2", "tpu").devices[0]
    cuda = ".".join(importlib.metadata.version("nvidia-cuda-runtime-cu12").split(".")[:2]) + ".0"
    major, minor, patch, *_ = importlib.metadata.version("nvidia-cudnn-cu12").split(".")
    words = {"cuda": cuda, "cudnn": f"{major}.{minor}.{patch}", "major": major, "minor": minor, "patch": patch}
    return topologies.get_topology_desc(platform="cuda", target_config=H100 % words, topology="1x1x1").devices[0]


def compile_step(target: str, policy: str) -> object:
    """Compile a step of the dense network of the sources, at the highest precision that its policy allows."""
    jax.config.update("jax_default_matmul_precision", "highest")
    values = yaml_files.load(REPOSITORY / "conf" / "base.yaml")["benchmarks"]["mnist_dense"]
    benchmark = Benchmark.model_validate(values)
    variant = Variant.model_validate({"policy": policy, "batch_multiplier": 1, "xla": True})
    model, _ = build_model(benchmark, policy, 10, 1, seed=0)
    compile_model(model, benchmark, variant)
    step, first_state = training_step(model)
    sharding = jax.sharding.SingleDeviceSharding(device_of(target))

    def shape(of: tuple[int, ...], dtype: object) -> object:
        return jax.ShapeDtypeStruct(of, dtype, sharding=sharding)

    state = jax.tree.map(lambda value: shape(value.shape, value.dtype), first_state())
    return step.lower(state, shape((8192, 28, 28, 1), "uint8"), shape((8192,), "int32")).compile()


def products(program: object) -> list[list[str]]:
    """Return the operands' types of each matrix product in the optimised program, as in ["bf16", "bf16"]."""
    found = []
    dtypes: dict[str, str] = {}  # by name; a computation's names are its own
    for line in program.as_text().splitlines():
        if line.endswith("{"):
            dtypes = {}
        if instruction := INSTRUCTION.search(line):
            name, dtypes[name], opcode, operands = instruction.groups()
            if opcode in ("dot", "convolution") or (opcode == "custom-call" and OF_A_LIBRARY.search(line)):
                found.append([dtypes[each] for each in re.findall(r"%([\w.-]+)", operands)[:2]])
    return found


if __name__ == "__main__":
    print(json.dumps(products(compile_step(*sys.argv[1:]))))
