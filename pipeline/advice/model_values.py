"""The `model` of a study, from what `make advise` is asked."""

from pathlib import Path
from typing import Any

from pipeline.study.user_code import check_function


def model_values(name: str, source: str | None, arguments: dict[str, Any], runtime: str) -> dict[str, Any]:
    """Return the `model` of a study; `arguments` come before the sizes that the sources' models have here.

    `source` is the file or folder of a model of one's own, by default the one beside this project.

    Raises:
        InputError: a model of one's own can be seen to be wrong.
    """
    if name in ("dense", "efficientnet"):
        usual = {"units": 64 if runtime == "cpu" else 4096} if name == "dense" else {}
        return {"name": name, **usual, **arguments, "source": f"pipeline/models/{name}.py"}
    if name.startswith("keras.applications:"):
        return {"name": name, "arguments": arguments, "source": "pipeline/models/application.py"}
    if source is None:
        beside = Path(name.partition(":")[0].partition(".")[0])
        source = str(beside if beside.is_dir() else beside.with_suffix(".py"))
    module, _, function = name.partition(":")
    if function:  # a name of another form is for the study to refuse
        check_function(module, function, Path(source))
    return {"name": name, "arguments": arguments, "source": source}
