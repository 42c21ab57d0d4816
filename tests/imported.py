"""What the project's modules import of each other, read off their code."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from conftest import REPOSITORY


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((REPOSITORY / path).read_text())


@cache
def imported(path: Path) -> set[Path]:
    """The project's own files that `path` imports, at any depth of nesting."""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    candidates = {Path(*name.split(".")) for name in names}
    packages = {package for c in candidates for package in [c, *c.parents]}  # Python runs them on the way
    files = {c.with_suffix(".py") for c in candidates} | {package / "__init__.py" for package in packages}
    return {file for file in files if (REPOSITORY / file).is_file()}


def with_code(files: Iterable[Path]) -> set[str]:
    """Those that hold more than a docstring, which decides no result."""
    return {str(file) for file in files if any(not _is_text(node) for node in tree(file).body)}


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def closure(*paths: Path) -> set[str]:
    """These files and all that they import, what that imports, and so on."""
    found, waiting = set(), [*paths]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imported(file)
    return with_code(found)
