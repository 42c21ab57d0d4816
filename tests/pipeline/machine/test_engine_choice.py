"""Float16 avoids the kernels of a CPU that fall back to reference code."""

import os

import pytest
from conftest import ENGINE

from pipeline.machine.engine_choice import SWITCH, choose_engine, kernels_for


@pytest.mark.parametrize(
    ("policies", "features", "expected"),
    [
        (["mixed_float16"], ["avx512_fp16"], "own"),
        (["float32", "float16"], ["avx2", "avx512_fp16"], "own"),
        (["float32", "mixed_bfloat16"], ["avx512_fp16"], "usual"),
        (["mixed_float16"], ["avx2", "avx512_bf16"], "usual"),
    ],
)
def test_float16_uses_tensorflows_own_kernels_where_onednns_would_fall_back(monkeypatch, policies, features, expected):
    monkeypatch.setattr("pipeline.machine.engine_choice.cpu_features", lambda: features)
    assert kernels_for(policies) == expected


@pytest.mark.parametrize(("policy", "expected"), [("mixed_float16", "0"), ("float32", None)])
@pytest.mark.parametrize("left", ["0", "1"])
def test_a_switch_left_in_the_users_shell_changes_no_kernels(monkeypatch, policy, expected, left):
    monkeypatch.setenv("KERAS_BACKEND", ENGINE)
    monkeypatch.setenv(SWITCH, left)
    monkeypatch.setattr("pipeline.machine.engine_choice.cpu_features", lambda: ["avx512_fp16"])
    choose_engine([policy], ENGINE)
    assert os.environ.get(SWITCH) == expected
