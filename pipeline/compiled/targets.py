"""The hardware that is compiled for, and how its compiler is told of it. It needs no engine."""

from typing import Literal, NamedTuple

from pipeline.errors import InputError

Kind = Literal["tpu", "gpu"]
CompiledPrecision = Literal["float32", "float32_default", "mixed_float16", "mixed_bfloat16", "float8"]
GIB = 2**30


class Gpu(NamedTuple):
    """Describe a GPU as XLA wants it; XLA's own repository has these numbers for each of them.

    Sizes are in bytes, clocks in GHz, and per core means per streaming multiprocessor.
    """

    name: str
    compute_capability: tuple[int, int]
    core_count: int
    fpus_per_core: int
    memory_bandwidth: int
    l2_cache_size: int
    clock_rate_ghz: float
    device_memory_size: int
    shared_memory_per_core: int
    shared_memory_per_block_optin: int


class Target(NamedTuple):
    """A device to compile for.

    `memory_bytes` is the memory of one device as JAX counts them: of a TPU v3, that is one core of a chip's two.
    """

    name: str
    title: str
    kind: Kind
    memory_bytes: int
    topology: str
    gpu: Gpu | None = None

    @property
    def has_tf32(self) -> bool:
        return self.gpu is not None and self.gpu.compute_capability >= (8, 0)

    @property
    def precisions(self) -> tuple[CompiledPrecision, ...]:
        """Return the precisions that a step is compiled in: those of float32, of 16 bits and of 8."""
        if self.gpu is None:
            return ("float32", "float32_default", "mixed_bfloat16")
        if not self.has_tf32:
            return ("float32", "mixed_float16", "mixed_bfloat16")
        in_8_bits: tuple[CompiledPrecision, ...] = ("float8",) if self.gpu.compute_capability >= (8, 9) else ()
        return ("float32", "float32_default", "mixed_float16", "mixed_bfloat16", *in_8_bits)

    def description(self, versions: dict[str, str]) -> str:
        """Return the text by which the compiler knows this target."""
        return self.topology if self.gpu is None else _text_proto(self.gpu, versions)


def _gpu(name: str, title: str, gpu: Gpu) -> Target:
    return Target(name, title, "gpu", gpu.device_memory_size, "1x1x1", gpu)


_V100 = Gpu("Tesla V100-SXM2-16GB", (7, 0), 80, 64, 898_048_000_000, 6_291_456, 1.53, 16_935_682_048, 98_304, 98_304)
_A100 = Gpu(
    "NVIDIA A100-SXM4-40GB", (8, 0), 108, 64, 1_555_200_000_000, 41_943_040, 1.41, 42_331_013_120, 167_936, 166_912
)
_H100 = Gpu(
    "NVIDIA H100 80GB HBM3", (9, 0), 132, 128, 3_352_320_000_000, 52_428_800, 1.98, 84_942_979_072, 233_472, 232_448
)
_H200 = _H100._replace(
    name="NVIDIA H200 141GB HBM3e", memory_bandwidth=4_800_000_000_000, device_memory_size=151_397_597_184
)
_B200 = Gpu("NVIDIA B200", (10, 0), 148, 128, 7_672_320_000_000, 132_644_864, 1.965, 191_514_411_008, 233_472, 232_448)
_TARGETS = (
    Target("tpu-v3", "TPU v3 (one core)", "tpu", 16 * GIB, "v3:2x2"),
    Target("tpu-v4", "TPU v4", "tpu", 32 * GIB, "v4:2x2x1"),
    Target("tpu-v5e", "TPU v5e", "tpu", 16 * GIB, "v5e:2x2"),
    Target("tpu-v5p", "TPU v5p", "tpu", 95 * GIB, "v5p:2x2x1"),
    Target("tpu-v6e", "TPU v6e", "tpu", 32 * GIB, "v6e:2x2"),
    _gpu("v100-16gb", "NVIDIA V100, 16 GB", _V100),
    _gpu("a100-40gb", "NVIDIA A100, 40 GB", _A100),
    _gpu("h100", "NVIDIA H100, 80 GB", _H100),
    _gpu("h200", "NVIDIA H200, 141 GB", _H200),
    _gpu("b200", "NVIDIA B200, 180 GB", _B200),
)
TARGETS = {target.name: target for target in _TARGETS}


def find_target(name: str) -> Target:
    """Return the target of this name.

    Raises:
        InputError: there is none; the text lists those that there are.
    """
    if name not in TARGETS:
        raise InputError(f"TARGET: must be one of {', '.join(TARGETS)}. Received: {name!r}")
    return TARGETS[name]


def _text_proto(gpu: Gpu, versions: dict[str, str]) -> str:
    """Return XLA's `GpuTargetConfigProto` as text, with the versions of CUDA and cuDNN that are installed."""
    major, minor = gpu.compute_capability
    cuda = ".".join(versions["nvidia-cuda-runtime-cu12"].split(".")[:2]) + ".0"
    cudnn = versions["nvidia-cudnn-cu12"].split(".")[:3]
    accelerated = "  feature_extension: ACCELERATED_FEATURES" if major >= 9 else ""
    fields = {
        "threads_per_block_limit": 1024,
        "threads_per_warp": 32,
        "shared_memory_per_block": 49_152,
        "threads_per_core_limit": 2048,
        "block_dim_limit_x": 2**31 - 1,
        "block_dim_limit_y": 65_535,
        "block_dim_limit_z": 65_535,
        "registers_per_core_limit": 65_536,
        "registers_per_block_limit": 65_536,
        "thread_dim_limit_x": 1024,
        "thread_dim_limit_y": 1024,
        "thread_dim_limit_z": 64,
        "device_address_bits": 64,
        **{name: value for name, value in gpu._asdict().items() if name not in ("name", "compute_capability")},
    }
    lines = [f"  {name}: {value}" for name, value in fields.items()]
    return "\n".join(
        [
            "gpu_device_info {",
            *lines,
            f"  cuda_compute_capability {{ major: {major} minor: {minor}{accelerated} }}",
            '  device_vendor: "NVIDIA Corporation"',
            f'  platform_version: "Compute Capability {major}.{minor}{"a" if accelerated else ""}"',
            "  ecc_enabled: true",
            f'  name: "{gpu.name}"',
            '  driver_version: "13.0.0"',
            f'  runtime_version: "{cuda}"',
            f'  compile_time_toolkit_version: "{cuda}"',
            f'  dnn_version: "{".".join(cudnn)}"',
            "}",
            'platform_name: "CUDA"',
            "dnn_version_info { "
            + " ".join(f"{n}: {v}" for n, v in zip(("major", "minor", "patch"), cudnn, strict=True))
            + " }",
            f'device_description_str: "{gpu.name}"',
            "",
        ]
    )
