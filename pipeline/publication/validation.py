"""Have rocrate-validator judge a crate: without a network, against requirements and recommendations."""

import json
import os
import re
import subprocess
from pathlib import Path

from pipeline.errors import InputError
from pipeline.files.untrusted import excerpt, read_bytes
from pipeline.publication.crate import PROFILE
from pipeline.publication.own_code import GET_IT_AGAIN

VALIDATORS = Path(__file__).parents[2] / ".validators"
RO_CRATE = "https://w3id.org/ro/crate/1.1"
_MAX_SECONDS = 600
_CHECK = re.compile(r"\[ ((?:process-run-crate-0\.5|ro-crate-1\.1)_[0-9]+\.[0-9]+) \] *(.*?):? *\n")


def crate_command(crate: Path) -> list[str]:
    """Return the command that judges the `crate`, a folder. Its end with 0 says that the crate is valid."""
    program = VALIDATORS / "tools" / "bin" / "rocrate-validator"
    if not program.is_file():
        raise InputError(f"{program} is missing. Install it with: make validators")
    options = "--offline --no-paging --verbose --profile-identifier process-run-crate-0.5"
    cache = ["--requirement-severity", "recommended", "--cache-path", str(VALIDATORS / "contexts")]
    return [str(program), "-y", "--disable-color", "validate", *options.split(), *cache, str(crate.resolve())]


def crate_faults(crate: Path, max_seconds: float = _MAX_SECONDS) -> list[str]:
    """Say in words what is wrong with the crate in a folder that `unpack` has filled; often nothing.

    The validator passes profiles that it does not know, so the URIs of the profiles are compared here.

    Raises:
        InputError: there is no validator.
    """
    try:
        metadata = json.loads(read_bytes(crate / "ro-crate-metadata.json", GET_IT_AGAIN))
        graph = {entity["@id"]: entity for entity in metadata["@graph"]}
        named = {"ro-crate-metadata.json": RO_CRATE, "./": PROFILE}
        faults = [
            f"{name} must conform to {uri}. Received: {excerpt(graph[name].get('conformsTo'))}"
            for name, uri in named.items()
            if graph[name].get("conformsTo") != {"@id": uri}
        ]
    except InputError:
        return ["it has no ro-crate-metadata.json"]
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        return [f"ro-crate-metadata.json is damaged ({excerpt(error)})"]
    # Its terminal would cut names into two lines.
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), "COLUMNS": "250"}
    command = crate_command(crate)
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
