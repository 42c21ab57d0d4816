"""A study is published once, as raw records that the field's library reads, without code."""

import shutil
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest
from archives import DAMAGED_RUNS, contents_of
from rocrate.rocrate import ROCrate

from pipeline.errors import InputError
from pipeline.publication.archive import METADATA
from pipeline.publication.crate import PROFILE, publish
from stages import publish as stage


def test_the_rocrate_library_reads_an_archive_back(archive, tmp_path):
    with zipfile.ZipFile(archive) as file:
        file.extractall(tmp_path)
    read = ROCrate(tmp_path)
    assert PROFILE in str(read.root_dataset["conformsTo"].id)
    action = read.get("#study")
    assert action.type == "CreateAction"
    assert {entity.id for entity in action["object"]} == {"params.yaml", "claims.yaml"}
    assert {entity.id for entity in action["result"]} == {"runs/", "results/speed/", "results/numerics.json"}
    assert action["instrument"].id.startswith("https://archive.softwareheritage.org/swh:1:")


def test_the_same_study_gives_an_identical_archive(rendered, archive, tmp_path):
    publish(rendered, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_an_archive_contains_only_the_raw_records_of_its_study(copied, archive, tmp_path):
    shutil.copytree(copied / "runs/wide", copied / "runs/of_an_earlier_study")
    (copied / "runs/wide/mixed/seed-1/left_out.json").write_text("of an earlier stage")
    (copied / "results/secret.key").write_text("not to be published")
    (copied / "overlay.diff").write_text("what the code of these runs differed in")
    publish(copied, tmp_path / "study.zip")
    names = contents_of(tmp_path / "study.zip").keys()
    assert names == contents_of(archive).keys() | {"overlay.diff"}
    assert {name.rpartition("/")[2] for name in names} == {
        *("params.yaml", "claims.yaml", "overlay.diff", METADATA, "numerics.json", "blocks.csv", "measurement.json"),
        *("record.json", "epochs.csv", "predictions.npz"),
    }


def test_a_published_study_is_never_overwritten(copied, monkeypatch, capsys):
    monkeypatch.chdir(copied)
    stage.main(Namespace(to=Path("mine")))
    before = (copied / "mine/study.zip").read_bytes()
    assert "mine/study.zip (0.0 MB) holds 18 of the 18 runs of the study" in capsys.readouterr().out
    with pytest.raises(InputError, match="mine is not empty, and a published study never changes"):
        stage.main(Namespace(to=Path("mine")))
    assert (copied / "mine/study.zip").read_bytes() == before


def test_a_study_that_cannot_be_recomputed_is_not_published(copied, monkeypatch):
    monkeypatch.chdir(copied)
    with pytest.raises(InputError, match="its name becomes part of an address"):
        stage.main(Namespace(to=Path("a b")))
    name, edit, pattern = DAMAGED_RUNS["a record with a better accuracy"]
    (copied / name).write_bytes(edit((copied / name).read_bytes()))
    with pytest.raises(InputError, match=pattern):
        stage.main(Namespace(to=Path("mine")))
    assert not (copied / "mine").exists()
