"""The `model` of a study, from what `make advise` is asked."""

from pathlib import Path
from typing import Any


def model_values(name: str, source: str | None, arguments: dict[str, Any], runtime: str) -> dict[str, Any]:
    """Return the `model` of a study; `arguments` come before the sizes that the sources' models have here.

    `source` is the file or folder of a model of one's own, by default the one beside this project.
    """
    if name in ("dense", "efficientnet"):
        usual = {"units": 64 if runtime == "cpu" else 4096} if name == "dense" else {}
        return {"name": name, **usual, **arguments, "source": f"pipeline/models/{name}.py"}
    if name.startswith("keras.applications:"):
        return {"name": name, "arguments": arguments, "source": "pipeline/models/application.py"}
    if source is None:
        module = Path(name.partition(":")[0].partition(".")[0])
        source = str(module if module.is_dir() else module.with_suffix(".py"))
    return {"name": name, "arguments": arguments, "source": source}
