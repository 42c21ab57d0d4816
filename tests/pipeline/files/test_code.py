"""Digests of code."""

import pytest

from pipeline.files.code import digest, file_digest


@pytest.fixture
def digest_of(tmp_path):
    def digest_of(text: str, name: str = "code.py") -> str:
        (tmp_path / name).write_text(text)
        return file_digest(tmp_path / name)

    return digest_of


def test_comments_and_docstrings_do_not_change_the_digest(digest_of):
    first = digest_of('"""Say."""\ndef f():\n    """Say more."""\n    return 1\n')
    assert digest_of("def f():  # a remark\n    return (1)\n") == first
    assert digest_of("def f():\n    return 2\n") != first


def test_files_that_are_not_valid_python_are_digested_byte_for_byte(digest_of):
    assert digest_of("# one\n", "lock.txt") != digest_of("# two\n", "lock.txt")
    assert digest_of("def (  # one\n") != digest_of("def (  # two\n")


def test_a_folders_digest_covers_names_and_code_but_no_compiled_or_hidden_files(tmp_path):
    (tmp_path / "net.py").write_text("WIDTH = 3\n")
    first = digest(tmp_path)
    (tmp_path / "net.py").write_text("# of each layer\nWIDTH = 3\n")
    for overlooked in ("__pycache__/net.pyc", ".git/HEAD"):
        (tmp_path / overlooked).parent.mkdir()
        (tmp_path / overlooked).touch()
    assert digest(tmp_path) == first
    (tmp_path / "sizes.json").write_text("{}")
    more = digest(tmp_path)
    (tmp_path / "sizes.json").rename(tmp_path / "widths.json")
    assert len({first, more, digest(tmp_path)}) == 3
