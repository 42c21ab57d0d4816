"""The report's first screen: the recommendation, and the rows of the tables."""

import pytest
from comparisons import CPU, between, pair, run
from conftest import small_study

from pipeline.comparison.tables import Tables
from pipeline.machine.hardware import Hardware
from pipeline.records.blocks import REPEAT
from pipeline.report.first_screen import Cell, columns, variant_rows
from pipeline.report.peak import flops_of_step, share_of_peak
from pipeline.report.recommendation import recommend
from pipeline.statistics.intervals import Estimate
from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study
from pipeline.study.variant import Variant
from pipeline.words.sentences import Said, sentence

H200 = Hardware("nvidia_gpu", "NVIDIA H200", 9.0, 150 * 10**9)
BF16_CPU = Hardware("cpu", "Example CPU", cpu_features=("avx2", "avx512_bf16"))
BOTH = ("mixed_float16", "mixed_bfloat16")
ACCURATE = {"num_seeds": 5, "most_loss_pp": 0.3, "p_loss_within_margin": 0.01}
OPEN = {"num_seeds": 5, "most_loss_pp": 1.3, "num_seeds_needed": 12, "difference_pp": Estimate(-0.4, -1.3, 0.5)}
CONTROL = {"num_seeds": 5, "difference_pp": Estimate(-6.0, -7.0, -5.0)}
NO_SPEED = dict.fromkeys(("num_launches", "device", "device_kind")) | {"speedup": Estimate()}
NO_ACCURACY = {"num_seeds": 0, "outcome": None, "reason": "no_runs", "difference_pp": Estimate()}
NO_ACCURACY |= {"candidate_accuracy": None}


def study(*policies: str, tf32: bool = False) -> Study:
    """The small study of these policies at one batch and float32 at twice."""
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants |= {"tf32": {"policy": "tf32", "batch_multiplier": 1}} if tf32 else {}
    variants |= {name: {"policy": name, "batch_multiplier": 1} for name in policies}
    variants |= {"float32_2x": {"policy": "float32", "batch_multiplier": 2}}
    variants |= {"control": {"policy": "float32", "batch_multiplier": 1, "learning_rate_multiplier": 0.05}}
    made = small_study(variants={name: each | {"benchmarks": ["wide"]} for name, each in variants.items()} | {
        "float32": {"policy": "float32", "batch_multiplier": 1}
    })  # fmt: skip
    return made.model_copy(update={"comparison": made.comparison.model_copy(update={"must_differ": ["control"]})})


def found(hardware=BF16_CPU, baselines=("float32",), control=CONTROL, **cells: dict) -> Tables:
    """These cells of each policy beside each baseline, and of the control; a speedup is given by its ends."""
    rows = [
        pair(hardware, baseline=baseline, candidate=name, **of) for baseline in baselines for name, of in cells.items()
    ]
    again = pair(
        hardware, candidate=REPEAT, baseline_step_seconds=0.0214, **NO_ACCURACY | {"speedup": between(0.98, 1.02)}
    )
    planted = pair(hardware, candidate="control", **NO_SPEED | control)
    made = [run(name, seed, hardware) for name in ("float32", *cells) for seed in range(3)]
    return Tables(made, [*rows, again, planted])


def fast(low: float, high: float) -> dict:
    speedup = between(low, high)
    return {"speedup": speedup, "sitting": between(0.99 * speedup.value, 1.01 * speedup.value)}


