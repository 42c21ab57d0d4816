"""The fold of the report on what a step's time goes to."""

import csv
import shutil
from pathlib import Path

import pytest

from pipeline.records.step_profile import STEP_PROFILE, ProfiledKind
from pipeline.report.reporting import parts, step_profile
from pipeline.report.results import load_results


@pytest.fixture
def study(rendered, tmp_path) -> Path:
    return Path(shutil.copytree(rendered, tmp_path / "study", symlinks=True))


def write(study: Path, *rows: tuple[str, str, float, str | None]) -> None:
    """A profile of the benchmark `wide`: policy, kind, milliseconds and kernel."""
    with (study / STEP_PROFILE).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ProfiledKind.model_fields))
        writer.writeheader()
        for policy, kind, milliseconds, kernel in rows:
            found = ProfiledKind(
                benchmark="wide",
                policy=policy,
                batch_size=16,
                kind=kind,
                milliseconds=milliseconds,
                share=0.25,
                kernel=kernel,
            )
            writer.writerow(found.model_dump())


def test_a_sentence_names_what_costs_the_most_extra_time_and_its_kernel(study):
    write(
        study,
        ("float32", "convolution", 50.0, "jit:avx512_core"),
        ("float32", "rest", 50.0, None),
        ("mixed_bfloat16", "convolution", 40.0, "jit:avx512_core_bf16"),
        ("mixed_bfloat16", "depthwise convolution", 180.0, "brgconv_strided:avx512_core_bf16 (backward data)"),
        ("mixed_bfloat16", "rest", 80.0, None),
    )
    results = load_results(study)
    assert step_profile(results, "wide")["sentences"] == [
        "Under mixed_bfloat16 the operations of a step take 300 ms, in float32 100 ms; most of the extra time is "
        "depthwise convolution: 180 ms beside 0 ms, most of it in oneDNN's brgconv_strided:avx512_core_bf16 "
        "(backward data)."
    ]
    html = parts(results)("measurements")
    assert "Why is it slow?" in html
    assert "<td>180.0 (25 %)<br><code>brgconv_strided:avx512_core_bf16 (backward data)</code></td>" in html
    assert html.count("Why is it slow?") == 1  # `narrow` has no rows
    link = 'href="#why-wide"><code>mixed_bfloat16</code> loses most time in depthwise convolution.'
    slow = {"ratio": 0.4, "low": 0.3, "high": 0.5}
    pairs = [
        pair.model_copy(update={"speedup": pair.speedup.model_copy(update=slow)}) for pair in results.comparison.pairs
    ]
    slower = results._replace(comparison=results.comparison.model_copy(update={"pairs": pairs}))
    assert link in parts(slower)("answer")
    assert link not in parts(results)("answer")


def test_a_policy_that_gains_says_by_what(study):
    write(
        study,
        ("float32", "matrix product", 90.0, None),
        ("mixed_bfloat16", "matrix product", 30.0, "brg_matmul:avx512_core_bf16"),
        ("mixed_bfloat16", "cast", 10.0, None),
    )
    (sentence,) = step_profile(load_results(study), "wide")["sentences"]
    assert "most is saved by matrix product: 30 ms beside 90 ms" in sentence
