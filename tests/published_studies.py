"""Folders of published studies, for the site."""

import json
from pathlib import Path

import yaml
from archives import pack, sign
from conftest import DEVICE, ENVIRONMENT, REPOSITORY, epoch_records, planned_record, small_study, timed

from pipeline.claims.schema import load_claims
from pipeline.comparison.finished_runs import Run
from pipeline.comparison.paired_runs import compare
from pipeline.publication.published import FILES

CLAIMS = load_claims(REPOSITORY / "claims.yaml")


def write_published(folder: Path, campaign: str, finished_at: str) -> Path:
    """A published study without its report's content: the site links to it, and reads the rest."""
    folder.mkdir(parents=True)
    study = small_study(campaign=campaign, description="<script>alert(1)</script>")
    runs = {}
    for key in study.runs():
        record = planned_record(key, study, campaign=campaign)
        runs[key] = Run(record, epoch_records(9.0, 1 + 0.01 * key.seed))
    comparison = compare(study, runs, timed(study, {}), DEVICE)
    (folder / "comparison.json").write_text(comparison.model_dump_json())
    (folder / "params.yaml").write_text(yaml.safe_dump(study.model_dump(mode="json")))
    verdict = {"id": "a", "source": "S", "verdict": "reproduced", "reason": "", "measured": None, "asked": "speed"}
    verdict |= {"is_finding": False, "threshold": "at 2×", "evidence": "measured", "would_change": None}
    ours = verdict | {"id": "b", "is_finding": True, "verdict": "not found"}  # which is counted apart
    write_verdicts(folder, [verdict, ours])
    status = {"exit_code": 0, "advice": {"wide": "Stay <b>calm</b>."}, "verdicts": {}, "runs": {}}
    status |= {"device": "CPU & co", "finished_at": finished_at, "report": "results/report.html"}
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "report.html").write_text("<h1>report</h1>")
    return seal(folder)


def write_verdicts(folder: Path, judgements: list[dict]) -> None:
    (folder / "verdicts.json").write_text(json.dumps({"schema_version": 2, "judgements": judgements}))


def seal(folder: Path) -> Path:
    """The folder with an archive of what stands in it."""
    contents = {path: (folder / name).read_bytes() for name, path in FILES.items() if name != "crate.zip"}
    contents["claims.yaml"] = b""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "load_average"}
    contents["results/environments.json"] = json.dumps([environment]).encode()
    (folder / "crate.zip").write_bytes(pack(sign(contents)))
    return folder
