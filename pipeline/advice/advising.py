"""From the speeds of variants and the health of their model to advice."""

from collections.abc import Iterator, Sequence
from statistics import median

from pipeline.advice.proposal import ASSUMED_SPREAD_PP
from pipeline.advice.schema import Advice, Row
from pipeline.claims.acceleration import device_of, speed
from pipeline.comparison.wording import count_seeds, describe_ratio
from pipeline.health.findings import MAX_LAYERS_NAMED, Examination, Finding
from pipeline.machine.hardware import Hardware
from pipeline.speed.estimates import Speeds
from pipeline.speed.turns import Measurement
from pipeline.study.benchmark import Benchmark
from pipeline.study.schema import Study
from pipeline.study.variant import Variant

# Most models overflow once or twice before the start scale of 2^15 has been halved often enough; more is worth a word.
USUAL_SKIPPED_STEPS = 2
MAX_OTHER_CPU_SHARE = 0.25
HOPELESS = 3.0  # times the seconds of the baseline: not worth the seeds of a study


def worth_a_study(study: Study, speeds: Speeds) -> list[str]:
    """Return the policies that neither failed nor were hopelessly slow at batch B."""
    return [
        variant.policy
        for name, variant in study.variants.items()
        if variant.batch_multiplier == 1
        and (name == speeds.baseline or (speeds.speedup(speeds.baseline, name).ratio or 0.0) > 1 / HOPELESS)
    ]


def advise(
    study: Study,
    proposed: Study,
    measurement: Measurement,
    speeds: Speeds,
    health: Sequence[Examination],
    hardware: Hardware,
    largest_batches: dict[str, int | None],
) -> Advice:
    """Return what `measurement` and `health` say of the one benchmark of `study`, as data and in words.

    Args:
        speeds: what the measurement gives.
        proposed: the study that would answer the rest.
        largest_batches: by policy, where they were measured.
    """
    ((name, benchmark),) = study.benchmarks.items()
    rows = [_row(variant, study.variants[variant], benchmark, speeds, largest_batches) for variant in study.variants]
    faulty = {seen.policy: [f for f in seen.findings if f.severity == "fault"] for seen in health}
    usable = [row for row in rows if row.outcome == "completed" and not faulty.get(row.policy)]
    same_batch = [row for row in usable if row.batch_size == benchmark.batch_size and row.policy != "float32"]
    best = max(same_batch, key=lambda row: row.speedup.ratio or 0.0, default=None)
    gains = best is not None and (best.speedup.low or 0.0) > 1
    policy = best.policy if best and gains else "float32"
    doubled, batch_sentence = _doubling(policy, rows, speeds)
    batch_size = benchmark.batch_size * (2 if doubled else 1)
    margin_pp = study.comparison.margin_pp[name]
    rates = [row.images_per_second for row in rows if row.variant in proposed.variants]
    images = benchmark.split.num_train_examples * benchmark.num_epochs * len(proposed.seeds)
    accuracy_sentence = (
        f"Whether the accuracy stays the same these seconds can't tell: a study within ±{margin_pp:g} pp takes "
        f"{count_seeds(len(proposed.seeds))} of every variant, if accuracies vary by {ASSUMED_SPREAD_PP:g} pp from "
        "seed to seed: a guess."
    )
    return Advice(
        benchmark=name,
        device=f"{hardware.name} ({device_of(hardware).name})",
        policy=policy,
        batch_size=batch_size,
        verdict=[
            _policy_sentence(best, [row for row in rows if row.policy != "float32"], len(same_batch)),
            batch_sentence,
            *([accuracy_sentence] if any(each.policy != "float32" for each in proposed.variants.values()) else []),
        ],
        watch=[*_watch(study, rows, measurement, speeds, health, hardware)],
        num_seeds=len(proposed.seeds),
        study_seconds=None if None in rates else sum(images / rate for rate in rates if rate),
        rows=rows,
        health=list(health),
        num_turns_by_launch=speeds.num_turns,
        half_width=speeds.half_width(),
        blocks=measurement.blocks,
    )


def _row(
    name: str, variant: Variant, benchmark: Benchmark, speeds: Speeds, largest_batches: dict[str, int | None]
) -> Row:
    last, first = speeds.blocks[name][-1], speeds.blocks[speeds.baseline][-1]
    memory = None
    if last.outcome == "completed" and last.peak_memory_bytes and first.peak_memory_bytes:
        memory = last.peak_memory_bytes / first.peak_memory_bytes
    rates = [block.num_images / block.wall_seconds for block in speeds.blocks[name] if block.wall_seconds]
    return Row(
        variant=name,
        policy=variant.policy,
        batch_size=benchmark.batch_size * variant.batch_multiplier,
        outcome=last.outcome,
        images_per_second=median(rates) if last.outcome == "completed" else None,
        speedup=speeds.speedup(speeds.baseline, name),
        peak_memory_bytes=last.peak_memory_bytes,
        peak_memory_kind=last.peak_memory_kind,
        memory_ratio=memory,
        skipped_steps=max(block.num_skipped_steps for block in speeds.blocks[name]),
        largest_batch=largest_batches.get(variant.policy),
    )


