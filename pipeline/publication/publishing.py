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
from pipeline.publication.archive import MANIFEST, manifest, names_of_project, names_of_study, own_code
from pipeline.publication.crate import describe_archive
from pipeline.report.rendering import PROJECT

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the archive, so that the same study gives the same bytes


def publish(results: Results, root: Path, archive: Path) -> Path:
    """Write the archive of the finished study under `root`, its own runs and no others, and return its path."""
    files = {name: root / name for name in names_of_study(results.study) if (root / name).is_file()}
    files |= own_code(root, results.study)
    files |= {name: PROJECT / name for name in names_of_project(PROJECT)}
    with tempfile.TemporaryDirectory() as temporary:
        folder, described = Path(temporary, "crate"), Path(temporary, "described")
        for target, source in files.items():
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / target)
        lock = PROJECT / "requirements" / f"{results.study.runtime}.txt"
        (folder / "sbom.json").write_text(_sbom(lock), encoding="utf-8")
        describe_archive(results, folder).write(described)
        paths = sorted(path for path in described.rglob("*") if path.is_file())
        contents = {path.relative_to(described).as_posix(): path.read_bytes() for path in paths}
    contents[MANIFEST] = manifest(contents).encode()
    with whole(archive) as partial, zipfile.ZipFile(partial, "w") as file:
        for name, content in contents.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return archive


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
