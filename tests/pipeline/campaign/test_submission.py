"""Submission of a campaign to Slurm, and the collector's waiting. tests/cluster has a real Slurm."""

import time

import pytest
import yaml
from conftest import REPOSITORY, small_study, write_data
from projects import link_code, program, stage

from pipeline.campaign.jobs import Cluster, elements, missing_elements, split
from pipeline.errors import InputError
from pipeline.machine.left_out import write_left_out
from pipeline.study.configuration import read
from stages import collect
from stages.campaign import submit

CLUSTER = REPOSITORY / "deploy" / "slurm" / "cluster.yaml"
EVERY = elements(small_study())  # 18 runs, numerics, two speeds, the collector


def test_only_missing_elements_are_submitted():
    cluster = read(Cluster, CLUSTER)
    others, speeds = split([0, 3, 18, 20], EVERY)
    assert cluster.run_options(others)[0] == "--array=0,3,18%8"
    assert cluster.speed_options(speeds)[0] == "--array=20%8"
    assert "--exclusive" in cluster.speed_options(speeds)
    assert "--exclusive" not in cluster.run_options(others)


def test_variants_left_out_on_this_hardware_are_not_missing(workspace, monkeypatch):
    """Until a run is made, nobody knows: the head of a cluster may have other hardware."""
    (workspace / "pipeline").symlink_to(REPOSITORY / "pipeline")
    monkeypatch.chdir(workspace)
    variants = {name: {"policy": name, "batch_multiplier": 1} for name in ("float32", "tf32")}
    study = small_study(variants=variants, seeds=[0])
    every = elements(study)
    assert missing_elements(study) == list(range(len(every) - 1))
    write_left_out(study, "wide")  # as a run does
    missing = [every[number] for number in missing_elements(study)]
    assert [element for element in missing if element[0] == "train"] == [
        ("train", "--benchmark", benchmark, "--run", "float32/0") for benchmark in ("wide", "narrow")
    ]


def test_speeds_are_measured_one_by_one_if_jobs_share_nodes():
    cluster = read(Cluster, CLUSTER).model_copy(update={"exclusive_speed": False})
    options = cluster.speed_options([19, 20])
    assert options[0] == "--array=19,20%1"
    assert "--exclusive" not in options


def test_a_gpu_study_is_refused_if_the_cluster_file_requests_no_gpus():
    cluster = read(Cluster, CLUSTER)
    cluster.check("cpu")
    with pytest.raises(InputError, match="gpus: jobs ask for none"):
        cluster.check("nvidia_gpu")
    cluster.model_copy(update={"gpus": 1}).check("nvidia_gpu")


def test_without_slurm_no_campaign_folder_is_made(tmp_path):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_study().model_dump(mode="json")))
    done = stage(tmp_path, "campaign", "--campaign", "c", "--cluster", str(CLUSTER))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "sbatch is not on the path: submit from a machine of the Slurm cluster" in done.stderr
    assert not (tmp_path / "campaigns").exists()


def test_the_collector_waits_for_missing_elements_until_its_time_limit(monkeypatch):
    answers = [[1, 2], [2], []]
    monkeypatch.setattr(collect, "missing_elements", lambda *_, **__: answers.pop(0))
    monkeypatch.setattr(collect, "POLL_SECONDS", 0.01)
    assert collect.wait_for_elements(small_study(), 60.0) == []
    monkeypatch.setattr(collect, "missing_elements", lambda *_, **__: [2])
    started = time.monotonic()
    assert collect.wait_for_elements(small_study(), 0.1) == [2]
    assert 0.1 <= time.monotonic() - started < 5


def test_a_failed_submission_names_the_jobs_already_accepted(tmp_path, monkeypatch):
    """A stand-in for Slurm numbers its jobs and accepts only two."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_study(campaign="c").model_dump(mode="json")))
    (tmp_path / "cluster.yaml").write_text(CLUSTER.read_text())
    write_data(tmp_path)
    link_code(tmp_path)
    count = tmp_path / "count"
    program(tmp_path / "bin" / "squeue", "true")
    taken = f'[ "$(wc -c < {count})" -ge 2 ] && {{ echo "sbatch: error: no such partition" >&2; exit 1; }}'
    program(tmp_path / "bin" / "sbatch", f"touch {count}; {taken}; printf x >> {count}; echo 4$(wc -c < {count})")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"(?s)no such partition.*scancel 41 42 takes"):
        submit()
