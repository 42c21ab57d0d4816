"""The container image this process runs in, as its build wrote it down."""

import json
import os
from pathlib import Path
from typing import Any

DESCRIPTION = Path("/etc/mixed-precision-image.json")


def identity() -> dict[str, Any] | None:
    """Target, base, a SHA-256 of what decides results, commit and whether it was dirty; None outside an image.

    `digest` is what the image is known by to whoever started it, where they said so in IMAGE_DIGEST.
    """
    if not DESCRIPTION.exists():
        return None
    description: dict[str, Any] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return description | {"digest": os.environ.get("IMAGE_DIGEST")}