def advised(*asked) -> list:
    said = recommend(*asked, "wide")
    assert all(map(sentence, said))
    return [each.code.removeprefix("advice.") for each in said]


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        ({"mixed_bfloat16": ACCURATE | fast(1.2, 1.6)}, ["use"]),
        ({"mixed_bfloat16": ACCURATE | fast(0.5, 0.7)}, ["slower", "accuracy.loss"]),
        ({"mixed_bfloat16": ACCURATE | fast(0.95, 1.6)}, ["open", "accuracy.loss"]),
        ({"mixed_float16": ACCURATE | fast(0.5, 0.7)}, ["no_arithmetic", "accuracy.loss"]),
        ({"mixed_bfloat16": ACCURATE | {"speedup": Estimate(1.5)}}, ["no_interval", "accuracy.loss"]),
        (
            {"mixed_float16": ACCURATE | fast(0.5, 0.7), "mixed_bfloat16": ACCURATE | fast(1.2, 1.6)},
            ["use", "others_slower", "accuracy.loss"],
        ),
        # Fast, and not known to lose little: too few seeds, an open question, failed runs.
        ({"mixed_bfloat16": ACCURATE | fast(1.2, 1.6) | {"num_seeds": 4}}, ["faster", "accuracy.loss"]),
        ({"mixed_bfloat16": OPEN | fast(1.2, 1.6)}, ["faster", "accuracy.loss"]),
        (
            {"mixed_bfloat16": ACCURATE | fast(1.2, 1.6) | {"num_failed_baseline": 1}},
            ["faster", "accuracy.runs_failed"],
        ),
        ({"mixed_bfloat16": fast(1.2, 1.6) | {"reason": "identical"}}, ["faster", "accuracy.identical"]),
        (
            {"mixed_bfloat16": fast(1.2, 1.6) | {"reason": "runs_failed", "num_failed_candidate": 1}},
            ["faster", "accuracy.runs_failed"],
        ),
        (
            {"mixed_float16": OPEN | fast(0.8, 2.2), "mixed_bfloat16": OPEN | fast(1.1, 1.3)},
            ["faster", "accuracy.loss"],
        ),
        # What a study can't say it doesn't mention.
        ({"mixed_bfloat16": fast(1.2, 1.6) | {"reason": "near_chance"}}, ["faster"]),
        ({"mixed_bfloat16": fast(1.2, 1.6) | NO_ACCURACY}, ["faster"]),
        ({"mixed_bfloat16": ACCURATE | NO_SPEED}, ["accuracy.loss"]),
        ({"float8": ACCURATE | fast(2.0, 3.0)}, ["use"]),
        ({"mixed_bfloat16": NO_SPEED | NO_ACCURACY}, []),
    ],
)
def test_the_advice_says_only_what_is_known(cells, codes):
    assert advised(study(*cells), found(**cells)) == codes


@pytest.mark.parametrize("control", [{"difference_pp": Estimate(-6.0, -13.0, 1.0)}, NO_ACCURACY])
def test_nothing_is_recommended_if_the_control_was_not_detected(control):
    tables = found(control=control, mixed_bfloat16=ACCURATE | fast(1.2, 1.6))
    assert advised(study("mixed_bfloat16"), tables) == ["faster", "accuracy.loss"]


def test_one_sentence_names_all_undecided_policies_and_the_seeds_that_would_decide():
    *_, said = recommend(study(*BOTH), found(mixed_float16=OPEN, mixed_bfloat16=OPEN | {"num_seeds_needed": 9}), "wide")
    assert sentence(said).endswith(
        "Whether mixed_float16 and mixed_bfloat16 lose less than 1 point is open; about 12 and 9 seeds would decide."
    )


def test_an_accurate_policy_is_preferred_to_a_faster_one_and_equals_are_recommended_together():
    accurate, other = ACCURATE | fast(1.2, 1.4), OPEN | fast(1.8, 2.2)
    (use, accuracy) = recommend(study(*BOTH), found(mixed_float16=other, mixed_bfloat16=accurate), "wide")
    assert (use.code, use.numbers["candidates"]) == ("advice.use", ["mixed_bfloat16"])
    assert (use.numbers["default"], use.numbers["is_default"]) == ("float32", False)
    assert [each["candidate"] for each in accuracy.numbers["losses"]] == ["mixed_float16"]
    near, far = ACCURATE | fast(1.21, 1.41), ACCURATE | fast(1.01, 1.4)
    (both,) = recommend(study(*BOTH), found(mixed_float16=near, mixed_bfloat16=accurate), "wide")
    assert both.numbers["candidates"] == ["mixed_float16", "mixed_bfloat16"]
    assert [both.numbers[name] for name in ("least", "most")] == pytest.approx([1.296, 1.306], abs=0.001)
    (one, _) = recommend(study(*BOTH), found(mixed_float16=far, mixed_bfloat16=accurate), "wide")
    assert one.numbers["candidates"] == ["mixed_bfloat16"]


