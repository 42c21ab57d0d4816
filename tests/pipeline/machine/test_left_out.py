"""One profile for every machine: variants that an engine or its hardware has no use for are left out."""

import pytest
from studies import composed

from pipeline.errors import InputError
from pipeline.machine import left_out
from pipeline.machine.hardware import Hardware
from pipeline.study.schema import Study

H200, V100 = Hardware("nvidia_gpu", "H200", 9.0), Hardware("nvidia_gpu", "V100", 7.0)
CPU = Hardware("cpu", "Xeon", cpu_features=("avx2", "amx_bf16"))


@pytest.fixture(scope="module")
def paper() -> Study:
    return Study.model_validate(composed("profile=paper"))


@pytest.mark.parametrize(
    ("engine", "hardware", "names"),
    [
        ("cuda-jax", H200, {"mixed_float16_xla"}),
        ("cuda", H200, set()),
        ("cuda", V100, {"tf32", "tf32_2x", "mixed_bfloat16", "mixed_bfloat16_2x"}),
        ("tpu", Hardware("tpu", "TPU v5e"), {"float16"}),
        ("cpu", CPU, {"float16", "tf32", "tf32_2x"}),
    ],
)
def test_unsupported_or_emulated_variants_are_left_out(monkeypatch, paper, engine, hardware, names):
    monkeypatch.setattr(left_out, "installed_engine", lambda: engine)
    monkeypatch.setattr(left_out, "training_hardware", lambda: hardware)
    if "float16" in names:
        names = names - {"float16"} | {name for name in paper.variants if "mixed_float16" in name}
    found = left_out.left_out(paper)
    assert found.keys() == names
    assert not names & paper.without(found).variants.keys()


def test_an_unsupported_baseline_is_refused(monkeypatch, paper):
    monkeypatch.setattr(left_out, "installed_engine", lambda: "cuda-jax")
    monkeypatch.setattr(left_out, "training_hardware", lambda: V100)
    comparison = paper.comparison.model_copy(update={"baseline": "tf32"})
    with pytest.raises(InputError, match=r"comparison\.baseline: tf32 is left out here \(absent\)"):
        left_out.left_out(paper.model_copy(update={"comparison": comparison}))


def test_the_list_of_left_out_variants_is_stored_with_the_runs(monkeypatch, tmp_path, paper):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(left_out, "installed_engine", lambda: "cuda-jax")
    monkeypatch.setattr(left_out, "training_hardware", lambda: H200)
    assert left_out.read_left_out(paper) == {}
    left_out.write_left_out(paper, "mnist_dense")
    assert left_out.read_left_out(paper) == {"mixed_float16_xla": "by_xla"}
