"""Names and lengths: one thing has one name, and a function or a module is short enough to be read at once."""

import ast
import re
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MAX_MODULE_LINES = 220
MAX_FUNCTION_LINES = 60

# The one interface that several modules implement is to be found under the same names in each of them.
INTERFACES = {
    "pipeline/engine": "TensorFlow's and JAX's half of the functions that Keras leaves to its engine",
    "pipeline/models": "each builds a network by its function `build`, as a model of a user's own may",
    "stages": "each is a program, which begins at `main`",
}
SAME_IN_ALL = {"stages": {"main"}, "pipeline/models": {"build"}}
TYPE_VARIABLES = {"T", "ModelT"}  # which stand for any type, as they do in every book


def modules(*folders: str) -> dict[str, ast.Module]:
    paths = [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]
    return {str(path.relative_to(REPOSITORY)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def public_names(module: ast.Module) -> set[str]:
    """The classes, functions, types and constants that `module` defines for others."""
    names = set()
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")} - TYPE_VARIABLES


def interface(path: str, name: str) -> str | None:
    """Name the interface that `name` belongs to in the module at `path`, if any."""
    for folder in INTERFACES:
        if path.startswith(folder) and name in SAME_IN_ALL.get(folder, {name}):
            return folder
    return None


def test_no_two_things_have_one_name():
    places = defaultdict(set)
    for path, module in modules("pipeline", "stages").items():
        for name in public_names(module):
            places[name].add(interface(path, name) or path)
    assert {name: sorted(found) for name, found in places.items() if len(found) > 1} == {}


def test_a_module_is_imported_under_its_own_name():
    """Another name for ours hides it, and `statistics` is the standard library's."""
    ours = REPOSITORY / "pipeline"
    found = [
        f"{path}:{node.lineno} {node.module}.{alias.name} as {alias.asname}"
        for path, module in modules("pipeline", "stages", "bench").items()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ours.name)
        for alias in node.names
        if alias.asname
    ]
    assert found == []


def test_a_site_is_on_the_web_and_jobs_run_on_a_cluster():
    about_clusters = [
        "stages/campaign.py",
        "stages/collect.py",
        "docs/on-your-cluster.md",
        "pipeline/campaign",
        "cluster",
    ]
    for path in map(REPOSITORY.joinpath, about_clusters):
        files = (
            [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in (".py", ".yaml", ".sh")]
        )
        assert files
        for file in files:
            assert not re.search(r"\bsites?\b", file.read_text(encoding="utf-8"), re.IGNORECASE), file


def test_a_function_is_short():
    found = {
        f"{path} {node.name}": length
        for path, module in modules("pipeline", "stages", "bench").items()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert found == {}


def test_a_module_is_short():
    lengths = {
        path: len((REPOSITORY / path).read_text().splitlines()) for path in modules("pipeline", "stages", "bench")
    }
    assert {path: length for path, length in lengths.items() if length > MAX_MODULE_LINES} == {}