def test_every_policy_has_its_own_colour():
    assert len({policy.colour for policy in POLICIES.values()}) == len(POLICIES)


@pytest.mark.parametrize(
    "variant",
    [
        {"policy": "bfloat16", "batch_multiplier": 1},  # it keeps its variables in 16 bits
        {"policy": "mixed_bfloat16", "batch_multiplier": 2},
        {"policy": "mixed_bfloat16", "batch_multiplier": 1, "loop": "custom"},
    ],
)
def test_only_variants_that_differ_in_policy_alone_are_recommended(variant):
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}, "other": variant}
    assert advised(small_study(variants=variants), found(other=ACCURATE | fast(1.5, 2.0))) == []


def test_the_advice_gives_the_interval_of_the_fastest_policy():
    said, *_ = recommend(study(*BOTH), found(mixed_float16=fast(0.9, 1.2), mixed_bfloat16=fast(0.95, 1.3)), "wide")
    assert (said.code, said.numbers["candidates"][0]) == ("advice.open", "mixed_bfloat16")
    assert (said.numbers["fastest"].low, said.numbers["fastest"].high) == (0.95, 1.3)


def test_the_report_says_what_to_do_when_other_work_spoils_the_speeds():
    busy = study("mixed_bfloat16")
    cells = ACCURATE | fast(1.2, 1.6)
    assert advised(busy, found(mixed_bfloat16=cells | {"other_cpu_share": 0.5})) == ["use", "busy"]
    assert advised(busy, found(mixed_bfloat16=cells | {"other_cpu_share": 0.2})) == ["use"]


def test_advice_and_rows_are_relative_to_tf32_on_a_gpu_that_has_it():
    """5.7 times as fast as strict float32 is 1.5 times as fast as TF32."""
    of_study = study(*BOTH, tf32=True)
    tables = found(H200, **{name: ACCURATE | fast(5.6, 5.8) for name in ("tf32", *BOTH)})
    tables.pairs.extend(pair(H200, baseline="tf32", candidate=name, **fast(1.4, 1.6)) for name in BOTH)
    (said,) = recommend(of_study, tables, "wide")
    assert (said.numbers["default"], said.numbers["is_default"]) == ("TF32", True)
    assert said.numbers["most"] == pytest.approx(1.5, abs=0.01)
    rows = variant_rows(of_study, tables, "wide")
    assert [row.words for row in rows[:4]] == ["float32", "TF32", *BOTH]
    assert {row.group for row in rows[:4]} == {"same"}
    assert [row.speed_beside_default.value is not None for row in rows[:4]] == [False, False, True, True]
    assert rows[2].speed.value == pytest.approx(5.7, abs=0.01)


def test_rows_are_grouped_by_batch_size_and_ordered_by_policy():
    variants = {
        "pure": {"policy": "float16", "batch_multiplier": 1},
        "custom": {"policy": "float32", "batch_multiplier": 1, "loop": "custom"},
        "mixed_2x": {"policy": "mixed_bfloat16", "batch_multiplier": 2},
        "float32_2x": {"policy": "float32", "batch_multiplier": 2},
        "mixed": {"policy": "mixed_bfloat16", "batch_multiplier": 1},
        "float32": {"policy": "float32", "batch_multiplier": 1},
    }
    rows = variant_rows(small_study(variants=variants), Tables([], []), "wide")
    assert [(row.name, row.group) for row in rows] == [
        ("float32", "same"),
        ("mixed", "same"),
        ("float32_2x", "other"),
        ("mixed_2x", "other"),
        ("custom", "further"),
        ("pure", "further"),
    ]
    assert not any(row.is_known for row in rows)