def _policy_sentence(best: Row | None, candidates: Sequence[Row], num_usable: int) -> str:
    if best is None:
        ended = {row.variant: row.outcome.replace("_", " ") for row in candidates}
        why = ", ".join(f"{name}: {'ran, with a fault' if how == 'completed' else how}" for name, how in ended.items())
        return f"Stay with float32: no 16-bit policy is fit for this model as it is ({why}); see what to watch."
    ratio = best.speedup
    what = f"{best.policy} runs at {describe_ratio(ratio)} the speed of float32 at batch {best.batch_size}"
    if ratio.low is None or ratio.high is None:
        return f"Stay with float32 until more is known: {what}."
    if ratio.low > 1:
        return f"Use {best.policy}: {what}."
    if ratio.high < 1:
        fastest = ", and it is the faster of the 16-bit policies" if num_usable > 1 else ""
        return f"Stay with float32: {what}{fastest}."
    return f"Stay with float32: no gain is shown, {what}."


def _doubling(policy: str, rows: Sequence[Row], speeds: Speeds) -> tuple[bool, str]:
    """Say whether twice the batch is faster under `policy`, and in which words."""
    single, double = (row for row in rows if row.policy == policy)
    batches = f"batch {double.batch_size} rather than {single.batch_size}"
    if double.outcome != "completed":
        ended = {"out_of_memory": "does not fit into memory", "diverged": "gave a loss that is not finite"}
        return False, f"Keep batch {single.batch_size}: under {policy}, {double.batch_size} {ended[double.outcome]}."
    ratio = speeds.speedup(single.variant, double.variant)
    what = f"{batches} gives {describe_ratio(ratio)} the speed under {policy}"
    if ratio.low is not None and ratio.low > 1:
        return (
            True,
            f"Twice the batch is faster: {what}. It may cost accuracy, which is the batch's doing and no policy's.",
        )
    word = "is slower" if ratio.high is not None and ratio.high < 1 else "brings no gain that shows"
    return False, f"Keep batch {single.batch_size}: twice the batch {word}, {what}."


def _watch(
    study: Study,
    rows: Sequence[Row],
    measurement: Measurement,
    speeds: Speeds,
    health: Sequence[Examination],
    hardware: Hardware,
) -> Iterator[str]:
    for row in rows:
        if row.outcome != "completed":
            yield f"{row.variant}: {row.outcome.replace('_', ' ')} at batch {row.batch_size}."
        if row.skipped_steps > USUAL_SKIPPED_STEPS:
            scale = speeds.blocks[row.variant][-1].loss_scale or 1.0
            yield (
                f"{row.variant}: gradients overflowed in {row.skipped_steps} steps of one process, which were skipped, "
                f"until the loss scale was {scale:g}. That happens at the start; it must not go on."
            )
    for policy in {variant.policy: None for variant in study.variants.values()}:
        if speed(policy, False, hardware) == "emulated":
            yield f"This device emulates {policy.removeprefix('mixed_')}: a gain of speed is not to be expected of it."
    yield from (_describe(seen.policy, finding) for seen in health for finding in seen.findings)
    if (other := speeds.other_cpu_share or 0.0) > MAX_OTHER_CPU_SHARE:
        yield f"Other work took {other:.0%} of the CPU time: ask again on a quiet machine."
    if any(row.peak_memory_kind == "resident_set" for row in rows):
        yield "Memory is that of the whole process, engine and data included; a largest batch is not measured on a CPU."
    slow = [row.variant for row in rows if row.outcome == "completed" and (row.speedup.ratio or 1.0) <= 1 / HOPELESS]
    if slow:
        yield f"No place in the study for what takes {HOPELESS:g} times as long: {', '.join(slow)}."
    launches = f"{len(speeds.num_turns)} launches of {median(speeds.num_turns):.0f} turns"
    yield f"Intervals are 95 % each, over {launches}; the fastest of several looks a little too fast."
    yield f"The measurement ended after {measurement.spent_seconds:.0f} s: {measurement.ended_because}."


def _describe(policy: str, finding: Finding) -> str:
    named = ", ".join(finding.layers[:MAX_LAYERS_NAMED])
    more = f" and {len(finding.layers) - MAX_LAYERS_NAMED} more" if len(finding.layers) > MAX_LAYERS_NAMED else ""
    where = f", {named}{more}" if named else ""
    return f"{finding.severity} under {policy}{where}: {finding.what}. {finding.remedy}"
