"""What trains a study that names no engine, by the hardware that is here, and at which size `quick` then runs."""

import json
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pynvml
import pytest
from conftest import ENVIRONMENT, REPOSITORY
from nvml import show

from pipeline.comparison.comparable import surroundings
from pipeline.files import yaml_files
from pipeline.machine import environment, hardware
from pipeline.records.schema import as_environment
from pipeline.study.schema import load_study
from stages import compose, runtime

V100, H100 = ("Tesla V100-SXM2-16GB", "7.0"), ("NVIDIA H100 80GB HBM3", "9.0")
B200, RTX_5090 = ("NVIDIA B200", "10.0"), ("NVIDIA GeForce RTX 5090", "12.0")


@pytest.fixture(autouse=True)
def on_x86(monkeypatch):
    monkeypatch.setattr(runtime.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(hardware, "has_tpu", lambda: False)


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    shutil.copytree(REPOSITORY / "conf", tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    compose.main(Namespace(settings=[], runtime=None))
    return tmp_path


def finish_a_run(folder: Path) -> None:
    path = folder / "runs/mnist_dense/float32/seed-0/record.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")


def asked(capsys, *, here: bool = False, tell: bool = False, profile: str | None = None) -> str:
    """What Make is told: the packages and, of what is here, what it takes or the line that says why."""
    runtime.main(Namespace(profile=profile, here=here or tell))
    said, *more = capsys.readouterr().out.strip().split(" ", 2)
    return more[1] if tell else " ".join([said, *more[:1]])


@pytest.mark.parametrize(
    ("gpus", "engine", "why"),
    [
        ([], "cpu", "found no GPU and no TPU: ENGINE=cpu"),
        ([V100], "cuda", "found Tesla V100-SXM2-16GB, compute capability 7.0: ENGINE=cuda"),
        ([H100], "cuda", "compute capability 9.0: ENGINE=cuda"),
        ([B200], "cuda-jax", "since TensorFlow's packages end at compute capability 9.0"),
        ([RTX_5090], "cuda-jax", "since TensorFlow's packages end at compute capability 9.0"),
        ([H100, B200], "cuda", "found 2 GPUs, the first of them NVIDIA H100"),
        ([("NVIDIA GeForce GTX 980", "5.2")], "cpu", "packages for GPUs begin at compute capability 6.0"),
    ],
)
@pytest.mark.usefixtures("project")
def test_an_nvidia_gpu_trains_by_the_packages_that_have_kernels_for_it(monkeypatch, capsys, gpus, engine, why):
    show(monkeypatch, *gpus)
    assert asked(capsys, here=True) == f"cpu {engine}"
    line = asked(capsys, tell=True)
    assert why in line
    assert "To choose another: make repro ENGINE=" in line
    assert "\n" not in line


@pytest.mark.usefixtures("project")
def test_a_driver_that_answers_with_an_error_is_quoted_and_the_cpu_trains(monkeypatch, capsys):
    show(monkeypatch, H100, fault=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    assert asked(capsys, here=True) == "cpu cpu"
    assert "(NVIDIA's driver answers: " in asked(capsys, tell=True)
    show(monkeypatch, fault=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)  # which is no error where there is no GPU
    assert "driver" not in asked(capsys, tell=True)


@pytest.mark.usefixtures("project")
def test_a_gpu_that_is_hidden_is_not_taken(monkeypatch, capsys):
    show(monkeypatch, B200, H100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert asked(capsys, here=True) == "cpu cuda"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert asked(capsys, here=True) == "cpu cpu"


def test_a_part_of_a_gpu_has_the_capability_of_the_whole(monkeypatch):
    show(monkeypatch, H100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    for name, function in {
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceIsMigDeviceHandle": lambda handle: handle == "MIG-1",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda _: 0,
        "nvmlDeviceGetName": lambda handle: f"a part: {handle}",
    }.items():
        monkeypatch.setattr(pynvml, name, function)
    (part,) = hardware.gpus()
    assert (part.name, part.compute_capability) == ("a part: MIG-1", 9.0)


@pytest.mark.usefixtures("project")
def test_packages_for_gpus_are_for_one_architecture(monkeypatch, capsys):
    show(monkeypatch, H100)
    monkeypatch.setattr(runtime.platform, "machine", lambda: "aarch64")
    assert asked(capsys, here=True) == "cpu cpu"
    assert "not for aarch64" in asked(capsys, tell=True)


@pytest.mark.usefixtures("project")
def test_a_tpu_trains_by_jax(monkeypatch, capsys):
    show(monkeypatch)
    monkeypatch.setattr(hardware, "has_tpu", lambda: True)
    assert asked(capsys, here=True) == "cpu tpu"
    assert "found TPU: ENGINE=tpu" in asked(capsys, tell=True)


def test_a_study_that_names_an_accelerator_or_has_finished_runs_stays_as_it_is(monkeypatch, capsys, project):
    show(monkeypatch, H100)
    assert asked(capsys, here=True, profile="paper") == "cpu cuda"
    assert asked(capsys, here=True, profile="paper_jax") == "cuda-jax cuda-jax"
    assert asked(capsys, here=True, profile="tpu") == "tpu tpu"
    finish_a_run(project)
    assert asked(capsys, here=True) == asked(capsys, here=True, profile="quick") == "cpu cpu"
    assert "ENGINE=cpu, as the finished runs of this study" in asked(capsys, tell=True)
    assert asked(capsys, here=True, profile="paper") == "cpu cuda"  # which has none
    compose.main(Namespace(settings=[], runtime="cuda"))
    show(monkeypatch)
    capsys.readouterr()
    assert asked(capsys, here=True, profile="quick") == "cpu cuda"  # where its runs were made


@pytest.mark.usefixtures("project")
def test_who_does_not_ask_for_what_is_here_is_told_what_the_study_says(monkeypatch, capsys):
    """A campaign, say, whose login node may have a GPU."""
    show(monkeypatch, H100)
    assert asked(capsys) == "cpu"


def test_detection_imports_neither_a_framework_nor_what_is_not_there_yet():
    """At the first set-up there is a parser, NVML and Python."""
    script = "import sys; from stages import runtime; print(*(name.partition('.')[0] for name in sys.modules))"
    done = environment.subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    there = sys.stdlib_module_names | {"pipeline", "stages", "ruamel", "pynvml", "__main__", "sitecustomize"}
    third_party = {name for name in done.stdout.split() if not name.startswith("_")} - there
    assert not third_party & {"numpy", "pydantic", "psutil", "rich", "keras", "tensorflow", "jax"}


@pytest.mark.parametrize(("gpu", "name", "full"), [(H100, "cuda", "paper"), (B200, "cuda-jax", "paper_jax")])
def test_on_an_accelerator_quick_takes_the_sizes_of_the_sources(monkeypatch, capsys, project, gpu, name, full):
    show(monkeypatch, gpu)
    before, paper = load_study(), yaml_files.load(project / "conf/base.yaml")["benchmarks"]
    compose.main(Namespace(settings=[], runtime=name))
    assert f"make repro PROFILE={full}" in capsys.readouterr().out
    study = load_study()
    assert (study.profile, study.runtime) == ("quick", name)
    for benchmark, recipe in study.benchmarks.items():
        source = paper[benchmark]
        assert (recipe.image_size, recipe.batch_size) == (source["image_size"], source["batch_size"])
        assert recipe.num_epochs == source["num_epochs"]
        assert (recipe.dataset, recipe.split) == (
            before.benchmarks[benchmark].dataset,
            before.benchmarks[benchmark].split,
        )
    assert study.benchmarks["mnist_dense"].model.units == 4096
    assert study.benchmarks["cifar100_efficientnet_b0"].model.depth is None
    said = json.dumps(study.deviations, ensure_ascii=False)
    assert "64 units" not in said
    assert "32 × 32" not in said
    first = Path("params.yaml").read_text()
    compose.main(Namespace(settings=["profile=quick"], runtime=name))
    assert Path("params.yaml").read_text() == first
    compose.main(Namespace(settings=[], runtime="cpu"))  # who names another engine gets its size
    assert load_study() == before


def test_where_there_is_no_accelerator_and_in_a_study_that_was_edited_sizes_stay(monkeypatch, project):
    show(monkeypatch)
    before = load_study().benchmarks
    compose.main(Namespace(settings=[], runtime="cuda"))
    assert load_study().benchmarks == before
    show(monkeypatch, H100)
    values = yaml_files.load(project / "params.yaml")
    values["benchmarks"]["mnist_dense"]["num_epochs"] = 7
    (project / "params.yaml").write_text(yaml_files.dump(values))
    compose.main(Namespace(settings=[], runtime="cpu"))
    compose.main(Namespace(settings=[], runtime="cuda"))
    recipe = load_study().benchmarks["mnist_dense"]
    assert (recipe.num_epochs, recipe.model.units) == (7, 64)


def test_a_record_says_which_gpu_it_was_and_another_of_the_kind_is_comparable(monkeypatch):
    def on(*places: int):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, places)))
        accelerators = [{"kind": "gpu", "name": H100[0], "compute_capability": "9.0"} for _ in places]
        return as_environment(environment.describe("cuda", accelerators, {}, "cuDNN"))

    monkeypatch.setattr(environment, "driver", lambda: "590.1")
    show(monkeypatch, H100, H100)
    first, second = on(0), on(1)
    assert [found["accelerators"][0]["uuid"] for found in (first, second)] == ["GPU-0", "GPU-1"]
    assert surroundings(first) == surroundings(second)
    assert [gpu["uuid"] for gpu in on(1, 0)["accelerators"]] == ["GPU-1", "GPU-0"]


def test_records_that_do_not_say_which_gpu_it_was_are_read():
    gpu = {"kind": "gpu", "name": H100[0], "compute_capability": "9.0", "memory_bytes": 2**36}
    assert as_environment(ENVIRONMENT | {"accelerators": [gpu]})["accelerators"] == [gpu]
