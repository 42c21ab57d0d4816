"""Port a study to another engine: change what names it, and keep the rest, its comments included."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.study.configuration import validate
from pipeline.study.runtimes import RUNTIMES
from pipeline.study.schema import Study


class Ported(NamedTuple):
    """Hold the text of the study and, in sentences, what was changed in it."""

    text: str
    changes: list[str]


def port(text: str, runtime: str, source: str) -> Ported:
    """Return the study in `text` for the packages of `runtime`, one of `RUNTIMES`.

    JAX compiles every step, so every variant says so then; TensorFlow keeps nothing that it compiled.

    Args:
        source: the name that faults are reported under.

    Raises:
        InputError: the text is no study, or `runtime` can't run it.
    """
    values = yaml_files.parse(text, source)
    before = validate(Study, values, source)
    engine = RUNTIMES[runtime].engine
    eager = [name for name, variant in before.variants.items() if engine == "jax" and not variant.jit_compile]
    changes: dict[str, Any] = {"engine": engine, "runtime": runtime}
    if before.compilation_cache and engine == "tensorflow":
        changes["compilation_cache"] = False
    changes = {key: value for key, value in changes.items() if values[key] != value}
    variants = {name: variant | {"jit_compile": True} for name, variant in values["variants"].items() if name in eager}
    expected = values | changes | {"variants": values["variants"] | variants}
    after = validate(Study, expected, f"{source} with ENGINE={runtime}")
    ported, said = _edited(text, changes, eager), None
    with contextlib.suppress(InputError):
        said = yaml_files.parse(ported, source)
    if said != expected:  # merged or shared values: without comments, then
        ported = yaml_files.dump(expected)
    return Ported(ported, list(_sentences(before, after, eager)))


def _edited(text: str, changes: Mapping[str, Any], compiled: Collection[str]) -> str:
    """Return the text with these values of its top-level keys and `jit_compile: true` in these variants."""
    values = YAML().load(text)  # with its comments
    values.update(changes)
    for name in compiled:
        values["variants"][name]["jit_compile"] = True
    return yaml_files.dump(values)


def _sentences(before: Study, after: Study, eager: Collection[str]) -> Iterator[str]:
    yield f"runtime is {after.runtime} (was {before.runtime}), engine is {after.engine} (was {before.engine})."
    if eager:
        yield f"jit_compile is true in {', '.join(eager)}: JAX compiles every step with XLA."
    for name in eager:
        for other, variant in after.variants.items():
            if variant == after.variants[name] and before.variants[other] != before.variants[name]:
                yield f"{name} and {other} are the same now; leave one out to spare its runs."
    compiled = [name for name, variant in after.variants.items() if variant.jit_compile]
    if compiled and (before.engine, after.engine) == ("jax", "tensorflow"):
        yield f"jit_compile stays true in {', '.join(compiled)}; make it false to train without XLA."
    if before.compilation_cache and not after.compilation_cache:
        yield "compilation_cache is false: TensorFlow keeps nothing that it compiled."
