"""YAML is read as DVC reads it, or refused: at once, in words, whoever wrote it."""

import time
from pathlib import Path

import pytest
from conftest import REPOSITORY
from dvc.utils.serialize import ParseError, load_yaml

from pipeline.claims.claims_file import Claims
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.characters import escape_deceptive
from pipeline.study.configuration import validate
from pipeline.study.schema import Study, load_study

READ_ALIKE = [
    "a: [0200, 010, 0x10, 0o17, 1_000, +1, -0, 2024-01-01]\nb: 2:08",
    "a: [1e-05, 1E3, 1e+2, .5, 5., .inf, -.INF]",
    "a: [yes, no, on, off, y, True, FALSE, null, ~, Null]",
    "a: &x {b: 1}\nc: {<<: *x, d: 2}",
    "a: '\u00e9 it''s'\nb: |\n  two\n  lines\nc: >-\n  folded\n  text",
    "%YAML 1.1\n---\na: 010",
    "\ufeffa: 1\r\n? [1, 2]\r\n: !!str 3\r\n",
]
REFUSED_ALIKE = [
    "a: 1\na: 2",
    "a: [",
    "a: \x1b[31m",
    "a: *nowhere",
    "a: !!python/object:os.system x",
    "a: 1\n---\nb: 2",
]


@pytest.mark.parametrize("text", READ_ALIKE)
def test_a_file_is_read_as_dvc_reads_it(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_bytes(text.encode())
    assert repr(yaml_files.load(path)) == repr(load_yaml(path))


@pytest.mark.parametrize("text", REFUSED_ALIKE)
def test_what_dvc_refuses_is_refused_in_words(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_bytes(text.encode())
    with pytest.raises(ParseError):
        load_yaml(path)
    with pytest.raises(InputError, match=r"params\.yaml is not readable as YAML: ") as caught:
        yaml_files.load(path)
    assert len(str(caught.value).splitlines()) < 4


@pytest.mark.parametrize("text", ["a: !!int x", "a: " + "9" * 5000, "devices: 1" + "0" * 400, "a: !!binary '*'"])
def test_values_that_break_the_parser_are_a_fault_and_no_traceback(tmp_path, text):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(InputError, match=r"params\.yaml( is not readable as YAML)?: "):
        load_study(tmp_path / "params.yaml")


def test_ten_megabytes_are_refused_at_once(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("a: [" + 3_300_000 * "1, " + "1]")
    started = time.process_time()
    with pytest.raises(InputError, match="longer than 1,000,000 characters"):
        load_study(path)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("text", [900_000 * "[", "".join(f"{i * ' '}a:\n" for i in range(900))])
def test_what_would_end_the_parser_with_its_process_is_refused(text):
    """The parser calls itself at every level: DVC dies of these by a signal."""
    with pytest.raises(InputError, match="nested more than 50 deep at line"):
        yaml_files.parse(text, "params.yaml")


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join(10 * [f'*a{i - 1}'])}]\n" for i in range(1, 10)
)


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]", "a: &a {b: *a}"])
def test_aliases_that_stand_for_too_much_are_refused(text):
    values = yaml_files.parse(text, "params.yaml")
    arguments = {"benchmarks": {"mine": {"model": {"name": "mine:build", "arguments": values}}}}
    for read in (values, arguments):
        with pytest.raises(InputError, match="once its aliases are written out"):
            validate(Study, read, "params.yaml")


def test_a_device_that_never_ends_is_refused():
    with pytest.raises(InputError, match="/dev/zero"):
        yaml_files.load(Path("/dev/zero"))


def test_what_is_written_is_read_back_by_both(tmp_path):
    values = {"a": "0o17", "b": "010", "c": "1e3", "d": "null", "e": "x: y", "f": "é\n1", "g": 1e-05}
    path = tmp_path / "params.yaml"
    path.write_text(yaml_files.dump(values), encoding="utf-8")
    assert yaml_files.load(path) == load_yaml(path) == values


def study_text(**changes) -> dict:
    return yaml_files.load(REPOSITORY / "params.yaml") | changes


# A word that reads backwards, an escape sequence, two lines, an invisible character, half a pair, a marker of order.
DECEPTIVE = [
    "\u202egnp.exe",
    "\x1b[2J",
    "a\u2028b",
    "a\u200bb",
    "a\ud800",
    "\u2066x\u2069",
    "a\x00b",
    "a\x7f",
    "\x9b31m",
    "\rx",
]


