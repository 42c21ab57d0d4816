"""List the precision policies and the number formats in which they multiply. Nothing here needs an engine.

A run's identity holds its policy's row, without colour and label, in place of this file. So a new colour retrains
nothing.

Sources: NVIDIA's table of compute capabilities (CUDA C++ Programming Guide, tensor core data types), Google's TPU
documentation (matrix units take bfloat16), Intel's and AMD's instruction set references (AMX-BF16, AMX-FP16,
AVX512-BF16, AVX512-FP16).
"""

from typing import Any, NamedTuple


class Format(NamedTuple):
    """Say in which dtype tensors hold a format, and which hardware multiplies in it.

    An NVIDIA GPU needs a compute capability of at least `min_compute_capability`. A CPU needs one of `cpu_features`. If
    they are None, no CPU multiplies in the format; if they are empty, every CPU does. Other hardware computes with
    wider numbers.
    """

    dtype: str
    min_compute_capability: float = 0.0
    cpu_features: tuple[str, ...] | None = None
    is_on_tpu: bool = False


FORMATS = {
    "float32": Format("float32", cpu_features=(), is_on_tpu=True),
    # float32 with the factors of products rounded: to TF32 on a GPU, to bfloat16 on a TPU.
    "tf32": Format("float32", 8.0, is_on_tpu=True),
    "float16": Format("float16", cpu_features=("amx_fp16", "avx512_fp16")),
    "bfloat16": Format("bfloat16", 8.0, ("amx_bf16", "avx512_bf16"), is_on_tpu=True),
    # e4m3 in the forward pass, e5m2 in the backward pass. Their scales follow the largest values of earlier steps.
    "float8": Format("float8", 8.9),
}


class Policy(NamedTuple):
    """Say how a model computes and how it keeps its variables.

    Args:
        products: the format, one of `FORMATS`, in which factors are multiplied.
        variables: the dtype of the variables.
        keras: Keras's policy, under which the model is built. If None, one is made from the two dtypes.
        colour: the policy's colour in charts, from Okabe & Ito's palette plus a violet. Colour-blind readers can tell
            these colours apart.
        label: what readers call the policy.
        layers: the kinds of layers, named as in `keras.layers`, that can compute in `products`. Keras converts these
            after the model is built; all others follow `keras`. If empty, all layers can.
    """

    products: str
    variables: str
    keras: str | None
    colour: str
    label: str
    layers: tuple[str, ...] = ()

    @property
    def keeps_float32(self) -> bool:
        """Return whether the variables are float32. Policies that round them to 16 bits are experiments."""
        return self.variables == "float32"

    @property
    def is_narrow(self) -> bool:
        """Return whether tensors have fewer bits than float32."""
        return FORMATS[self.products].dtype != "float32"

    @property
    def that_decides(self) -> dict[str, Any]:
        """Return the fields that decide what a run computes, ready for JSON."""
        fields = {name: value for name, value in self._asdict().items() if name not in ("colour", "label")}
        return fields | {"layers": [*self.layers]}


POLICIES = {
    "float32": Policy("float32", "float32", "float32", "#0072B2", "float32"),
    "tf32": Policy("tf32", "float32", "float32", "#6A3D9A", "TF32"),
    "float16": Policy("float16", "float16", "float16", "#CC79A7", "float16"),
    "bfloat16": Policy("bfloat16", "bfloat16", "bfloat16", "#E69F00", "bfloat16"),
    "mixed_float16": Policy("float16", "float32", "mixed_float16", "#D55E00", "mixed_float16"),
    "mixed_bfloat16": Policy("bfloat16", "float32", "mixed_bfloat16", "#009E73", "mixed_bfloat16"),
    "float8": Policy("float8", "float32", "mixed_bfloat16", "#56B4E9", "float8", ("Dense", "EinsumDense")),
}
