"""The four images, built and run by a real Docker: a small study inside gives what it gives outside.

Needs Docker, or root on Debian to install and start it; a machine that has neither fails here. `.ci/run` runs this;
`make test` leaves it out. BASE_IMAGE names another base than one made from Debian's packages.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from conftest import REPOSITORY
from container import docker_images
from container.docker_images import ENVIRONMENT, MARKER, STRANGER, TARGETS, as_stranger, give_away, output, owner, run
from projects import commit

MAX_GIGABYTES = {"cpu": 2.6, "cuda": 7.8, "cuda-jax": 8.4, "tpu": 3.8}
# Two processes of one machine and one lock differ by the order of sums at most.
LOSS_TOLERANCE = 1e-5
docker, base = docker_images.docker, docker_images.base
build_environment = docker_images.build_environment
place, tfds, project = docker_images.place, docker_images.tfds, docker_images.project


@pytest.fixture(scope="session")
def images(build_environment) -> dict[str, str]:
    """Target → name of the image of this tree, built by `make image`."""
    names = {target: f"mixed-precision-test:{target}" for target in TARGETS}
    for target, name in names.items():
        started = time.perf_counter()
        run("make", "image", f"TARGET={target}", IMAGE=name, **build_environment)
        print(f"{name}: {time.perf_counter() - started:.0f} s")
    return names


@pytest.fixture(scope="session")
def finished(images, docker, project, place, tfds) -> Path:
    """The study, run in the image for CPUs: a git worktree whose DVC cache lies outside it."""
    folder = place / "worktree"
    as_stranger("git", "worktree", "add", "--quiet", folder, folder=project)
    (folder / ".dvc" / "config.local").write_text(f"['remote \"r\"']\n    url = /r\n[cache]\n    dir = {place}/cache\n")
    give_away(folder / ".dvc")
    done = as_stranger(
        *("make", "repro-in-container", "TARGET=cpu"),
        folder=folder,
        DOCKER=docker,
        IMAGE=images["cpu"],
        TFDS_DATA_DIR=str(tfds),
        RUN_OPTIONS="--network none",
    )
    assert "results/report.html is written" in done.stdout
    return folder


def read_record(folder: Path, variant: str = "float32") -> dict:
    return json.loads((folder / "runs" / "small_dense" / variant / "seed-0" / "record.json").read_text())


def losses(folder: Path, variant: str = "float32") -> list[float]:
    lines = (folder / "runs" / "small_dense" / variant / "seed-0" / "epochs.csv").read_text().splitlines()
    column = lines[0].split(",").index("train_loss")
    return [float(line.split(",")[column]) for line in lines[1:]]


def identity(docker: str, image: str) -> dict:
    return json.loads(output(docker, "run", "--rm", image, "cat", "/etc/mixed-precision-image.json"))


def test_the_results_belong_to_the_caller(finished, place):
    assert (finished / "results" / "report.html").stat().st_size > 10_000
    made = [path for name in ("data", "runs", "results", ".cache", ".dvc") for path in (finished / name).rglob("*")]
    made += list((place / "cache").rglob("*"))
    assert len(made) > 50
    assert {path.lstat().st_uid for path in made} == {owner()}
    assert not (finished / ".dvc" / "cache").exists()


def test_only_the_workspace_and_tmp_are_writable(images, docker, finished):
    script = "id -u; touch /opt/venv/x /etc/x /usr/x /root/x 2>&1; touch /tmp/x .dvc/tmp/x && echo both"
    command = ("deploy/container/run.sh", "cpu", "sh", "-c", script)
    printed = as_stranger(*command, folder=finished, DOCKER=docker, IMAGE=images["cpu"]).stdout.splitlines()
    lines = [line for line in printed if not line.startswith("note:")]  # of a tree with uncommitted changes
    assert lines[0] == str(owner())
    assert sum("Read-only file system" in line for line in lines) >= 3
    assert lines[-1] == "both"


def test_an_interrupt_ends_every_process_in_the_container(ready, clone):
    command = ["deploy/container/run.sh", "cpu", "sh", "-c", "echo started; sleep 100; echo not reached"]
    restored = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background start ignores it
    with subprocess.Popen(
        command, cwd=clone, env=ENVIRONMENT | ready, stdout=subprocess.PIPE, text=True, preexec_fn=restored
    ) as process:
        assert next(line for line in process.stdout if not line.startswith("note:")) == "started\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    assert rest == ""
    assert process.returncode == 130


def test_the_records_name_the_image(finished, docker, images):
    for variant in ("float32", "mixed"):
        environment = read_record(finished, variant)["environment"]
        image = environment["image"]
        digest = image.pop("digest")
        assert image == identity(docker, images["cpu"])
        assert digest == output(docker, "image", "inspect", "--format", "{{.Id}}", images["cpu"])
        assert environment["lock_sha256"] == sha256(REPOSITORY / "requirements" / "cpu.txt")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_run_in_the_container_matches_one_outside(finished, tmp_path):
    """The same initial weights, the same data, and losses equal within the tolerance above."""
    outside = tmp_path / "outside"
    shutil.copytree(finished, outside, ignore=shutil.ignore_patterns("runs", ".cache", ".git", ".dvc"))
    command = ["-m", "stages.train", "--benchmark", "small_dense", "--run", "float32/0"]
    run(sys.executable, *command, folder=outside)
    here, there = read_record(outside), read_record(finished)
    assert here["environment"]["image"] is None
    assert here["environment"]["lock_sha256"] == there["environment"]["lock_sha256"]
    for field in ("initial_weights_sha256", "data_sha256", "num_parameters"):
        assert there[field] == here[field]
    assert losses(finished) == pytest.approx(losses(outside), rel=LOSS_TOLERANCE)
    assert there["scores"]["test_loss"] == pytest.approx(here["scores"]["test_loss"], rel=LOSS_TOLERANCE)


@pytest.mark.parametrize("target", ["cuda-jax", "tpu"])
def test_the_study_gives_the_same_results_on_jax(images, docker, project, place, tfds, finished, target):
    """An accelerator's image on a CPU, in a clone: the weights and losses match those of TensorFlow."""
    folder = place / f"clone-{target}"
    as_stranger("git", "clone", "--quiet", project, folder, folder=project)
    done = as_stranger(
        *("make", "repro-in-container", f"TARGET={target}"),
        folder=folder,
        DOCKER=docker,
        IMAGE=images[target],
        TFDS_DATA_DIR=str(tfds),
        JAX_PLATFORMS="cpu",
    )
    assert "results/report.html is written" in done.stdout
    record, other = read_record(folder), read_record(finished)
    assert record["environment"]["runtime"] == target
    assert "jax" in record["environment"]["packages"]
    assert record["environment"]["image"]["target"] == target
    assert record["environment"]["lock_sha256"] == sha256(REPOSITORY / "requirements" / f"{target}.txt")
    for field in ("initial_weights_sha256", "data_sha256"):
        assert record[field] == other[field]
    assert losses(folder) == pytest.approx(losses(finished), rel=1e-3)


