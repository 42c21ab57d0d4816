"""The page of findings says what the published study says."""

import json
import re

from conftest import REPOSITORY

ROW = re.compile(r"^\| (?P<finding>[^|]+) \| (?P<number>[^|]+) \| \[(?P<evidence>\w+)\]\((?P<study>[^#]+)#claim-(?P<claim>[^)]+)\) \|$")  # fmt: skip  # noqa: E501


def test_every_finding_has_the_number_and_the_evidence_of_a_published_verdict():
    lines = (REPOSITORY / "docs" / "findings.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| finding")]
    assert rows
    for row in rows:
        found = ROW.match(row)
        assert found, row
        study = REPOSITORY / "docs" / found["study"]
        verdicts = {each["id"]: each for each in json.loads((study / "verdicts.json").read_text())["judgements"]}
        verdict = verdicts[found["claim"]]
        assert found["evidence"] == verdict["evidence"], row
        assert found["number"] in verdict["measured"], row
        assert f'id="claim-{found["claim"]}"' in (study / "report.html").read_text(encoding="utf-8"), row
