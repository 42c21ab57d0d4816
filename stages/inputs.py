"""Write down what decides each run of a benchmark, a file a run: where its file changes, DVC trains a run again.

A model that can't be trained is refused here, before anything is.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from pipeline.data.datasets import read_description
from pipeline.errors import InputError
from pipeline.files.code import digest
from pipeline.machine.engine_choice import choose_engine
from pipeline.study.benchmark import Imported
from pipeline.study.schema import RunKey, Study, load_study
from stages import run

INPUTS = Path("inputs")
# The fields of a study that decide every run, and the code that a run imports.
SETTINGS = {"campaign", "compilation_cache", "devices", "engine", "runtime", "tensorboard"}
CODE = (
    "pipeline/data/batches.py",
    "pipeline/data/datasets.py",
    "pipeline/engine",
    "pipeline/errors.py",
    "pipeline/files",
    "pipeline/machine",
    "pipeline/models/__init__.py",
    "pipeline/models/imported.py",
    "pipeline/records/schema.py",
    "pipeline/records/writing.py",
    "pipeline/study",
    "pipeline/training",
    "stages/__init__.py",
    "stages/train.py",
)


def main(arguments: argparse.Namespace) -> None:
    study, name = load_study(), arguments.benchmark
    if name not in study.benchmarks:
        raise InputError(f"--benchmark: must be one of {', '.join(study.benchmarks)}. Received: {name}")
    texts = describe(study, name)
    if not all(is_written(path, text) for path, text in texts.items()):
        check_model(study, name)  # which takes seconds, for nothing where a margin has changed
    shutil.rmtree(INPUTS / "runs" / name, ignore_errors=True)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def is_written(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def check_model(study: Study, name: str) -> None:
    """Raise `InputError` where the model of the benchmark `name` can't be trained."""
    benchmark = study.benchmarks[name]
    if isinstance(benchmark.model, Imported) or benchmark.optimizer.arguments:  # others can't be wrong
        choose_engine(study.engine, [variant.policy for variant in study.variants.values()])
        from pipeline.advice import fitness  # the engine takes seconds to import

        dataset = read_description(benchmark.dataset)
        fitness.check(study, name, dataset.image_shape, len(dataset.classes))


def describe(study: Study, name: str) -> dict[Path, str]:
    """Return the texts of the benchmark `name`, by file: for numerics, for its turns, for each run."""
    recipe = _recipe(study, name)
    everywhere = recipe | {
        "study": study.model_dump(mode="json", include=SETTINGS),
        "SHA-256 of code, comments and docstrings apart": {path: digest(Path(path)) for path in CODE},
        "SHA-256 of packages": {
            path: digest(Path(path)) for path in ("Dockerfile", f"requirements/{study.runtime}.txt")
        },
    }
    variants = {
        variant: varied.model_dump(mode="json", exclude={"benchmarks"})
        for variant, varied in study.variants_of(name).items()
    }
    files = {
        INPUTS / "benchmarks" / f"{name}.json": _about(f"recipe, data and model of {name}")
        | study.model_dump(mode="json", include={"engine", "numerics", "runtime"})
        | recipe,
        INPUTS / "speed" / f"{name}.json": _about(f"all that decides how fast {name} trains; a change measures it anew")
        | {"variants": variants}
        | everywhere,
    }
    for variant in study.variants:  # with what the study leaves out, because DVC's matrix is a full product
        for seed in study.seeds:
            key = RunKey(name, variant, seed)
            if why := study.why_left_out(key):
                said = _about(f"the study leaves {key.directory} out; it is trained once it no longer does")
                said |= {"left_out": why}
            else:
                said = _about(f"all that decides {key.directory}; a change trains it anew")
                said |= {"seed": seed, "variant": variants[variant]} | everywhere
            files[INPUTS / f"{key.directory}.json"] = said
    return {path: json.dumps(said, indent=2) + "\n" for path, said in files.items()}


def _recipe(study: Study, name: str) -> dict[str, Any]:
    benchmark = study.benchmarks[name]
    dataset = read_description(benchmark.dataset)
    source = benchmark.model.source
    return {
        "recipe": benchmark.model_dump(mode="json"),
        "data": {
            "name": dataset.name,
            # Which features and splits: other labels may have the same numbers.
            "source": study.datasets[benchmark.dataset].model_dump(
                mode="json", exclude_defaults=True, exclude={"bundled", "tfds"}
            ),
            "SHA-256 of arrays": dataset.sha256,
        },
        "SHA-256 of the model's code, comments and docstrings apart": {source: digest(Path(source))},
    }


def _about(words: str) -> dict[str, Any]:
    return {"what this is": words}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.inputs", description=__doc__)
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml")
    run(main, parser)
