"""Have rocrate-validator judge an archive: without a network, against requirements and recommendations."""

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.crate import PROFILE

VALIDATORS = Path(__file__).parents[2] / ".validators"
RO_CRATE = "https://w3id.org/ro/crate/1.1"
_CHECK = re.compile(r"\[ ((?:process-run-crate-0\.5|ro-crate-1\.1)_[0-9]+\.[0-9]+) \] *(.*?):? *\n")


def crate_command(archive: Path) -> list[str]:
    """Return the command that judges `archive`. Its end with 0 says that the crate is valid."""
    program = VALIDATORS / "tools" / "bin" / "rocrate-validator"
    if not program.is_file():
        raise InputError(f"{program} is missing. Install it with: make validators")
    options = "--offline --no-paging --verbose --profile-identifier process-run-crate-0.5"
    cache = ["--requirement-severity", "recommended", "--cache-path", str(VALIDATORS / "contexts")]
    return [str(program), "-y", "--disable-color", "validate", *options.split(), *cache, str(archive.resolve())]


def crate_faults(archive: Path) -> list[str]:
    """Say in words what is wrong with the crate in `archive`, whose names and sizes have been checked; often nothing.

    The validator passes profiles that it does not know, so the URIs of the profiles are compared here.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            graph = {entity["@id"]: entity for entity in json.loads(file.read("ro-crate-metadata.json"))["@graph"]}
        named = {"ro-crate-metadata.json": RO_CRATE, "./": PROFILE}
        faults = [
            f"{name} must conform to {uri}. Received: {excerpt(graph[name].get('conformsTo'))}"
            for name, uri in named.items()
            if graph[name].get("conformsTo") != {"@id": uri}
        ]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        return [f"ro-crate-metadata.json is damaged ({excerpt(error)})"]
    # Its terminal would cut names into two lines.
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), "COLUMNS": "250"}
    command = crate_command(archive)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        found = sorted({f"{check} {what}" for check, what in _CHECK.findall(done.stdout)})
        faults += found or [excerpt(done.stdout[-300:] + done.stderr[-300:], 600)]
    return faults
