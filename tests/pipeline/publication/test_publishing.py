"""A published study: read back by the library, checked against its manifest, and recomputed."""

import hashlib
import json
import re
import sys
import zipfile
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from archives import contents_of, pack, sign
from conftest import REPOSITORY
from rocrate.rocrate import ROCrate

from pipeline.claims.claims_file import load_claims
from pipeline.errors import InputError
from pipeline.publication.archive import MANIFEST, MAX_REPORT_BYTES, METADATA, RECOMPUTED, unpack
from pipeline.publication.crate import PROFILE, publish
from pipeline.publication.recomputing import recompute, remake
from pipeline.report.results import load_results
from stages import publish as stage


def test_the_library_reads_it_back(crate, tmp_path):
    with zipfile.ZipFile(crate) as file:
        file.extractall(tmp_path)
        names = set(file.namelist())
    read = ROCrate(tmp_path)
    assert PROFILE in str(read.root_dataset["conformsTo"].id)
    assert {entity.id for entity in read.get_entities() if entity.type == "File"} == names - {MANIFEST, METADATA}
    assert {"claims.yaml", "CITATION.cff", "requirements/cpu.txt", "runs/wide/mixed/seed-1/predictions.npz"} < names
    action = read.get("#study")
    assert action.type == "CreateAction"
    assert action["description"].endswith(
        "The images of narrow came from this repository. The images of wide came from this repository."
    )
    assert {entity.id for entity in action["result"]} == set(RECOMPUTED)
    assert action["instrument"].id.startswith("https://archive.softwareheritage.org/swh:1:")


def test_the_manifest_names_every_file(crate):
    contents = contents_of(crate)
    first, *lines = contents.pop(MANIFEST).decode().splitlines()
    assert first == f"# {len(contents)} files, {sum(map(len, contents.values()))} bytes"
    assert lines == [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in contents.items()]


def test_the_same_study_gives_the_same_bytes(rendered, crate, tmp_path):
    assert publish(load_results(rendered), rendered, tmp_path / "again.zip").read_bytes() == crate.read_bytes()


def test_a_study_that_older_code_published_is_published_again(crate, tmp_path):
    older = contents_of(crate) | {"results/report.html": b"older words", "results/verdicts.json": b"[]"}
    digits = re.search(rb"0\.\d{15,}", older["results/pairs.csv"])[0]  # on another CPU the last one may differ
    rounded = digits[:-1] + (b"2" if digits.endswith(b"1") else b"1")
    older["results/pairs.csv"] = older["results/pairs.csv"].replace(digits, rounded)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "crate.zip").write_bytes(pack(sign(older)))
    stage.main(Namespace(to=None, again=tmp_path / "mine"))
    found = contents_of(tmp_path / "mine" / "crate.zip")
    assert found["results/report.html"].startswith(b"<!doctype html>")
    assert found["claims.yaml"] == (REPOSITORY / "claims.yaml").read_bytes()
    judged = json.loads(found["results/verdicts.json"])["judgements"]
    assert [each["id"] for each in judged] == [claim.id for claim in load_claims(REPOSITORY / "claims.yaml").all]
    for name in ("runs/wide/mixed/seed-1/record.json", "results/pairs.csv"):
        assert found[name] == older[name]
    assert (tmp_path / "mine" / "report.html").read_bytes() == found["results/report.html"]


@pytest.mark.parametrize(("factor", "words"), [(1.0, ""), (1.000001, "speedup of float32_2x is .*, and was published")])
def test_an_archive_of_earlier_is_recomputed_by_its_numbers(rendered, crate, tmp_path, monkeypatch, factor, words):
    """What the comparison held before there were two tables."""
    pairs = [
        {"benchmark": pair.benchmark, "baseline": pair.baseline, "candidate": pair.candidate}
        | {"accuracy_difference_pp": {"mean": pair.difference_pp}, "speedup": {"ratio": factor * pair.speedup}}
        for pair in load_results(rendered).tables.pairs
    ]
    older = contents_of(crate) | {"results/comparison.json": json.dumps({"pairs": pairs}).encode()}
    (tmp_path / "crate.zip").write_bytes(pack(sign(older)))
    with pytest.raises(InputError, match=r"results/comparison\.json, which no archive of this study has"):
        recompute(tmp_path / "crate.zip")
    digest = hashlib.sha256((tmp_path / "crate.zip").read_bytes()).hexdigest()
    monkeypatch.setattr("pipeline.publication.archive.PUBLISHED_EARLIER", (digest,))
    with pytest.raises(InputError, match=words) if words else nullcontext():
        found = recompute(tmp_path / "crate.zip")
        assert not found.differing
        assert METADATA in found.by_deletion
        assert "results/pairs.csv" in found.same


