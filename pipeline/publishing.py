"""A study as a research object: one archive from which a reviewer can recompute the report.

The archive is an RO-Crate 1.1 of the Process Run profile 0.5: the study and the records went in, the report came out.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from pipeline.errors import InputError
from pipeline.results import Results

PROJECT = Path(__file__).parent.parent
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
MANIFEST = "manifest-sha256.txt"
OF_THE_STUDY = ("params.yaml", "claims.yaml", "dvc.lock", "runs", "results")  # dvc.lock may be missing
OF_THE_PROJECT = ("dvc.yaml", "requirements", "CITATION.cff", "codemeta.json", "LICENSE")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same study gives the same bytes


def publish(results: Results, root: Path, archive: Path) -> Path:
    """Writes the archive of the finished study under `root` and returns its path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "crate")
        folder.mkdir()
        for source, names in ((root, OF_THE_STUDY), (PROJECT, OF_THE_PROJECT)):
            for path in _files(source, names):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / path, folder / path)
        lock = PROJECT / "requirements" / f"{results.study.runtime}.txt"
        (folder / "sbom.json").write_text(_sbom(lock), encoding="utf-8")
        described = Path(name, "described")
        _describe(results, folder).write(described)
        lines = [f"{_sha256(described / path)}  {path}" for path in _relative_files(described)]
        (described / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial = archive.with_name(archive.name + ".partial")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
            for path in _relative_files(described):
                file.writestr(zipfile.ZipInfo(str(path), _EPOCH), (described / path).read_bytes(), zipfile.ZIP_DEFLATED)
        partial.replace(archive)
    return archive


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive into the empty `folder` and checks every file against the manifest.

    Raises:
        InputError: the archive is missing, damaged, or a file in it is not the one that was published.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            unsafe = [name for name in file.namelist() if Path(name).is_absolute() or ".." in Path(name).parts]
            if unsafe:
                raise InputError(f"{archive} holds a path that leads out of it: {unsafe[0]}")
            file.extractall(folder)
        lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(f"{archive} is missing, or has no {error.filename or 'file'}") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{archive} is damaged: {error}") from None
    manifest = {Path(name): digest for digest, name in (line.split("  ", 1) for line in lines)}
    found = {path: _sha256(folder / path) for path in _relative_files(folder) if path != Path(MANIFEST)}
    odd = sorted(str(path) for path in manifest.keys() | found.keys() if manifest.get(path) != found.get(path))
    if odd:
        raise InputError(f"{archive}: not as published: {', '.join(odd[:5])}")


def _files(root: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        path = root / name
        if path.is_dir():
            yield from (Path(name) / file for file in _relative_files(path) if file.suffix != ".zip")
        elif path.is_file():
            yield Path(name)


def _relative_files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _describe(results: Results, folder: Path) -> ROCrate:
    """The crate over the files in `folder`: what they are, and the run that made the report from the others."""
    citation = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
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
    """The locked packages that training imports, as a CycloneDX document without addresses or times.

    A lock is for every platform; those of this one are listed.
    """
    lines = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    locked = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    markers = [Requirement(line.partition(" --hash")[0]).marker for line in locked]
    chosen = [line for line, marker in zip(locked, markers, strict=True) if marker is None or marker.evaluate()]
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible", "--of", "JSON", "-"]
    done = subprocess.run(command, input="\n".join(chosen), capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    for component in document.get("components", []):
        component.pop("externalReferences", None)
    return json.dumps(document, indent=2) + "\n"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
