"""Pack a study as a research object: one archive, described, from which a reviewer can recompute the report.

The description is an RO-Crate 1.1 of the Process Run profile 0.5.
"""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from pipeline.files import yaml_files
from pipeline.files.writing import whole
from pipeline.publication.archive import (
    MANIFEST,
    METADATA,
    RECOMPUTED,
    manifest,
    names_of_project,
    names_of_study,
    own_code,
)
from pipeline.report.rendering import PROJECT
from pipeline.report.results import Results, ended_at

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENSE = "https://spdx.org/licenses/Apache-2.0"
_SOFTWARE_HERITAGE = "https://archive.softwareheritage.org"
_MEDIA_TYPES = {
    ".json": "application/json",
    ".html": "text/html",
    ".csv": "text/csv",
    ".yaml": "application/yaml",
    ".npz": "application/zip",
    ".py": "text/x-python",
}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same study gives the same bytes


def publish(results: Results, root: Path, archive: Path) -> Path:
    """Write the archive of the finished study under `root`, its own runs and no others, and return its path."""
    files = {name: root / name for name in names_of_study(results.study) if (root / name).is_file()}
    files |= own_code(root, results.study)
    files |= {name: PROJECT / name for name in names_of_project(PROJECT)}
    contents = {name: path.read_bytes() for name, path in sorted(files.items())}
    contents[METADATA] = describe(results, contents, PROJECT).encode()
    contents[MANIFEST] = manifest(contents).encode()
    with whole(archive) as partial, zipfile.ZipFile(partial, "w") as file:
        for name, content in contents.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return archive


def describe(results: Results, names: Iterable[str], folder: Path) -> str:
    """Return the text of `ro-crate-metadata.json`: the files, and the action that made the results from the others.

    Args:
        names: of the files in the archive, but for this one and the manifest.
        folder: it holds the citation and the pipeline that the archive has.
    """
    citation = yaml_files.load(folder / "CITATION.cff")
    author = citation["authors"][0]
    finished = ended_at(results)
    crate = ROCrate(version="1.1")
    crate.name = f"{citation['title']}: profile {results.study.name}, campaign {results.study.campaign}"
    crate.description = results.study.description
    crate.datePublished = finished

    def entity(at: str, kind: str, **properties: Any) -> ContextEntity:
        return crate.add(ContextEntity(crate, at, {"@type": kind, **properties}))

    profile = entity(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")
    text = "Permits use, change and distribution, on the conditions in the file LICENSE."
    crate.license = entity(LICENSE, "CreativeWork", name="Apache License 2.0", identifier=LICENSE, description=text)
    # Who has no web site is presented by the citation file in this crate.
    url = author.get("website", {"@id": "CITATION.cff"})
    developers = entity("#developers", "Organization", name=author["name"], url=url)
    root = crate.root_dataset
    root["conformsTo"], root["author"], root["publisher"] = profile, developers, developers
    files = [
        crate.add_file(
            dest_path=name,
            properties={"name": Path(name).name, "encodingFormat": _MEDIA_TYPES.get(Path(name).suffix, "text/plain")},
        )
        for name in sorted(names)
    ]
    version = str(results.environments[0]["git_commit"] or citation["version"])
    software = entity(
        _identifier(version, folder / "dvc.yaml"),
        "SoftwareApplication",
        name=citation["title"],
        softwareVersion=version,
        url={"@id": "CITATION.cff"},
        license={"@id": LICENSE},
    )
    benchmarks, seeds = ", ".join(results.study.benchmarks), len(results.study.seeds)
    action = crate.add_action(
        software,
        identifier="#study",
        object=[file for file in files if file.id not in RECOMPUTED],
        result=[file for file in files if file.id in RECOMPUTED],
        properties={
            "name": f"The study {results.study.name}",
            "description": f"Trained {len(results.study.variants)} variants of {benchmarks} at up to {seeds} seeds, "
            f"compared them, judged the published claims and wrote the report. {_data(results)}",
            "startTime": min(run.started_at for run in results.tables.runs),
            "endTime": finished,
            "agent": {"@id": "#developers"},
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    root["mentions"] = action
    return json.dumps(crate.metadata.generate(), indent=4, sort_keys=True, ensure_ascii=False)


def _data(results: Results) -> str:
    """Return sentences that say where the images of each benchmark came from, as its runs recorded it."""
    sources = {run.benchmark: run.data_source for run in results.tables.runs if run.data_source}
    return " ".join(f"The images of {name} came from {source}." for name, source in sources.items())


def _identifier(version: str, pipeline: Path) -> str:
    """Return an absolute URI of the software that names no repository, a Software Heritage identifier.

    It is that of the git commit where there is one, else that of the file which defines the pipeline.
    """
    if re.fullmatch("[0-9a-f]{40}", version):
        return f"{_SOFTWARE_HERITAGE}/swh:1:rev:{version}"
    content = pipeline.read_bytes()
    digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return f"{_SOFTWARE_HERITAGE}/swh:1:cnt:{digest}"
