"""Compile a variant's training step for an H100, where there is none: python compile_step.py STUDY BENCHMARK VARIANT.

Prints the compiler's bytes and the dtypes of convolutions as JSON. XLA can tune nothing without the GPU.
"""

import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

os.environ |= {
    "JAX_PLATFORMS": "cpu",
    "KERAS_BACKEND": "jax",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
}

from pipeline import engine
from pipeline.study.schema import load_study
from pipeline.training import building

# isort: split
import jax
import numpy as np
from jax.experimental import topologies

# From NVIDIA's data sheet and programming guide: an H100 SXM, 80 GB.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 minor: 0 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472
  l2_cache_size: 52428800
  memory_bandwidth: 3352320000000
  device_memory_size: 84942979072
  runtime_version: "12.9.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def main(path: str, benchmark_name: str, variant_name: str) -> None:
    study = load_study(Path(path))
    benchmark, variant = study.benchmarks[benchmark_name], study.variants[variant_name]
    engine.set_tf32(variant.tf32)
    model, _ = building.build_model(benchmark, variant.policy, num_classes=100, num_channels=3, seed=0)
    building.compile_model(model, benchmark, variant)
    batch_size = benchmark.batch_size * variant.batch_multiplier
    images, labels = np.zeros((batch_size, 32, 32, 3), np.uint8), np.zeros(batch_size, np.int64)
    model._symbolic_build(data_batch=(images, labels))
    state = tuple(
        [variable.value for variable in part]
        for part in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    )
    gpu = topologies.get_topology_desc(platform="cuda", target_config=H100, topology="1x1x1").devices[0]
    there = jax.sharding.SingleDeviceSharding(gpu)
    shapes = jax.tree.map(
        lambda value: jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype), sharding=there),
        (state, (images, labels)),
    )
    started = time.perf_counter()
    compiled = jax.jit(model.train_step, donate_argnums=0).lower(*shapes).compile()
    seconds = time.perf_counter() - started
    memory, text = compiled.memory_analysis(), compiled.as_text()
    convolutions = re.findall(r"= \(?(\w+)\[[^\n]*custom_call_target=\"__cudnn\$conv\w*\"[^\n]*", text)
    print(
        json.dumps(
            {
                "temporary_bytes": memory.temp_size_in_bytes,
                "argument_bytes": memory.argument_size_in_bytes,
                "convolutions": Counter(convolutions),
                "highest": text.count("operand_precision={highest,highest}"),
                "seconds": round(seconds, 1),
            }
        )
    )
    if dump := os.environ.get("DUMP"):
        Path(dump).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