def name_own_code(root: Path, source: str = "mine") -> Path:
    """The study, which names a builder of the user's, judged again: it has another digest with it."""
    params = yaml.safe_load((root / "params.yaml").read_text())
    params["datasets"]["mnist"] = {"tfds": "mine", "module": "mine.builder", "source": source}
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    (root / source).mkdir()
    (root / source / "builder.py").write_text("ANSWER = 42\n")
    remake(root)
    return root


def test_the_users_own_code_is_in_the_archive(copied, tmp_path):
    root = name_own_code(copied, "../mine")
    unpack(publish(load_results(root), root, tmp_path / "crate.zip"), tmp_path / "unpacked")
    assert (tmp_path / "unpacked/code/0/mine/builder.py").read_text() == "ANSWER = 42\n"
    (tmp_path / "mine").rename(tmp_path / "elsewhere")  # as for whoever publishes somebody's archive again
    again = publish(load_results(tmp_path / "unpacked"), tmp_path / "unpacked", tmp_path / "again.zip")
    assert contents_of(again)["code/0/mine/builder.py"] == b"ANSWER = 42\n"


def test_the_users_own_code_stays_in_its_folder(copied, tmp_path):
    """Under the folder of the user's code any name is taken, but for those that lead out of it or can't be there."""
    root = name_own_code(copied)
    contents = contents_of(publish(load_results(root), root, tmp_path / "crate.zip"))
    leading_out = ("code/0/../../escaped.py", "code/0/./builder.py", "code/0//builder.py", "code/1/yours.py")
    for name in (*leading_out, "code/0/mine/builder.py/below_a_file.py", "code/0/" + 300 * "a"):
        (tmp_path / "crate.zip").write_bytes(pack(sign(contents | {name: b"ANSWER = 43\n"})))
        with pytest.raises(InputError, match=r"crate\.zip is damaged"):
            unpack(tmp_path / "crate.zip", tmp_path / "a" / "folder")
        assert not list(tmp_path.rglob("escaped.py"))


def test_another_study_is_not_overwritten_and_the_same_one_with_more_runs_is(copied, crate, monkeypatch, capsys):
    monkeypatch.chdir(copied)
    (copied / "mine").mkdir()
    archive = copied / "mine" / "crate.zip"
    published = contents_of(crate)
    records = [name for name in published if name.endswith("record.json")]
    another = sign(published | {name: published[name] + b" " for name in records})
    archive.write_bytes(pack(another))
    with pytest.raises(InputError, match="mine holds another study, which has no run of this one"):
        stage.main(Namespace(to=Path("mine"), again=None))
    assert contents_of(archive) == another
    archive.write_bytes(pack(sign(another | {records[0]: published[records[0]]})))
    stage.main(Namespace(to=Path("mine"), again=None))
    assert contents_of(archive)[records[1]] == published[records[1]]
    assert f"check it: {sys.executable} -m stages.report --from results/crate.zip" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a b", "its name must be at most 100 letters"),
        ("mine", "has 3.0 MB, and opens slowly above 3 MB"),
    ],
)
def test_what_a_reviewer_would_refuse_is_not_published(copied, monkeypatch, name, words):
    if name == "mine":
        report = copied / "results/report.html"
        report.write_bytes(report.read_bytes().ljust(MAX_REPORT_BYTES + 1))
    monkeypatch.chdir(copied)
    with pytest.raises(InputError, match=words):
        stage.main(Namespace(to=Path(name), again=None))
    assert not (copied / name).exists()
