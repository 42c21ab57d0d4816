"""What a step's time goes to: kinds of operations, and kernels by a log."""

import pytest

from pipeline.numerics.step_profile import kind_of, slowest_kernels


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ("net/conv2d_1/BiasAdd:_MklNativeFusedConv2D", "convolution"),
        ("gradient_tape/net/conv2d/convolution/Conv2DBackpropInput:Conv2DBackpropInput", "convolution"),
        ("net/depthwise/depthwise:_MklNativeDepthwiseConv2dNative", "depthwise convolution"),
        ("net/dense/Relu:_MklNativeFusedMatMul", "matrix product"),
        ("net/batch_normalization/FusedBatchNormV3:_MklNativeFusedBatchNormV3", "batch norm"),
        ("net/dense/Cast:Cast", "cast"),
        ("adam/Mul_403:Mul", "optimizer and loss scale"),
        ("cond/then/_0/cond/adam/truediv:RealDiv", "optimizer and loss scale"),
        ("IsFinite_3:IsFinite", "optimizer and loss scale"),
        ("net/madam/Mul:Mul", "rest"),
        ("cond:If", None),  # its operations have events of their own
        ("ExecutorState::Process", None),
        ("EagerLocalExecute: __inference_one_step_on_data_1", None),
        ("train", None),
    ],
)
def test_an_operation_has_the_kind_of_its_type_or_scope(event, kind):
    assert kind_of(event, {"adam", "cond"}) == kind


LOG = """\
onednn_verbose,v1,info,oneDNN v3.7.3 (commit N/A)
onednn_verbose,v1,primitive,exec,cpu,convolution,jit_dw:avx512_core,forward_training,src:f32,,alg:direct,g32mb48_ic32oc32_kh3,2.5
onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv:avx512_core,backward_data,src:f32,,alg:direct,mb48_ic3oc32_kh3,1.5
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_weights,src:f32,,alg:direct,mb48_ic3oc32_kh3,1.0
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_weights,src:f32,,alg:direct,mb48_ic3oc32_kh3,1.0
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src:f32,,,8x2:2x4,0.5
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32,,,8x2,9.5
something that a model prints
"""


def test_the_kernel_of_a_kind_is_the_one_that_takes_most_of_its_time():
    assert slowest_kernels(LOG) == {
        "depthwise convolution": "jit_dw:avx512_core (forward training)",
        "convolution": "jit:avx512_core (backward weights)",
        "matrix product": "brg_matmul:avx512_core",
    }
