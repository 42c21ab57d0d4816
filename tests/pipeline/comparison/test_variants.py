"""A variant by itself, over its seeds."""

from conftest import epoch_records, planned_record, small_study, timed

from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare
from pipeline.statistics.intervals import proportion
from pipeline.study.schema import RunKey


def test_steps_skipped_after_the_first_epoch_are_counted_where_the_loss_scale_is_dynamic():
    """Skipped steps count from the start of a run: 3 by the end of the first of two epochs, 4 by that of the second."""
    variants = {"float32": {"policy": "float32", "batch_multiplier": 1}}
    variants |= {"mixed": {"policy": "mixed_float16", "batch_multiplier": 1}}
    study = small_study(variants=variants)
    runs = {}
    for key in study.runs():
        first, second = epoch_records(9.0, 1.0)
        epochs = [first.model_copy(update={"skipped_steps": 3}), second.model_copy(update={"skipped_steps": 4})]
        record = planned_record(key, study)
        runs[key] = Run(record, epochs)
    found = compare(study, runs, timed(study, {}))
    steps = runs[RunKey("wide", "mixed", study.seeds[0])].record.planned.steps_per_epoch
    num_seeds = len(study.seeds)
    assert found.variant("wide", "mixed").late_skips == proportion(num_seeds, num_seeds * steps)
    assert found.variant("wide", "float32").late_skips is None