def test_without_a_gpu_the_cuda_image_uses_the_cpu(docker, images):
    program = "import tensorflow as tf; print(tf.test.is_built_with_cuda(), tf.config.list_physical_devices('GPU'))"
    assert output(docker, "run", "--rm", images["cuda"], "python", "-c", program) == "True []"


def test_the_loader_in_the_cuda_image_finds_the_cuda_libraries(docker, images):
    found = output(docker, "run", "--rm", images["cuda"], "ldconfig", "-p")
    for library in ("libcudart.so.12", "libcublas.so.12", "libcudnn.so.9", "libcufft.so.11", "libnccl.so.2"):
        assert f"{library} (" in found, library


@pytest.mark.parametrize("target", TARGETS)
def test_the_code_in_the_image_works_without_a_checkout(docker, images, target):
    options = ["--rm", "--user", str(STRANGER), "--read-only"]
    shown = output(docker, "run", *options, images[target], "python", "-m", "stages.train", "--help")
    assert "--benchmark" in shown


# --- What is inside ---


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_small_and_records_its_target_and_commit(docker, images, target):
    details = json.loads(output(docker, "image", "inspect", images[target]))[0]
    assert details["Size"] < MAX_GIGABYTES[target] * 1e9
    labels = details["Config"]["Labels"]
    assert labels["org.opencontainers.image.revision"] == output("git", "rev-parse", "HEAD")
    description = identity(docker, images[target])
    assert list(description) == ["target", "base", "content_sha256", "commit", "dirty"]
    assert description["target"] == target
    assert description["dirty"] is bool(output("git", "status", "--porcelain"))
    assert description["commit"] == labels["org.opencontainers.image.revision"]


