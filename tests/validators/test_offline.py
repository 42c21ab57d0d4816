"""Anyone makes a published study's report and page: without a network, without an engine, whatever is set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from projects import run

ENGINES = ("tensorflow", "keras", "jax", "tensorflow_datasets")
# As root; where a user may have namespaces; where a user may become root.
WAYS = (
    ("unshare", "--net"),
    ("unshare", "--net", "--map-root-user"),
    ("sudo", "--non-interactive", "unshare", "--net"),
)
INTERFACES = "import socket; print([name for _, name in socket.if_nameindex()])"


@pytest.fixture(scope="module")
def cut_off() -> tuple[str, ...]:
    """Words that start a program without any network; a CI that has none of them fails, and does not skip."""
    for way in WAYS:
        if shutil.which(way[0]) and subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
            return way
    told = f"no network could be cut off: none of {WAYS} works here. As root it does, outside of a container"
    if os.environ.get("CI"):
        pytest.fail(told)
    pytest.skip(told)


@pytest.fixture
def no_engine(tmp_path) -> Path:
    """A folder whose modules stand in the place of the engines, and refuse to be imported."""
    for name in ENGINES:
        (tmp_path / "none" / name).mkdir(parents=True)
        (tmp_path / "none" / name / "__init__.py").write_text(f"raise ImportError('there is no {name} here')\n")
    return tmp_path / "none"


def command(way: tuple[str, ...], no_engine: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {"PYTHONPATH": f"{no_engine}:{REPOSITORY}", "HOME": str(no_engine.parent), "PATH": ""}
    settings["PYTHONDONTWRITEBYTECODE"] = "1"  # where it runs as root, for a user
    full = [*way, "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in settings.items()), sys.executable]
    return run(no_engine.parent, *full, *words)


def test_report_and_page_are_made_without_a_network_or_an_engine(archive, cut_off, no_engine, tmp_path):
    assert command(cut_off, no_engine, "-c", INTERFACES).stdout == "['lo']\n"
    for name in ENGINES:
        assert f"there is no {name} here" in command(cut_off, no_engine, "-c", f"import {name}").stderr
    (tmp_path / "reports/mine").mkdir(parents=True)
    copy = Path(shutil.copy(archive, tmp_path / "reports/mine/study.zip"))
    for words in (("stages.report", "--from", str(copy)), ("stages.pages", "--reports", str(tmp_path / "reports"))):
        done = command(cut_off, no_engine, "-m", *words)
        assert done.returncode == 0, done.stderr
    for name in ("recomputed.html", "reports/mine/README.md", "reports/README.md"):
        assert (tmp_path / name).stat().st_size


# What a reviewer may have set for other work.
KERNEL = '{"argv": ["false"], "display_name": "mine", "language": "python"}'
MATPLOTLIBRC = "font.size: 20\nfigure.facecolor: black\nsvg.fonttype: path\naxes.grid: False\nfigure.dpi: 300\n"


@pytest.fixture
def own_settings(tmp_path) -> dict[str, str]:
    """The environment of somebody whose settings of everything are their own."""
    home = tmp_path / "home"
    for name, text in {
        ".config/matplotlib/matplotlibrc": MATPLOTLIBRC,
        ".ipython/profile_default/startup/00-mine.py": "import builtins, os\nbuiltins.print = os._exit\nos._exit(3)\n",
        "kernels/python3/kernel.json": KERNEL,
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return {
        "HOME": str(home),
        "MATPLOTLIBRC": str(home / ".config/matplotlib/matplotlibrc"),
        "JUPYTER_PATH": str(home),
        "IPYTHONDIR": str(home / ".ipython"),
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "de_DE.ISO-8859-1",
        "TZ": "Asia/Kathmandu",
        "PYTHONHASHSEED": "7",
    }


def test_a_reviewers_own_settings_change_nothing(archive, own_settings, tmp_path):
    made = []
    for name, settings in (("plain", {}), ("own", own_settings)):
        copy = tmp_path / name / "reports/mine/study.zip"
        copy.parent.mkdir(parents=True)
        shutil.copy(archive, copy)
        environment = os.environ | settings | {"PYTHONPATH": str(REPOSITORY)}
        for words in (("report", "--from", str(copy)), ("pages", "--reports", str(tmp_path / name / "reports"))):
            command = [sys.executable, "-m", f"stages.{words[0]}", *words[1:]]
            done = run(tmp_path / name, *command, env=environment)
            assert done.returncode == 0, done.stderr
        files = ("recomputed.html", "reports/README.md", "reports/mine/README.md", "reports/mine/answer.svg")
        made.append([(tmp_path / name / file).read_bytes() for file in files])
    assert made[0] == made[1]
