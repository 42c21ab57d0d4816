"""The sentences file: each sentence can be written for one and for many, and each code in use has one."""

import ast
import re

import pytest
from conftest import REPOSITORY

from pipeline.statistics.intervals import Estimate
from pipeline.words.sentences import Said, environment, sentence

ESTIMATE = {"value": -0.5, "low": -0.7, "high": -0.3}
LOSS = {"candidate": "mixed_float16", "difference_pp": Estimate(-0.5, -1.2, 0.2), "most_loss_pp": 1.2, "num_seeds": 5}
LOSS |= {"num_failed_candidate": 1, "num_failed_baseline": 0, "num_seeds_needed": 12}
ONE = {
    **dict.fromkeys(("difference_pp", "fastest", "new", "ratio", "mean", "gain"), ESTIMATE),
    "candidates": ["mixed_float16"],
    "formats": ["float16"],
    "failures": {"diverged": 1},
    "counts": {"found": 1},
    "variants": ["a"],
    "sources": ["TFDS"],
    "own_code": ["mine.py"],
    "seeds": [3],
    "kernels": ["Eigen"],
    "where": ["the output of attend"],
    "theirs": ["oneDNN"],
    "why": ["busy CPUs"],
    "devices": ["CPU"],
    "options": {"epsilon": 0.001},
    "losses": [LOSS],
    "open": [LOSS],
    "changed": [{"candidate": "mixed_float16", "share": 0.28, "least": 0.28, "most": 0.28}],
    "networks": "this",
    "outcome": "diverged",
    "found": {"float32": 0.5},
    "names": ["random_flip"],
    "ratios": {"mixed_float16": 0.5},
    "hardware": "nvidia_gpu",
    "quantity": "test_accuracy",
    "accuracies": [0.9],
    "float32_accuracies": [0.8],
    "dataset": "mnist",
    "loss_scale": "dynamic",
    "scale": None,
    "loop": "fit",
    "float32_layers": [],
    "layers": ["Conv2D"],
    "shown": ["accuracy", "run_epoch"],
}
MANY = ONE | {
    "candidates": ["mixed_float16", "mixed_bfloat16"],
    "formats": ["float16", "bfloat16"],
    "failures": {"diverged": 2, "out_of_memory": 3},
    "counts": {"found": 2, "open": 5},
    "seeds": [3, 4],
    "losses": [LOSS, LOSS | {"difference_pp": Estimate(-0.5, -0.7, -0.3)}],
    "open": [LOSS, LOSS],
    "changed": 2 * [{"candidate": "mixed_float16", "share": 0.28, "least": 0.25, "most": 0.3}],
    "networks": "some",
    "options": {},
    "accuracies": [0.1, 0.9],
    "quantity": "test_loss",
    "loss_scale": None,
    "scale": "fixed",
    "loop": "custom",
    "float32_layers": ["Conv2D", "attend"],
    "layers": ["Conv2D", "attend"],
}

CODES = environment().list_templates()
NAMES = ("candidate", "baseline", "benchmark", "variant", "name", "title", "advice", "metric", "default")
NAMES += ("series", "path", "reason", "place", "policy", "optimizer")
FLAGS = ("whole", "holds", "trains", "xla")


def numbers(code: str, many: bool) -> dict:
    """Return what the template asks for: a number that is one or many, unless its name says something else."""
    given = dict(MANY if many else ONE)
    if code.startswith("claim.") and "share" in source(code):
        given["share"] = ESTIMATE if "share | interval" in source(code) else 0.5
    if code in ("table.failures", "claim.threshold.holds", "claim.threshold.misses"):
        given |= {"share": ESTIMATE, "found": ESTIMATE}
    if code == "claim.value.measured":
        given["mean"] = 0.5
    if code == "lack.recipe":
        given["differences"] = {"batch_size": [64, 4096]} | ({"num_epochs": [1, 5]} if many else {})
    for name in set(re.findall(r"\b[a-z]\w*\b", source(code))) - given.keys():
        is_flag = name.startswith("is_") or name in FLAGS
        given[name] = "float32" if name in NAMES else many if is_flag else 7 if many else 1
    return given | {"unit": "×", "profile": "quick", "testable_by": "A run."}


def source(code: str) -> str:
    """Return a template's text, and that of those which it includes."""
    text = environment().loader.get_source(environment(), code)[0]
    return text + "".join(source(inner) for inner in re.findall(r'include "([\w.]+)"', text))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_every_sentence_is_well_formed_for_one_and_for_many(code, many):
    told = sentence(Said(code, numbers(code, many)))
    assert told or code == "name.elsewhere"  # which a study may not need
    assert not re.search(r"\b1 (?!points|times|units|GB)[a-z]+s\b|\{|\}|  |None|\( |,,", told), told
    if not code.startswith(("column.", "index.", "name.", "table.outcome", "summary.")):
        assert told.endswith((".", "?", ":"))


# Codes whose last part is a value that the code has in hand.
PREFIXES = (
    "advice.accuracy.",
    "claim.",
    "column.",
    "drift.",
    "fact.",
    "index.",
    "left_out.",
    "sample.",
    "table.",
)


def test_every_code_in_use_has_a_sentence_and_every_sentence_is_used():
    named = set()
    for folder in ("pipeline", "stages"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    named.add(node.value)
    for path in (REPOSITORY / "pipeline").rglob("*"):
        if path.is_file() and path.suffix in (".html", ".j2", ".yaml"):
            named |= set(re.findall(r'"([\w.]+)"', path.read_text()))
    said = {
        name for name in named if name.partition(".")[0] in {code.partition(".")[0] for code in CODES} and "." in name
    }
    assert [code for code in CODES if code not in named and not code.startswith(PREFIXES)] == []
    assert [name for name in said if name not in CODES and not name.startswith(PREFIXES) and "yaml" not in name] == []
