"""YAML is read as DVC reads it, or refused with a clear message."""

import pytest
from dvc.utils.serialize import ParseError, load_yaml

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.study.schema import load_study

READ_ALIKE = [
    "a: [0200, 010, 0x10, 0o17, 1_000, +1, -0, 2024-01-01]\nb: 2:08",
    "a: [1e-05, 1E3, 1e+2, .5, 5., .inf, -.INF]",
    "a: [yes, no, on, off, y, True, FALSE, null, ~, Null]",
    "a: &x {b: 1}\nc: {<<: *x, d: 2}",
    "a: '\u00e9 it''s'\nb: |\n  two\n  lines\nc: >-\n  folded\n  text",
    "\ufeffa: 1\r\n? [1, 2]\r\n: !!str 3\r\n",
]
REFUSED_ALIKE = [
    "a: 1\na: 2",
    "a: [",
    "a: *nowhere",
    "a: !!python/object:os.system x",
    "a: 1\n---\nb: 2",
]


@pytest.mark.parametrize("text", READ_ALIKE)
def test_yaml_is_read_as_dvc_reads_it(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_bytes(text.encode())
    assert repr(yaml_files.load(path)) == repr(load_yaml(path))


@pytest.mark.parametrize("text", REFUSED_ALIKE)
def test_yaml_that_dvc_refuses_is_refused_with_a_short_message(tmp_path, text):
    path = tmp_path / "params.yaml"
    path.write_bytes(text.encode())
    with pytest.raises(ParseError):
        load_yaml(path)
    with pytest.raises(InputError, match=r"params\.yaml is not readable as YAML: ") as caught:
        yaml_files.load(path)
    assert len(str(caught.value).splitlines()) < 4


@pytest.mark.parametrize("text", ["a: !!int x", "max_run_seconds: 1" + "0" * 400])
def test_values_that_break_the_parser_are_reported_as_a_fault_without_traceback(tmp_path, text):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(InputError, match=r"params\.yaml( is not readable as YAML)?: "):
        load_study(tmp_path / "params.yaml")


def test_both_parsers_read_back_what_is_written(tmp_path):
    values = {"a": "0o17", "b": "010", "c": "1e3", "d": "null", "e": "x: y", "f": "é\n1", "g": 1e-05}
    path = tmp_path / "params.yaml"
    path.write_text(yaml_files.dump(values), encoding="utf-8")
    assert yaml_files.load(path) == load_yaml(path) == values
