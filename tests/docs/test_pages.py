"""Links, commands and examples in the pages exist and work."""

import json
import re
import zipfile
from textwrap import dedent
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY

from pipeline.campaign.jobs import Cluster
from pipeline.claims.claims_file import Claims
from pipeline.files import yaml_files
from pipeline.study.configuration import validate
from pipeline.study.variant import Variant

PAGES = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "docs/decisions").glob("*.md")]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_and_command_on_a_page_has_a_target(page):
    text = page.read_text()
    links = re.findall(r'\]\(([^)#]+)[^)]*\)|(?:src|srcset)="([^"]+)"', text)
    files = {page.parent / (a or b) for a, b in links if "://" not in (a or b)}
    files |= {REPOSITORY / "stages" / f"{name}.py" for name in re.findall(r"python -m stages\.(\w+)", text)}
    files |= {REPOSITORY / name for name in re.findall(r"\btests/[\w/]*\w(?:\.py)?", text)}
    missing = {file for file in files if not file.exists()}
    assert not missing
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = re.findall(r"^ {4}make ([a-z][a-z-]*)", text, re.MULTILINE)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def example(page: str, begin: str, end: str) -> str:
    """Return the lines of a page from `begin` up to `end`."""
    text = (REPOSITORY / "docs" / page).read_text()
    found = re.search(rf"^ *{re.escape(begin)}.*?(?=^ *{re.escape(end)})", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no example that begins with {begin!r}"
    return dedent(found[0])


def test_the_documented_variant_is_valid():
    values = yaml_files.parse(example("extend.md", "float16_unscaled: {", "`pipeline/study"), "the page")
    assert validate(Variant, values["float16_unscaled"], "the page").policy == "float16"


def test_the_documented_claim_is_valid_and_reproduced():
    text = example("extend.md", "sources:", "2. `. .venv")
    added = yaml_files.parse(re.sub(r"^ *…\n", "", text, flags=re.MULTILINE), "the page")
    claims = yaml_files.load(REPOSITORY / "claims.yaml")
    claims["sources"] |= added["sources"]
    claims["claims"] += added["claims"]
    found = validate(Claims, claims, "the page")
    assert found.claims[-1].id == "ours-bfloat16-squares-256"
    with zipfile.ZipFile(REPOSITORY / "docs/reports/quick-2-cores/study.zip") as archive:
        evidence = SimpleNamespace(numerics=json.loads(archive.read("results/numerics.json")))
    assert found.claims[-1].judge(evidence).verdict == "reproduced"


def test_the_documented_cluster_file_is_valid():
    text = example("on-your-cluster.md", "partition:", "2. ")
    assert "--partition=gpu" in validate(Cluster, yaml_files.parse(text, "the page"), "the page").collector_options()
