"""Digests of code."""

import pytest

from pipeline.files.code import digest, file_digest


@pytest.fixture
def digest_of(tmp_path):
    def digest_of(text: str, name: str = "code.py") -> str:
        (tmp_path / name).write_text(text)
        return file_digest(tmp_path / name)

    return digest_of


def test_what_python_does_not_run_is_overlooked(digest_of):
    first = digest_of('"""Say."""\ndef f():\n    """Say more."""\n    return 1\n')
    assert digest_of("def f():  # a remark\n    return (1)\n") == first
    assert digest_of("def f():\n    return 2\n") != first


def test_what_is_no_python_counts_byte_for_byte(digest_of):
    assert digest_of("# one\n", "lock.txt") != digest_of("# two\n", "lock.txt")
    assert digest_of("def (  # one\n") != digest_of("def (  # two\n")


def test_a_folder_is_the_same_under_other_comments(tmp_path):
    source = tmp_path / "networks"
    source.mkdir()
    (source / "net.py").write_text("WIDTH = 3\n")
    before = digest(source)
    (source / "net.py").write_text("# of each layer\nWIDTH = 3\n")
    assert digest(source) == before
    (source / "net.py").write_text("WIDTH = 4\n")
    assert digest(source) != before
