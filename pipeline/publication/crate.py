"""Pack a study into a zip file with metadata that follow two standards, RO-Crate 1.1 and Process Run Crate 0.5."""

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.places import PARAMS
from pipeline.files.writing import whole
from pipeline.publication.archive import METADATA, names_of_study, remake
from pipeline.report.rendering import PROJECT
from pipeline.report.results import Results
from pipeline.study.schema import load_study

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENSE = "https://spdx.org/licenses/Apache-2.0"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the date given to every file, so that the same study gives the same bytes
_SOFTWARE_HERITAGE = "https://archive.softwareheritage.org"
_FOLDERS = {
    "runs/": "Of each run its record, its epochs, and the class that it predicts for each test image",
    "results/speed/": "Of each benchmark the blocks of steps that were timed, and where and how",
}
_FILES = {
    "params.yaml": ("application/yaml", "The study: every choice that decides what is run"),
    "claims.yaml": ("application/yaml", "The published claims as they were judged"),
    "results/numerics.json": ("application/json", "What 16-bit arithmetic does on that machine"),
    "overlay.diff": ("text/plain", "How the code that made the runs differs from the commit in their records"),
}


def publish(root: Path, archive: Path) -> Results:
    """Pack the study under `root` into `archive`, and return the study's recomputed results.

    Leave out runs that do not belong to the study.

    Raises:
        InputError: `params.yaml` is faulty, or the results can't be recomputed from the files. The message says why.
    """
    study = load_study(root / PARAMS)
    names = sorted(name for name in names_of_study(study) if (root / name).is_file())
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in names:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copy / name)
        try:
            results = remake(copy)
        except InputError as error:
            raise InputError(str(error).replace(f"{copy}/", "")) from None
        with whole(archive) as partial, zipfile.ZipFile(partial, "w") as file:
            file.writestr(zipfile.ZipInfo(METADATA, _EPOCH), metadata(results, names), zipfile.ZIP_DEFLATED)
            for name in names:
                file.writestr(zipfile.ZipInfo(name, _EPOCH), (copy / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return results


def metadata(results: Results, names: Iterable[str]) -> str:
    """Return the text of `ro-crate-metadata.json`, which names the software and the inputs of the study's records.

    Args:
        names: the paths of the files in the archive. All files under `runs/` share one description, and so do all files
            under `results/speed/`.
    """
    names = set(names)
    citation = yaml_files.load(PROJECT / "CITATION.cff")
    author, finished = citation["authors"][0], results.ended_at
    crate = ROCrate(version="1.1")
    crate.name = f"{citation['title']}: study {results.study.name}, campaign {results.study.campaign}"
    crate.description = results.study.description
    crate.datePublished = finished

    def entity(at: str, kind: str, **properties: Any) -> ContextEntity:
        return crate.add(ContextEntity(crate, at, {"@type": kind, **properties}))

    profile = entity(PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")
    text = "Permits use, change and distribution, on conditions."
    crate.license = entity(LICENSE, "CreativeWork", name="Apache License 2.0", identifier=LICENSE, description=text)
    # Software Heritage's address of a commit does not depend on where the repository is hosted.
    commit = results.environments[0]["git_commit"]
    address = f"{_SOFTWARE_HERITAGE}/swh:1:rev:{commit}" if commit else _SOFTWARE_HERITAGE
    # The developers have no web site, so the software's address takes its place.
    developers = entity("#developers", "Organization", name=author["name"], url=address)
    root = crate.root_dataset
    root["conformsTo"], root["author"], root["publisher"] = profile, developers, developers
    files = {
        name: crate.add_file(
            dest_path=name, properties={"name": name, "encodingFormat": kind, "description": description}
        )
        for name, (kind, description) in _FILES.items()
        if name in names
    }
    folders = [
        crate.add_dataset(dest_path=folder, properties={"name": folder, "description": description})
        for folder, description in _FOLDERS.items()
        if any(name.startswith(folder) for name in names)
    ]
    software = entity(
        address,
        "SoftwareApplication",
        name=citation["title"],
        softwareVersion=commit or citation["version"],
        url=address,
        license=crate.license,
    )
    numerics = [files[name] for name in ("results/numerics.json",) if name in files]
    root["mentions"] = crate.add_action(
        software,
        identifier="#study",
        object=[file for file in files.values() if file not in numerics],
        result=[*folders, *numerics],
        properties={
            "name": f"The study {results.study.name}",
            "description": f"Trained variants of {', '.join(results.study.benchmarks)} at several seeds and timed them "
            "in turns.",
            "startTime": results.started_at,
            "endTime": finished,
            "agent": {"@id": "#developers"},
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    return json.dumps(crate.metadata.generate(), indent=4, sort_keys=True, ensure_ascii=False)
