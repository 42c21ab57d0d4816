"""List the precision policies and the number formats in which they multiply. Nothing here needs an engine.

The identity of a run holds the row of the run's policy, without colour and label, in place of this file. So a change of
a colour retrains nothing.

Sources: NVIDIA's table of compute capabilities (CUDA C++ Programming Guide, tensor core data types), Google's TPU
documentation (matrix units take bfloat16), Intel's and AMD's instruction set references (AMX-BF16, AMX-FP16,
AVX512-BF16, AVX512-FP16).
"""

from typing import Any, NamedTuple


class Format(NamedTuple):
    """Describe a number format: the dtype of tensors in this format, and the hardware that multiplies in the format.

    An NVIDIA GPU needs a compute capability of at least `min_compute_capability`. A CPU needs one of `cpu_features`. If
    `cpu_features` is None, no CPU multiplies in the format; if `cpu_features` is empty, every CPU does. All other
    hardware computes with wider numbers.
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
    """Choose the format in which a model multiplies, and the dtype of the model's variables.

    Args:
        products: the format, one of `FORMATS`, in which factors are multiplied.
        variables: the dtype of the variables.
        keras: the name of the Keras policy under which the model is built. If None, `OwnPolicy` of
            `pipeline.training.building` takes the place of a Keras policy.
        colour: the policy's colour in charts, from Okabe & Ito's palette plus a violet. Colour-blind readers can tell
            these colours apart.
        label: the policy's name in reports.
        layers: the kinds of layers, named as in `keras.layers`, that can compute in `products`. Keras converts these
            layers after the model is built; all other layers follow the policy `keras`. If empty, all layers can
            compute in `products`.
    """

    products: str
    variables: str
    keras: str | None
    colour: str
    label: str
    layers: tuple[str, ...] = ()

    @property
    def keeps_float32(self) -> bool:
        """Return whether the variables are float32. Policies with 16-bit variables are experiments."""
        return self.variables == "float32"

    @property
    def is_narrow(self) -> bool:
        """Return whether tensors have fewer bits than float32."""
        return FORMATS[self.products].dtype != "float32"

    @property
    def that_decides(self) -> dict[str, Any]:
        """Return the fields that affect the result of a run, with values of JSON's types."""
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
