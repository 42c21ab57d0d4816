"""Files and folders that appear whole or not at all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.files.writing import whole, write_whole


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text("old")
    with whole(path) as partial:
        partial.write_text("new")
        assert (path.read_text(), partial.suffix) == ("old", ".yaml")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt])
def test_a_failed_write_leaves_nothing(tmp_path, fault):
    path = tmp_path / "deeper" / "study.yaml"

    def fail():
        with whole(path) as partial:
            partial.write_text("half")
            raise fault

    with pytest.raises(fault):
        fail()
    assert list(path.parent.iterdir()) == []


def test_a_new_folder_replaces_the_old_one_and_leftovers_of_a_killed_process(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "old").touch()
    (tmp_path / "data.partial").mkdir()
    (tmp_path / "data.partial" / "half").touch()
    with whole(folder) as partial:
        partial.mkdir()
        (partial / "new").touch()
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == [Path("data"), Path("data/new")]


def test_several_threads_may_write_one_file_at_once(tmp_path):
    path, texts = tmp_path / "stages.txt", [str(number) * 10_000 for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda text: write_whole(path, text), texts * 8))
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]
