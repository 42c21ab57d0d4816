"""Identify the container image that this process runs in, from the note that its build left."""

import json
import os
import sys
from pathlib import Path
from typing import Any

DESCRIPTION = Path("/etc/mixed-precision-image.json")


def installed_runtime() -> str | None:
    """Return whose locked packages these are, one of `RUNTIMES`, by the image or by .venv.

    None means that neither says.
    """
    image = identity()
    if image:
        return str(image["target"])
    ready = Path(sys.prefix, "ready")
    return (ready.read_text(encoding="utf-8").strip() or None) if ready.exists() else None


def identity() -> dict[str, Any] | None:
    """Return target, base, SHA-256 of what decides results, commit and whether it was dirty; None outside an image.

    `digest` is the name under which the image was started, if IMAGE_DIGEST gives it.
    """
    if not DESCRIPTION.exists():
        return None
    description: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return description | {"digest": os.environ.get("IMAGE_DIGEST")}
