"""The tone of what people read: imperative docstrings, and no pet word."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY

FOLDERS = ["pipeline", "stages", "bench"]
NO_BEGINNING = {"What", "Whether", "Of", "How"}
NO_VERB = {"A", "An", "As", "By", "Each", "Every", "For", "From", "If", "In", "None", "One", "The", "Those", "Why"}
VERBS_IN_S = {"Discuss", "Express", "Focus", "Pass", "Press", "Process"}


def docstrings(room: str) -> Iterator[tuple[str, ast.AST, str]]:
    for path in sorted((REPOSITORY / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                where = f"{path.relative_to(REPOSITORY)}:{getattr(node, 'lineno', 1)}"
                yield where, node, ast.get_docstring(node) or ""


def first_word(text: str) -> str:
    return re.split(r"[^\w`']", text, maxsplit=1)[0]


@pytest.mark.parametrize("room", FOLDERS)
def test_no_docstring_begins_with_a_question_word(room):
    assert [where for where, _, text in docstrings(room) if first_word(text) in NO_BEGINNING] == []


@pytest.mark.parametrize("room", FOLDERS)
def test_the_docstring_of_a_function_begins_with_an_imperative(room):
    def is_imperative(word: str) -> bool:
        third_person = word.endswith("s") and word not in VERBS_IN_S
        return word.isalpha() and word not in NO_VERB and not third_person

    functions = (found for found in docstrings(room) if isinstance(found[1], ast.FunctionDef | ast.AsyncFunctionDef))
    assert [
        f"{where} {text[:40]}" for where, _, text in functions if text and not is_imperative(first_word(text))
    ] == []


def test_every_room_and_every_command_says_what_it_is_for():
    files = [*(REPOSITORY / "pipeline").glob("*/__init__.py"), *(REPOSITORY / "stages").glob("*.py")]
    assert len(files) > 40
    assert [str(file) for file in files if not ast.get_docstring(ast.parse(file.read_text()))] == []


def test_one_pet_word_is_rare():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    out = ("docs/reports/", "dvc.lock")
    word = re.compile(r"\b" + "an" + r"ew\b", re.IGNORECASE)
    found = {}
    for name in names.strip("\0").split("\0"):
        if not name.startswith(out) and (REPOSITORY / name).is_file():
            text = Path(REPOSITORY, name).read_text(errors="replace")
            found |= {name: count} if (count := len(word.findall(text))) else {}
    assert sum(found.values()) <= 2, found


PAGES = [
    *REPOSITORY.glob("*.md"),
    *(REPOSITORY / "docs").glob("*.md"),
    *(REPOSITORY / "docs" / "decisions").glob("*.md"),
]


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_and_commands_of_a_page_lead_somewhere(page):
    text = page.read_text()
    links = re.findall(r'\]\(([^)#]+)[^)]*\)|(?:src|srcset)="([^"]+)"', text)
    files = {page.parent / (a or b) for a, b in links if "://" not in (a or b)}
    files |= {REPOSITORY / "stages" / f"{name}.py" for name in re.findall(r"python -m stages\.(\w+)", text)}
    files |= {REPOSITORY / name for name in re.findall(r"\btests/test_\w+\.py", text)}
    missing = [str(file) for file in files if not file.exists()]
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = re.findall(r"^ {4}make ([a-z][a-z-]*)", text, re.MULTILINE)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
    assert missing == [] or missing == [str(REPOSITORY / "docs" / "badge.svg")]  # of a site that is yet to be made


def test_every_room_stands_in_the_tree_of_the_readme():
    tree = (REPOSITORY / "README.md").read_text().partition("    pipeline/ ")[2].partition("\n    report/")[0]
    rooms = {path.parent.name for path in (REPOSITORY / "pipeline").glob("*/__init__.py")}
    assert set(re.findall(r"^ {8}(\w+)/ ", tree, re.MULTILINE)) == rooms


def test_the_messages_of_troubleshooting_are_messages_of_the_project():
    code = "\n".join(path.read_text() for room in ("pipeline", "stages") for path in (REPOSITORY / room).rglob("*.py"))
    code = re.sub(r'"\s*\n\s*(?:\+ )?f?"', "", code) + (REPOSITORY / "stages" / "set_up.sh").read_text()
    headings = re.findall(r"^## \d+\. `(.*)`$", (REPOSITORY / "docs" / "troubleshooting.md").read_text(), re.MULTILINE)
    assert len(headings) == 10
    code = re.sub(r"\{[^{}]*\}", "…", code)
    parts = [
        part.strip()
        for heading in headings
        for part in re.split("…|; then .*|params.yaml: 1 fault|dvc.lock|(?= is being)", heading)
    ]
    assert [part for part in parts if len(part) > 5 and part not in code] == []
