"""Find files of code, follow their imports, and compute digests that ignore comments and docstrings."""

import ast
import contextlib
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pipeline.errors import InputError


def digest(source: Path) -> str:
    """Return the SHA-256 of the names and contents of all files in `source`, which is a folder or a single file.

    Comments and docstrings of Python files don't count. Hidden files and folders (such as `.git`) and Python's compiled
    files are left out. Links to folders are not followed.

    Raises:
        InputError: there is no `source`.
    """
    check_exists(source)
    found = hashlib.sha256()
    for path in files_of_code(source):
        with contextlib.suppress(FileNotFoundError):  # an editor's temporary file may be gone by now
            found.update(f"{path.relative_to(source.parent)} {file_digest(path)}\n".encode())
    return found.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a Python file's code, without comments and docstrings, or of another file's bytes."""
    content = path.read_bytes()
    return _digest_of_code(content) if path.suffix == ".py" else hashlib.sha256(content).hexdigest()


def files_of_code(source: Path) -> list[Path]:
    """List the files that `digest` covers, sorted by path."""
    if source.is_file():
        return [source]
    hidden = re.compile(r"(^|/)(\.|__pycache__/)")
    return sorted(
        path for path in source.rglob("*") if path.is_file() and not hidden.search(path.relative_to(source).as_posix())
    )


def with_imports(*files: Path) -> list[Path]:
    """Return these files and all files of the working directory that they import, even indirectly, sorted by path.

    Imports within functions count. Modules that are named only at run time, for example by a study, are not found.

    Raises:
        InputError: one of the files is not valid Python.
    """
    found: set[Path] = set()
    waiting = [*files]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imported(file)
    return sorted(found)


def _imported(file: Path) -> Iterable[Path]:
    try:
        modules = {Path(*name.split(".")) for name in _names_imported(file.read_bytes())}
    except SyntaxError as error:
        raise InputError(f"{file}, line {error.lineno}: {error.msg}") from None
    packages = {package for module in modules for package in (module, *module.parents)}  # importing runs these first
    candidates = {module.with_suffix(".py") for module in modules} | {package / "__init__.py" for package in packages}
    return (candidate for candidate in candidates if candidate.is_file())


def check_exists(source: Path) -> None:
    """Raise `InputError` if there is no `source`."""
    if not source.exists():
        raise InputError(f"{source} does not exist. `source` is the file or folder that holds your module.")


# Cached by the file's content, because every benchmark and variant asks for the same files.
@cache
def _names_imported(code: bytes) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@cache
def _digest_of_code(code: bytes) -> str:
    """Return the SHA-256 of Python code without comments and docstrings, or of its bytes if it can't be parsed."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(code).hexdigest()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
