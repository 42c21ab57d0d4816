"""Describe the tables of a study as a data set that programs can load: Croissant 1.1."""

import csv
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.claims.results import Results, ended_at
from pipeline.files import yaml_files

TABLES = {
    "runs": "A row for each run: what was run, how fast, in how much memory, how accurate",
    "epochs": "A row for each epoch of each run",
    "pairs": "A row for each variant compared with its baseline",
}
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def describe_tables(results: Results, folder: Path) -> str:
    """Return the Croissant document of the tables under `folder`, an archive's."""
    citation = yaml_files.load(folder / "CITATION.cff")
    paths = {name: folder / "results" / f"{name}.csv" for name in TABLES}
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": f"mixed_precision_{results.study.profile}",
        "description": results.study.description or citation["title"],
        "license": "https://spdx.org/licenses/Apache-2.0",
        "url": "ro-crate-metadata.json",
        "version": str(citation["version"]),
        "datePublished": ended_at(results)[:10],
        "creator": {"@type": "sc:Organization", "name": citation["authors"][0]["name"]},
        "citeAs": f"{citation['title']}, version {citation['version']}: profile {results.study.profile}",
        "distribution": [_file(name, path) for name, path in paths.items()],
        "recordSet": [_records(name, path) for name, path in paths.items()],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file(name: str, path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": f"{name}.csv",
        "name": f"{name}.csv",
        "contentUrl": f"results/{name}.csv",
        "encodingFormat": "text/csv",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _records(name: str, path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        columns = list(rows.fieldnames or [])
        values: dict[str, set[str]] = {column: set() for column in columns}
        for row in rows:
            for column in columns:
                values[column].add(row[column])
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": TABLES[name],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": column,
                "dataType": _type(values[column]),
                "source": {"fileObject": {"@id": f"{name}.csv"}, "extract": {"column": column}},
            }
            for column in columns
        ],
    }


def _type(values: Iterable[str]) -> str:
    """Return the type of a column's cells; one with empty cells holds fractions or texts, for lack of a missing int."""
    found = set(values)
    given = found - {""}
    if given <= {"True", "False"} and given and given == found:
        return "sc:Boolean"
    if given and given == found and all(value.lstrip("-").isdecimal() for value in given):
        return "sc:Integer"
    return "sc:Float" if given and all(_is_number(value) for value in given) else "sc:Text"


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
