"""Leave out variants that make no sense on this engine or hardware, and store the list of them with the runs."""

import json
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.places import PARAMS
from pipeline.files.writing import write_whole
from pipeline.machine.environment import installed_engine, training_hardware
from pipeline.study.engines import ENGINES
from pipeline.study.policies import POLICIES
from pipeline.study.schema import Study, load_study

LEFT_OUT = "left_out.json"  # in the folder of a benchmark's runs


def left_out(study: Study) -> dict[str, str]:
    """Return the variants of `study` that are left out on this machine, each with the reason.

    The reason is the key of a sentence in pipeline/words/sentences.yaml:

    - `by_xla`: JAX compiles all variants with XLA, so the setting `xla` changes nothing.
    - `absent`: the hardware lacks the arithmetic of a policy whose tensors are float32, such as TF32.
    - `emulated`: the hardware computes with wider numbers, and the study leaves out such variants.

    Raises:
        InputError: the baseline would be left out.
    """
    backend, hardware = ENGINES[installed_engine()].backend, training_hardware()
    found = {}
    for name, variant in study.variants.items():
        policy = POLICIES[variant.policy]
        if variant.xla and backend == "jax":
            found[name] = "by_xla"
        elif not hardware.multiplies(policy.products) and not policy.is_narrow:
            found[name] = "absent"
        elif not hardware.multiplies(policy.products) and study.leave_out_emulated:
            found[name] = "emulated"
    if (baseline := study.comparison.baseline) in found:
        raise InputError(
            f"{PARAMS}: comparison.baseline: {baseline} is left out here ({found[baseline]}). "
            "Choose a different baseline."
        )
    return found


def study_here() -> Study:
    """Return the study in this folder, without the variants that are left out on this machine."""
    study = load_study()
    return study.without(left_out(study))


def write_left_out(study: Study, benchmark: str) -> None:
    """Write the variants of the whole `study` that are left out here, with the reasons, next to `benchmark`'s runs."""
    folder = Path("runs", benchmark)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / LEFT_OUT, json.dumps(left_out(study), indent=1) + "\n")  # several jobs may write at once


def read_left_out(study: Study, root: Path = Path()) -> dict[str, str]:
    """Return the variants left out on the machine that made the runs under `root`, each with the reason.

    If that machine stored no such list, the dictionary is empty.
    """
    found: dict[str, str] = {}
    for benchmark in study.benchmarks:
        path = root / "runs" / benchmark / LEFT_OUT
        if path.is_file():
            found |= json.loads(path.read_bytes())
    return found


def study_as_made(root: Path = Path()) -> Study:
    """Return the study under `root`, without the variants left out on the machine that made its runs.

    The baseline always stays in the study.
    """
    study = load_study(root / PARAMS)
    return study.without(read_left_out(study, root).keys() - {study.comparison.baseline})
