"""Pack a study as a research object: one archive from which a reviewer can recompute the report.

The archive is an RO-Crate 1.1 of the Process Run profile 0.5: the study and the records went in, the report came out.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from pipeline.claims.results import Results
from pipeline.files import yaml_files
from pipeline.files.writing import whole
from pipeline.publication.archive import MANIFEST, files_of_project, files_of_study, manifest
from pipeline.report.rendering import PROJECT

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same study gives the same bytes


def publish(results: Results, root: Path, archive: Path) -> Path:
    """Write the archive of the finished study under `root`, its own runs and no others, and return its path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "crate")
        folder.mkdir()
        for source, names in ((root, files_of_study(root, results.study)), (PROJECT, files_of_project(PROJECT))):
            for file_name in names:
                (folder / file_name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file_name, folder / file_name)
        lock = PROJECT / "requirements" / f"{results.study.runtime}.txt"
        (folder / "sbom.json").write_text(_sbom(lock), encoding="utf-8")
        described = Path(name, "described")
        _describe(results, folder).write(described)
        contents = {str(path): (described / path).read_bytes() for path in _relative_files(described)}
        (described / MANIFEST).write_text(manifest(contents), encoding="utf-8")
        with whole(archive) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
            for path in _relative_files(described):
                file.writestr(zipfile.ZipInfo(str(path), _EPOCH), (described / path).read_bytes(), zipfile.ZIP_DEFLATED)
    return archive


def _relative_files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _describe(results: Results, folder: Path) -> ROCrate:
    """Describe the files in `folder` as a crate: what they are, and the run that made the report from the others."""
    citation = yaml_files.load(folder / "CITATION.cff")
    finished = max(run["started_at"] for run in results.runs)
    crate = ROCrate(version="1.1")
    crate.name = f"{citation['title']}: profile {results.study.profile}, campaign {results.study.campaign}"
    crate.description = results.study.description
    crate.datePublished = finished
    crate.license = "https://spdx.org/licenses/Apache-2.0"
    profile = crate.add(
        ContextEntity(crate, PROFILE, {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"})
    )
    crate.root_dataset["conformsTo"] = profile
    organisation = crate.add(
        ContextEntity(crate, "#developers", {"@type": "Organization", "name": citation["authors"][0]["name"]})
    )
    crate.root_dataset["author"] = organisation
    crate.root_dataset["publisher"] = organisation
    files = [
        crate.add_file(folder / path, str(path), properties={"name": path.name, "encodingFormat": _media_type(path)})
        for path in _relative_files(folder)
    ]
    software = crate.add(
        ContextEntity(
            crate,
            "#software",
            {
                "@type": "SoftwareApplication",
                "name": citation["title"],
                "softwareVersion": str(results.environments[0]["git_commit"] or citation["version"]),
                "url": "https://spdx.org/licenses/Apache-2.0",
            },
        )
    )
    made = ("results/report.html", "results/verdicts.json", "results/comparison.json", "results/summary.json")
    crate.add_action(
        software,
        identifier="#study",
        object=[file for file in files if file.id not in made],
        result=[file for file in files if file.id in made],
        properties={
            "name": f"The study {results.study.profile}",
            "startTime": min(run["started_at"] for run in results.runs),
            "endTime": finished,
            "agent": {"@id": "#developers"},
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    return crate


def _media_type(path: Path) -> str:
    types = {
        ".json": "application/json",
        ".html": "text/html",
        ".csv": "text/csv",
        ".yaml": "application/yaml",
        ".npz": "application/zip",
    }
    return types.get(path.suffix, "text/plain")


def _sbom(lock: Path) -> str:
    """Return the locked packages that training imports, as a CycloneDX document without addresses or times.

    A lock is for every platform; those of this one are listed.
    """
    lines = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    locked = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    markers = [Requirement(line.partition(" --hash")[0]).marker for line in locked]
    chosen = [line for line, marker in zip(locked, markers, strict=True) if marker is None or marker.evaluate()]
    command = [sys.executable, "-P", "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--of", "JSON", "-"]
    done = subprocess.run(command, input="\n".join(chosen), capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    for component in document.get("components", []):
        component.pop("externalReferences", None)
    return json.dumps(document, indent=2) + "\n"