def test_a_row_shows_only_what_is_known():
    """A difference without an interval is left out; without turns, memory is the median of whole runs."""
    cells = fast(1.2, 1.6) | {"difference_pp": Estimate(-0.1), "num_seeds": 3}
    tables = found(mixed_bfloat16=cells | {"candidate_step_seconds": 0.01})
    runs = [
        run("mixed_bfloat16", seed, peak_memory_bytes=size, resumed=resumed, outcome=outcome)
        for seed, size, resumed, outcome in (
            (0, 3 * 2**20, False, "completed"),
            (1, 2 * 2**20, False, "completed"),
            (2, 2**10, True, "completed"),
            (3, 2**5, False, "diverged"),
        )
    ]
    baseline, row, *_ = variant_rows(study("mixed_bfloat16"), tables._replace(runs=runs), "wide")
    assert (baseline.step_seconds, row.step_seconds) == (0.0214, 0.01)
    assert row.cell("difference") == Cell()
    assert row.accuracy == 0.899  # over the seeds that the baseline completed too
    assert row.peak_bytes == Estimate(2.5 * 2**20, 2 * 2**20, 3 * 2**20)
    assert str(row.cell("memory")) == "3 (2 to 3)" or str(row.cell("memory")) == "2 (2 to 3)"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (NO_ACCURACY | fast(1.2, 1.6) | {"candidate_step_seconds": 0.01}, ["step", "speed"]),
        (NO_SPEED, ["accuracy", "difference"]),
        (NO_SPEED | NO_ACCURACY | {"candidate_peak_bytes": 2**20}, ["memory"]),
        (NO_SPEED | NO_ACCURACY, []),
    ],
)
def test_a_table_shows_only_columns_with_known_values(cells, shown):
    row = variant_rows(study("mixed_bfloat16"), found(mixed_bfloat16=cells)._replace(runs=[]), "wide")[1]
    assert (columns([row]), row.is_known) == (shown, bool(shown))


FAILED = {"diverged": 0, "out_of_memory": 0, "too_slow": 0, "num_runs": 3, "where": []}


@pytest.mark.parametrize(
    ("cells", "runs", "numbers"),
    [
        ({}, {}, {}),
        ({}, {"outcome": "too_slow"}, {"note.failed": FAILED | {"too_slow": 3}}),
        ({"num_seeds": 2}, {}, {"note.fewer_seeds": {"num_seeds": 2}}),
        (
            {},
            {"outcome": "diverged", "first_not_finite": "the output of attend"},
            {"note.failed": FAILED | {"diverged": 3, "where": ["the output of attend"]}},
        ),
        ({"candidate_fault": "too_slow"}, {}, {"note.not_timed": {"outcome": "too_slow"}}),
        ({}, {"kernels": "oneDNN"}, {"note.kernels": {"kernels": ["oneDNN"], "theirs": ["Eigen"]}}),
    ],
)
def test_notes_explain_what_the_numbers_of_a_row_do_not_show(cells, runs, numbers):
    made = [run("mixed_bfloat16", seed, **{"kernels": "Eigen"} | runs) for seed in range(3)]
    made += [run("float32", seed, kernels="Eigen") for seed in range(3)]
    row = variant_rows(study("mixed_bfloat16"), found(mixed_bfloat16=cells)._replace(runs=made), "wide")[1]
    assert {said.code: said.numbers for said in row.notes} == numbers
    assert bool(row.note) == bool(numbers)


def test_a_stopped_baseline_is_noted_and_no_memory_is_compared_with_it():
    asked = study("mixed_bfloat16")
    stopped = [run("float32", seed, outcome="too_slow", peak_memory_bytes=2**20) for seed in range(3)]
    made = [run("mixed_bfloat16", seed, peak_memory_bytes=2**21) for seed in range(3)]
    tables = found(mixed_bfloat16=NO_SPEED | NO_ACCURACY)._replace(runs=[*stopped, *made])
    baseline, _ = variant_rows(asked, tables, "wide")[:2]
    assert [said.code for said in baseline.notes] == ["note.failed"]
    assert baseline.peak_bytes == Estimate()
    assert advised(asked, tables) == []
    made = [each.__class__(**vars(each) | {"outcome": "completed"}) for each in stopped] + made
    assert advised(asked, tables._replace(runs=made)) == ["memory"]
    by_chance = [run("control", seed, peak_memory_bytes=2**21 + 1) for seed in range(3)]  # of the baseline's network
    assert advised(asked, tables._replace(runs=[*made, *by_chance])) == []


