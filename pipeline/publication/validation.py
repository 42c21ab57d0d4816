"""Have rocrate-validator judge a crate: without a network, against requirements and recommendations."""

import json
import os
import re
import subprocess
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt
from pipeline.publication.crate import PROFILE

VALIDATORS = Path(__file__).parents[2] / ".validators"
RO_CRATE = "https://w3id.org/ro/crate/1.1"
_CHECK = re.compile(r"\[ ((?:process-run-crate-0\.5|ro-crate-1\.1)_[0-9]+\.[0-9]+) \] *(.*?):? *\n")


def crate_command(crate: Path) -> list[str]:
    """Return the command that judges the `crate`, a folder. Its end with 0 says that the crate is valid."""
    program = VALIDATORS / "tools" / "bin" / "rocrate-validator"
    if not program.is_file():
        raise InputError(f"{program} is missing. Install it with: make validators")
    options = "--offline --no-paging --verbose --profile-identifier process-run-crate-0.5"
    cache = ["--requirement-severity", "recommended", "--cache-path", str(VALIDATORS / "contexts")]
    return [str(program), "-y", "--disable-color", "validate", *options.split(), *cache, str(crate.resolve())]


def crate_faults(crate: Path, max_seconds: float = 600) -> list[str]:
    """Say in words what is wrong with the crate in a folder that `unpack` has filled; often nothing.

    The validator passes profiles that it does not know, so the URIs of the profiles are compared here.

    Raises:
        InputError: there is no validator.
    """
    command = crate_command(crate)
    try:
        graph = json.loads((crate / "ro-crate-metadata.json").read_bytes())["@graph"]
        named = {entity["@id"]: entity.get("conformsTo") for entity in graph}
    except (OSError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return [f"ro-crate-metadata.json is missing or damaged ({excerpt(error)})"]
    faults = [
        f"{name} must conform to {uri}. Received: {excerpt(named.get(name))}"
        for name, uri in (("ro-crate-metadata.json", RO_CRATE), ("./", PROFILE))
        if named.get(name) != {"@id": uri}
    ]
    # Its terminal would cut names into two lines.
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), "COLUMNS": "250"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=max_seconds
        )
    except subprocess.TimeoutExpired:
        return [*faults, f"rocrate-validator came to no end in {max_seconds:g} seconds"]
    if done.returncode:
        found = sorted({f"{check} {what}" for check, what in _CHECK.findall(done.stdout)})
        faults += found or [excerpt(done.stdout[-300:] + done.stderr[-300:], 600)]
    return faults
