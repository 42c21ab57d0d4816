"""Pack a study as a research object: one archive from which a reviewer can recompute the report."""

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from pipeline.claims.results import Results
from pipeline.files.writing import whole
from pipeline.publication.archive import MANIFEST, files_of_project, files_of_study, manifest
from pipeline.publication.crate import describe_archive
from pipeline.publication.croissant import describe_tables
from pipeline.publication.own_code import CODE, code_digests, own_code
from pipeline.report.rendering import PROJECT

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same study gives the same bytes


def publish(results: Results, root: Path, archive: Path) -> Path:
    """Write the archive of the finished study under `root`, its own runs and no others, and return its path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "crate")
        lay_out(results, root, folder)
        pack(results, folder, archive)
    return archive


def lay_out(results: Results, root: Path, folder: Path) -> None:
    """Copy what an archive of the study under `root` holds into the new `folder`."""
    files = {file: root / file for file in files_of_study(root, results.study)}
    files |= own_code(root, results.study)
    files |= {file: PROJECT / file for file in files_of_project(PROJECT)}
    for file, source in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / file)
    (folder / CODE).write_text(code_digests(root, results.study), encoding="utf-8")


def pack(results: Results, folder: Path, archive: Path) -> None:
    """Describe the files that `lay_out` put into `folder`, and write them to `archive`."""
    lock = PROJECT / "requirements" / f"{results.study.runtime}.txt"
    (folder / "sbom.json").write_text(_sbom(lock), encoding="utf-8")
    (folder / "croissant.json").write_text(describe_tables(results, folder), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        described = Path(name, "described")
        describe_archive(results, folder).write(described)
        contents = {str(path): (described / path).read_bytes() for path in _relative_files(described)}
        (described / MANIFEST).write_text(manifest(contents), encoding="utf-8")
        with whole(archive) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
            for path in _relative_files(described):
                file.writestr(zipfile.ZipInfo(str(path), _EPOCH), (described / path).read_bytes(), zipfile.ZIP_DEFLATED)


def _relative_files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


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
