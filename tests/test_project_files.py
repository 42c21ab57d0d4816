"""What an archive says in this project's name is this project's: compiled programs, recipes, claims, what they mean."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY
from projects import commit, git

from pipeline.errors import InputError
from pipeline.publication.project_files import check_project_files, is_known, own_claims

NAMES = ("compiled", "conf/base.yaml", "claims.yaml")


def copied(target: Path, named: str | None = None) -> Path:
    """The files of this project that claims are judged by, in a study made at the commit of that name."""
    for name in NAMES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copyfile
        copy(REPOSITORY / name, target / name)
    (target / "results").mkdir()
    (target / "results/environments.json").write_text(json.dumps([{"git_commit": named}]))
    return target


@pytest.fixture
def study(tmp_path) -> Path:
    return copied(tmp_path / "study")


def edit_claims(root: Path, edit) -> None:
    claims = yaml.safe_load((root / "claims.yaml").read_text())
    edit(claims)
    (root / "claims.yaml").write_text(yaml.safe_dump(claims, allow_unicode=True))


def refused(root: Path, pattern: str, project: Path = REPOSITORY) -> None:
    with pytest.raises(InputError, match=pattern):
        check_project_files(root, project)


def claim(claims, name: str = "s2-slower-on-cpus") -> dict:
    return next(claim for claim in claims["claims"] if claim["id"] == name)


def test_the_files_of_this_project_pass(study):
    check_project_files(study)
    edit_claims(study, lambda _: None)  # the same, otherwise written
    check_project_files(study)
    assert own_claims(study) == []


def test_other_answers_of_a_compiler_are_refused(study):
    path = study / "compiled/v100-16gb.json"
    path.write_text(path.read_text().replace('"temporaries": ', '"temporaries": 2', 1))
    refused(study, r"^compiled/v100-16gb\.json: not this project's")


def test_a_target_left_out_is_refused(study):
    """A verdict on every target is another without the one that contradicts."""
    (study / "compiled/v100-16gb.json").unlink()
    refused(study, r"^compiled/v100-16gb\.json \(missing\): not this project's")


def test_other_recipes_are_refused(study):
    path = study / "conf/base.yaml"
    path.write_text(path.read_text().replace("batch_size: 128", "batch_size: 64"))
    refused(study, r"^conf/base\.yaml: not this project's")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda claims: claim(claims).update(at_most=100.0), "claims.s2-slower-on-cpus"),
        (lambda claims: claim(claims).update(statement="It is splendid."), "claims.s2-slower-on-cpus"),
        (lambda claims: claims["claims"].insert(0, {**claim(claims), "at_most": 100.0}), "claims.s2-slower-on-cpus"),
        (lambda claims: claims["variants"]["mixed_float16"].update(policy="float32"), "variants.mixed_float16"),
        (lambda claims: claims["sources"]["S1"].update(title="Another"), "sources.S1"),
        (lambda claims: claims["figures"][0].update(value="0.99"), "figures.S1"),
    ],
)
def test_another_claim_of_the_name_of_ours_is_refused(study, edit, named):
    edit_claims(study, edit)
    refused(study, rf"^claims\.yaml: {named}: not as this project has it")


def test_claims_of_the_senders_own_pass_and_are_named(study):
    own = {"id": "mine", "at_most": 100.0, "said_by": "us"}
    edit_claims(study, lambda claims: claims["claims"].append({**claim(claims), **own}))
    edit_claims(study, lambda claims: claims["sources"].update(MINE={"title": "A guide", "hardware": "mine"}))
    edit_claims(study, lambda claims: claims["claims"].append({**claim(claims), "id": "theirs", "source": "MINE"}))
    check_project_files(study)
    assert own_claims(study) == ["mine", "theirs"]
    edit_claims(study, lambda claims: claims["claims"].remove(claim(claims)))  # a study need not ask all of ours
    check_project_files(study)


def test_a_claim_that_a_source_of_ours_never_made_is_refused(study):
    """It would stand under the guide's name in every table."""
    edit_claims(study, lambda claims: claims["claims"].append({**claim(claims), "id": "mine", "published": "never"}))
    refused(study, r"^claims\.yaml: mine has S2 say what this project does not know of it\. Write said_by: us")


def test_a_commit_that_was_only_on_a_merged_branch_was_never_the_project(tmp_path):
    """Between its first commit and its last a branch may hold what the request showed to nobody."""
    project = copied(tmp_path / "project")
    git(project, "init", "--quiet", "--initial-branch=main")
    commit(project)
    git(project, "switch", "--quiet", "--create", "study")
    (project / "report.html").write_text("evil")
    commit(project)
    hidden = git(project, "rev-parse", "HEAD")
    (project / "report.html").write_text("good")
    commit(project)
    git(project, "switch", "--quiet", "main")
    git(project, "merge", "--quiet", "--no-ff", "--no-edit", "study")
    assert is_known(git(project, "rev-parse", "HEAD"), project)
    assert is_known(git(project, "rev-parse", "HEAD^1"), project)
    assert not is_known(hidden, project)


@pytest.mark.parametrize("text", ["", "[]", "claims: 1", "{sources: {}, variants: {}, figures: [], claims: [x]}"])
def test_claims_that_are_none_are_refused(study, text):
    (study / "claims.yaml").write_text(text)
    refused(study, "^claims.yaml is damaged")


def test_the_files_of_a_commit_from_the_named_one_on_pass(tmp_path):
    project = copied(tmp_path / "project")
    git(project, "init", "--quiet", "--initial-branch=main")
    days, texts = [], []
    for threshold in (0.5, 0.6, 0.7):
        edit_claims(project, lambda claims, threshold=threshold: claim(claims).update(at_most=threshold))
        (project / "compiled/b200.json").write_text(f"{threshold}")
        commit(project)
        days.append(git(project, "rev-parse", "HEAD"))
        texts.append((project / "claims.yaml").read_text())
    study = copied(tmp_path / "study", days[1])
    for number, threshold in ((1, 0.6), (2, 0.7)):
        (study / "compiled/b200.json").write_text(f"{threshold}")
        (study / "claims.yaml").write_text(texts[number])
        check_project_files(study, project)
    (study / "claims.yaml").write_text(texts[0])
    refused(study, "claims.s2-slower-on-cpus: not as this project has it, neither today nor since the commit", project)
    (study / "claims.yaml").write_text(texts[1])
    (study / "compiled/b200.json").write_text("0.5")
    refused(study, "b200.json: not this project's, neither today nor since the commit", project)
    (study / "compiled/b200.json").write_text("0.6")
    edit_claims(project, lambda claims: claims["claims"].append({**claim(claims), "id": "later"}))
    edit_claims(study, lambda claims: claims["claims"].append({**claim(claims), "id": "later", "at_most": 9.0}))
    refused(study, r"claims\.yaml: claims\.later: not as", project)
    for nobody in ("1" * 40, "HEAD", ["x"]):
        (study / "results/environments.json").write_text(json.dumps([{"git_commit": nobody}]))
        refused(study, "not this project's", project)