@pytest.mark.parametrize("text", DECEPTIVE)
def test_deceptive_characters_are_refused_in_texts_names_and_keys(text):
    values = study_text(description=text, campaign=text, deviations={"mnist_dense": ["fine", text]})
    values["benchmarks"]["mnist_dense"]["model"] = {"name": "m:b", "source": text, "arguments": {text: [{"a": text}]}}
    with pytest.raises(InputError) as caught:
        validate(Study, values, "params.yaml")
    found = str(caught.value)
    for where in (
        *("  description: holds U+", "  campaign: holds U+", "deviations.mnist_dense.1: holds"),
        *("mnist_dense.model.source: holds", "arguments: the key ", f"arguments.{escape_deceptive(text)}.0.a: holds"),
    ):
        assert where in found
    assert found == escape_deceptive(found)
    assert "params.yaml: 6 faults" in found


@pytest.mark.parametrize(
    "text", ["naïve 16 × 16 → 中文", "مرحبا", "שלום", "नमस्ते\u200d", "👩\u200d🔬", "two\nlines\tand a tab"]
)
def test_texts_in_any_script_are_fine(text):
    assert validate(Study, study_text(description=text), "params.yaml").description == text
    assert escape_deceptive(text) == text


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x" * 5000, "at most 1000 characters"),
        ("é" * 200, "at most 255 bytes"),
        ("s3://bucket/net.py", "without colons"),
        ("a\nb.py", "without line breaks"),
        ("", "must be the path"),
    ],
)
def test_a_source_that_can_be_no_path_is_a_fault_of_the_study(source, said):
    values = study_text()
    values["benchmarks"]["mnist_dense"]["model"] = {"name": "m:b", "source": source}
    with pytest.raises(InputError, match=rf"benchmarks\.mnist_dense\.model\.source: .*{said}") as caught:
        validate(Study, values, "params.yaml")
    assert len(str(caught.value)) < 1000
    values = study_text(datasets={"mnist": {"tfds": "mnist", "module": "m", "source": source}})
    with pytest.raises(InputError, match=rf"datasets\.mnist\.source: .*{said}"):
        validate(Study, values, "params.yaml")


def test_a_name_that_is_no_folders_is_refused():
    values = study_text()
    values["variants"]["x" * 101] = values["variants"]["float32"]
    with pytest.raises(InputError, match=r"at most 100 characters"):
        validate(Study, values, "params.yaml")


NAMES = [f"a{number}{90 * 'x'}" for number in range(3000)]
FLOAT32 = {"policy": "float32", "batch_multiplier": 1}
FAULTY_STUDIES = {
    "wrong types": {"seeds": ["x"] * 90_000},
    "names": {"variants": dict.fromkeys(NAMES, FLOAT32), "comparison": {"margin_pp": dict.fromkeys(NAMES, 1.0)}},
    "benchmarks of a variant": {"variants": {"float32": FLOAT32 | {"benchmarks": NAMES * 20}}},
    "deceptive texts": {"deviations": {"mnist_dense": ["\u202e"] * 90_000}},
}
CLAIM = {"id": "a", "source": "none", "statement": "", "needs": {"hardware": "anything"}}
FACT = CLAIM | {"kind": "fact", "quantities": {f"gradients.{number}": 1 for number in range(20)}}
UNTESTED = CLAIM | {"kind": "untested", "reason": ""}
OTHER_RECIPE = {"hardware": "anything", "recipe": {f"modell.{number}{20 * 'x'}": 1 for number in range(20)}}
FAULTY_CLAIMS = {
    "facts": {
        "benchmarks": dict.fromkeys(NAMES[:100], ""),
        "claims": [FACT | {"id": f"a{number}"} for number in range(1000)],
    },
    "recipes": {"claims": [UNTESTED | {"needs": OTHER_RECIPE}] * 1000},
    "claims without end": {"claims": [UNTESTED] * 1001},
}


@pytest.mark.parametrize(
    ("model", "file", "changes"),
    [
        *((Study, "params.yaml", changes) for changes in FAULTY_STUDIES.values()),
        *((Claims, "claims.yaml", changes) for changes in FAULTY_CLAIMS.values()),
    ],
    ids=[*FAULTY_STUDIES, *FAULTY_CLAIMS],
)
def test_as_many_faults_as_fit_a_file_are_told_at_once(model, file, changes):
    values = yaml_files.load(REPOSITORY / file) | changes
    started = time.process_time()
    with pytest.raises(InputError, match=rf"{file}: [\d,]+ faults?, nothing was started") as caught:
        validate(model, values, file)
    assert len(str(caught.value)) < 100_000
    assert time.process_time() - started < 10
