"""Take names, hosts and repository addresses out of a study, for double-blind review."""

import getpass
import json
import re
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.claims.results import load_results
from pipeline.errors import InputError
from pipeline.files import yaml_files
from pipeline.files.untrusted import excerpt
from pipeline.publication.publishing import lay_out, pack
from pipeline.publication.recomputing import remake
from pipeline.report.rendering import PROJECT, execute, render

AUTHOR = "Anonymous"
_KEPT = ("cff-version", "message", "title", "abstract", "type", "version", "license", "keywords")
_SHORT = 3  # characters of a name that is also a part of many words
# An address has several spellings (https, ssh, with and without .git), and all of them this in common.
_REPOSITORY = re.compile(r"^(?:[a-z+]+://|[^\s/]+@)\S*[:/](?P<path>[^\s/:]+/[^\s/:]+?)(?:\.git)?/?$")
_NOBODY = {"root", "user", "admin", "localhost", "build", "main", "home"}


def publish_anonymously(root: Path, folder: Path, archive: Path) -> None:
    """Write the archive of the study under `root`, made again in the new `folder` from records that name nobody.

    Raises:
        InputError: a file, such as the user's own code, still has a name, a host or an address that is known here.
    """
    lay_out(load_results(root), root, folder)
    for logs in list((folder / "runs").glob("*/*/*/tensorboard")):
        shutil.rmtree(logs)  # TensorBoard names them after the host
    for path in (*folder.glob("runs/*/*/*/record.json"), *folder.glob("results/speed/*.json")):
        found = json.loads(path.read_bytes())
        found["environment"]["git_commit"] = None  # whoever has the repository would find it
        found["environment"]["image"] = None
        path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    _describe_nobody(folder)
    remake(folder)
    (folder / "results/report.html").write_text(render(execute(folder)), encoding="utf-8")
    pack(load_results(folder), folder, archive)
    refuse_traces(archive)


def refuse_traces(archive: Path) -> None:
    """Raise `InputError` that names each file of `archive` whose name or content tells who made it."""
    known = sorted(set(traces()))
    found = []
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            content = file.read(name)
            found += [f"  {excerpt(name)}: its name has {excerpt(each)!a}" for each in known if _in_name(each, name)]
            found += [f"  {excerpt(name)} has {excerpt(each)!a}" for each in known if _in_content(each, name, content)]
    if found:
        raise InputError("nothing is published: it would tell who made it.\n" + "\n".join(found))


def _in_name(trace: str, name: str) -> bool:
    flags = 0 if len(trace) <= _SHORT else re.IGNORECASE
    return re.search(rf"(?<![^\W_]){re.escape(trace)}(?![^\W_])", name, flags) is not None


def _in_content(trace: str, name: str, content: bytes) -> bool:
    """Return whether `trace` stands in a content as a word; a short one as it is written, and in texts alone."""
    is_short = len(trace) <= _SHORT
    if is_short and name.endswith(".npz"):  # compressed: two bytes of it are any word
        return False
    pattern = rb"(?<![\w-])" + re.escape(trace.encode()) + rb"(?![\w-])"
    return re.search(pattern, content, 0 if is_short else re.IGNORECASE) is not None


def traces() -> Iterator[str]:
    """Yield the names, hosts and addresses by which this machine, its user and this repository are known."""
    citation = yaml_files.load(PROJECT / "CITATION.cff")
    for author in citation["authors"]:
        yield from (str(value) for value in author.values())
    yield from (str(citation[key]) for key in ("url", "repository-code") if key in citation)
    said = [getpass.getuser(), socket.gethostname(), socket.getfqdn(), str(Path.home()), str(PROJECT)]
    for arguments in (("config", "user.name"), ("config", "user.email"), ("remote", "-v")):
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
        said += [word for line in done.stdout.splitlines() for word in line.split("\t")[-1:]]
    for text in said:
        word = text.removesuffix(" (fetch)").removesuffix(" (push)").strip()
        if len(word) > 1 and word.lower() not in _NOBODY and not word.startswith("/root"):
            yield word
        if address := _REPOSITORY.search(word):  # which other spellings of the address share
            yield address["path"]


def _describe_nobody(folder: Path) -> None:
    """Rewrite the citation and its like in `folder`, with what they say of the software alone."""
    citation = yaml_files.load(folder / "CITATION.cff")
    kept = {key: citation[key] for key in _KEPT if key in citation} | {"authors": [{"name": AUTHOR}]}
    (folder / "CITATION.cff").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")  # JSON is YAML
    codemeta = json.loads((folder / "codemeta.json").read_bytes())
    for key in ("codeRepository", "url", "maintainer", "contributor", "issueTracker", "sameAs", "identifier"):
        codemeta.pop(key, None)
    codemeta["author"] = [{"@type": "Organization", "name": AUTHOR}]
    (folder / "codemeta.json").write_text(json.dumps(codemeta, indent=2) + "\n", encoding="utf-8")