@pytest.mark.parametrize("target", TARGETS)
def test_no_build_tool_is_left_in_an_image(docker, images, target):
    script = """
        for tool in cc gcc g++ c++ clang ld nvcc pip pip3 uv; do command -v $tool; done
        python -c 'import pip' 2>/dev/null && echo pip
        find /opt/uv /var/cache/uv /var/cache/apt /var/lib/apt/lists /root/.cache /tmp /run/ca.pem -type f 2>/dev/null
        find / -xdev \\( -name '*.deb' -o -name '*.whl' -o -name 'ca-certificates*' \\) -print
        true
    """
    assert not output(docker, "run", "--rm", images[target], "sh", "-c", script).strip()


@pytest.mark.parametrize("target", TARGETS)
def test_no_image_layer_keeps_the_build_certificate(docker, images, target):
    """Layers, because what a later one deletes is still in an earlier one."""
    layers = json.loads(output(docker, "image", "inspect", "--format", "{{json .GraphDriver.Data}}", images[target]))
    folders = [*layers["LowerDir"].split(":"), layers["UpperDir"]]
    mounts = [f"--volume={folder}:/layers/{index}:ro" for index, folder in enumerate(folders)]
    script = (
        f"find /layers -type f -size -4M -exec grep -lF '{MARKER}' {{}} +; ls -d /layers/*/opt/mixed-precision/stages"
    )
    found = output(docker, "run", "--rm", "--user", "0", *mounts, images[target], "sh", "-c", script).splitlines()
    assert len(found) == 1, found  # the project, to see that something was searched


# --- Builds ---


@pytest.fixture
def clone(tmp_path) -> Path:
    """A clone of the last commit, with what has changed since committed too."""
    folder = tmp_path / "project"
    run("git", "clone", "--quiet", REPOSITORY, folder)
    for name in output("git", "ls-files", "-mo", "--exclude-standard").splitlines():
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    if output("git", "status", "--porcelain", folder=folder):
        commit(folder)
    return folder


def test_an_image_is_rebuilt_in_seconds_after_a_code_change(docker, images, build_environment, clone):
    with (clone / "stages" / "summary.py").open("a") as file:
        file.write("# edited\n")
    name = "mixed-precision-test:edited"
    started = time.perf_counter()
    done = run("deploy/container/build.sh", "cuda", folder=clone, IMAGE=name, **build_environment)
    assert time.perf_counter() - started < 30
    try:
        assert "the tree differs from its last commit" in done.stdout
        edited, image = identity(docker, name), identity(docker, images["cuda"])
        assert edited["dirty"] is True
        assert edited["content_sha256"] == image["content_sha256"]
        assert output(docker, "run", "--rm", name, "tail", "-n", "1", "stages/summary.py") == "# edited"
    finally:
        run(docker, "image", "rm", name)


# --- Messages; tests/stages/test_container.py has those that need no Docker ---


def refused(*command: str | Path, folder: Path, **changes: str) -> str:
    done = run(*command, folder=folder, succeeds=False, **changes)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


@pytest.fixture
def ready(docker, images, tmp_path) -> dict[str, str]:
    """The environment in which a study would run."""
    return {"DOCKER": docker, "IMAGE": images["cpu"], "HOME": str(tmp_path)}


def test_starting_the_tpu_image_without_a_tpu_is_refused(clone, ready, images):
    message = refused("deploy/container/run.sh", "tpu", folder=clone, **ready | {"IMAGE": images["tpu"]})
    assert "there is no TPU here (no /dev/accel*, no /dev/vfio/*); run this on a TPU VM" in message


def test_a_workspace_owned_by_another_user_is_refused(clone, ready):
    os.chown(clone, STRANGER + 1, -1)
    message = refused("deploy/container/run.sh", "cpu", folder=clone, **ready)
    assert f"{clone} belongs to" in message
    assert "run this as its owner, or in a clone of your own" in message
