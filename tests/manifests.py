"""The manifests of `cluster/kubernetes`, as kustomize renders them."""

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from conftest import REPOSITORY

OLDEST = "1.29"  # whose Indexed Jobs have backoffLimitPerIndex
MANIFESTS = REPOSITORY / "cluster" / "kubernetes"
KEPT = ("cpu", "shared")  # the one rendering that is kept beside the tests, because not every machine has a kustomize
RENDERED = Path(__file__).parent / "rendered" / "cpu-shared.yaml"


@cache
def rendered(overlay: str, place: str) -> list[dict]:
    """The objects of an overlay with a meeting place, which is a line in its file.

    The kept one stands for those manifests alone whose digest it names. UPDATE_MANIFESTS=1 renders it again.
    """
    program = next((found for name in ("kustomize", "kubectl") if (found := shutil.which(name))), None)
    objects = render(program, overlay, place) if program else None
    if (overlay, place) == KEPT:
        if objects and os.environ.get("UPDATE_MANIFESTS"):
            RENDERED.write_text(f"# of manifests {manifests_digest()}\n" + yaml.safe_dump_all(objects))
        text = RENDERED.read_text()
        assert text.partition("\n")[0].split()[-1] == manifests_digest(), "render it again: UPDATE_MANIFESTS=1"
        kept = list(yaml.safe_load_all(text))
        assert objects in (None, kept)
        return kept
    if objects is None:
        pytest.skip("needs kustomize or kubectl")
    return objects


def manifests_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in MANIFESTS.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(MANIFESTS)).encode() + path.read_bytes())
    return digest.hexdigest()


def render(program: str, overlay: str, place: str) -> list[dict]:
    verb = "build" if program.endswith("kustomize") else "kustomize"
    with TemporaryDirectory() as folder:
        copy = Path(folder, "kubernetes")
        shutil.copytree(MANIFESTS, copy)
        path = copy / "overlays" / overlay / "kustomization.yaml"
        path.write_text(path.read_text().replace("meeting-place/shared", f"meeting-place/{place}"))
        done = subprocess.run([program, verb, path.parent], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def cron_jobs(overlay: str, place: str = "shared") -> dict[str, dict]:
    return {found["metadata"]["name"]: found for found in rendered(overlay, place) if found["kind"] == "CronJob"}


def pod(cron_job: dict) -> dict:
    return cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