def test_the_advice_says_so_if_all_seeds_start_from_the_same_weights():
    asked, tables = study("mixed_bfloat16"), found(mixed_bfloat16=ACCURATE | fast(1.2, 1.6))
    for digests, more in ((["a", "b", "c"], []), (["a", "a", "a"], ["same_start"])):
        for row in tables.runs:
            row.initial_weights_sha256 = digests[row.seed]
        assert advised(asked, tables) == ["use", *more]


def test_a_control_is_noted_with_the_variant_that_is_timed_for_it():
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants["slow"] = variants["float32"] | {"learning_rate_multiplier": 0.5}
    settings = small_study().comparison.model_copy(update={"must_differ": ["slow"]})
    asked = small_study(variants=variants).model_copy(update={"comparison": settings})
    row = variant_rows(asked, found(slow={}), "wide")[1]
    assert row.notes == [Said("note.control"), Said("note.timed_as", {"name": "float32"})]


@pytest.mark.parametrize(("capability", "is_emulated"), [(8.0, True), (8.9, False)])
def test_an_emulated_format_is_noted(capability, is_emulated):
    tables = found(Hardware("nvidia_gpu", "Example GPU", capability), float8=ACCURATE | fast(1.2, 1.6))
    row = next(row for row in variant_rows(study("float8"), tables, "wide") if row.name == "float8")
    assert row.notes == [Said("note.emulated")] * is_emulated


def test_the_share_of_peak_needs_a_known_operation_count_and_peak():
    """The notebooks' dense network at batch 8,192: 0.932 TFLOP a step. In 21.4 ms that is 65 % of 67 TFLOP/s."""
    of_study = small_study()
    dense = of_study.benchmarks["wide"].model_copy(update={"batch_size": 8192})
    dense = dense.model_copy(update={"model": dense.model.model_copy(update={"units": 4096})})
    float32 = Variant(policy="float32", batch_multiplier=1)
    assert flops_of_step(dense, float32) == pytest.approx(0.932e12, rel=0.001)
    timed = pair(H200)
    assert share_of_peak(dense, float32, timed, 0.0214) == pytest.approx(0.65, abs=0.005)
    tf32 = float32.model_copy(update={"policy": "tf32"})
    assert share_of_peak(dense, tf32, timed, 0.00567) == pytest.approx(0.332, abs=0.005)
    assert share_of_peak(dense, float32, pair(CPU), 0.0214) is None
    assert share_of_peak(dense, float32, timed, None) is None
    assert share_of_peak(dense.model_copy(update={"dataset": "cifar10"}), float32, timed, 0.1) is None


def test_the_advice_says_how_to_avoid_time_lost_in_returning_memory():
    cells = ACCURATE | fast(1.2, 1.6)
    (_, said) = recommend(
        study(*BOTH), found(mixed_float16=cells, mixed_bfloat16=cells | {"candidate_kernel_share": 0.6}), "wide"
    )
    assert (said.code, said.numbers["candidate"], said.numbers["most"]) == ("advice.kernel", "mixed_bfloat16", 2.5)
    tables = found(mixed_float16=cells, mixed_bfloat16=cells)
    tables.pairs.append(pair(candidate=REPEAT, candidate_kernel_share=0.6))
    assert recommend(study(*BOTH), tables, "wide")[-1].numbers["candidate"] == "float32"
    assert advised(study("mixed_bfloat16"), found(mixed_bfloat16=cells | {"candidate_kernel_share": 0.1})) == ["use"]
