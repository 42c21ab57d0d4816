"""What an archive says in this project's name is this project's: claims, and what they mean."""

import shutil
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY

from pipeline.errors import InputError
from pipeline.publication.recomputing import check_project_files


@pytest.fixture
def study(tmp_path) -> Path:
    """The files of this project that claims are judged by."""
    shutil.copyfile(REPOSITORY / "claims.yaml", tmp_path / "claims.yaml")
    return tmp_path


def edit_claims(root: Path, edit) -> None:
    claims = yaml.safe_load((root / "claims.yaml").read_text())
    edit(claims)
    (root / "claims.yaml").write_text(yaml.safe_dump(claims, allow_unicode=True))


def claim(claims, **changes) -> dict:
    return next(claim for claim in claims["claims"] if claim["id"] == "s2-slower-on-cpus") | changes


def another(claims, **changes) -> None:
    claims["claims"].append(claim(claims, **changes))


def test_the_files_of_this_project_pass(study):
    assert check_project_files(study) == []
    edit_claims(study, lambda _: None)  # the same, otherwise written
    assert check_project_files(study) == []


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda claims: claims["claims"].__setitem__(0, claims["claims"][0] | {"statement": "Good."}), "claims.s1-"),
        (lambda claims: claims["variants"]["mixed_float16"].update(policy="float32"), "variants.mixed_float16"),
        (lambda claims: claims["sources"]["S1"].update(title="Another"), "sources.S1"),
        (lambda claims: claims["benchmarks"].update(mnist_dense="CIFAR-100"), "benchmarks.mnist_dense"),
    ],
)
def test_another_claim_of_the_name_of_ours_is_refused(study, edit, named):
    edit_claims(study, edit)
    with pytest.raises(InputError, match=rf"^claims\.yaml: {named}.*: not as this project has it"):
        check_project_files(study)


def test_claims_of_the_senders_own_pass_and_are_named(study):
    edit_claims(study, lambda claims: claims["findings"].append(claim(claims, id="mine", at_most=100.0)))
    edit_claims(study, lambda claims: claims["sources"].update(MINE={"title": "A guide", "hardware": "mine"}))
    edit_claims(study, lambda claims: another(claims, id="theirs", source="MINE"))
    assert check_project_files(study) == ["theirs", "mine"]
    edit_claims(study, lambda claims: claims["claims"].remove(claim(claims)))  # a study need not ask all of ours
    assert check_project_files(study) == ["theirs", "mine"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "claims.yaml"),
        ("[]", "claims.yaml"),
        ("{sources: {}, variants: {}, figures: [], claims: [x]}", "claims.yaml"),
        (lambda claims: another(claims, at_most=100.0), "stands 2 times"),
        # It would stand under the guide's name in every table.
        (lambda claims: another(claims, id="mine"), "mine has S2 say what this project does not know of it"),
    ],
)
def test_claims_that_are_none_or_not_the_sources_are_refused(study, text, words):
    edit_claims(study, text) if callable(text) else (study / "claims.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        check_project_files(study)
