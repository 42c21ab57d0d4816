"""The manifests, as kustomize renders them: they fit Kubernetes' schemas, the study, and each other."""

import json
import os
import re
import subprocess

import kubernetes_validate
import pytest
from manifests import MANIFESTS, OLDEST, cron_jobs, pod, rendered
from studies import composed

from pipeline.campaign.fan_out import shared_stages
from pipeline.study.configuration import validate
from pipeline.study.schema import Study

PROFILES = {"cpu": "quick", "nvidia": "paper", "tpu": "tpu"}
PLACES = ("shared", "remote")


def containers(overlay: str, place: str) -> list[dict]:
    pods = [pod(cron_job) for cron_job in cron_jobs(overlay, place).values()]
    return [container for found in pods for container in found["initContainers"] + found["containers"]]


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("overlay", PROFILES)
def test_the_objects_fit_the_schemas(overlay, place, version):
    kinds = []
    for found in rendered(overlay, place):
        kubernetes_validate.validate(found, version, strict=True)
        kinds.append(found["kind"])
    claims = ["PersistentVolumeClaim"] if place == "shared" else []
    assert sorted(kinds) == ["ConfigMap", "ConfigMap", "CronJob", "CronJob", "Namespace", *claims]


@pytest.mark.parametrize("overlay", PROFILES)
def test_a_job_has_an_element_for_each_stage_of_its_profile(overlay):
    """Read without kustomize, because a change of the study must be noticed everywhere."""
    study = validate(Study, composed(f"profile={PROFILES[overlay]}"), PROFILES[overlay])
    text = (MANIFESTS / "overlays" / overlay / "kustomization.yaml").read_text()
    assert re.findall(r"completions: (\d+)", text) == [str(len(shared_stages(study)))]
    for number, profile in re.findall(r"; (\d+) of (\w+)$", text, re.MULTILINE):
        other = validate(Study, composed(f"profile={profile}"), profile)
        assert len(shared_stages(other)) == int(number)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("overlay", PROFILES)
def test_nothing_is_allowed_that_is_not_needed(overlay, place):
    for cron_job in cron_jobs(overlay, place).values():
        found = pod(cron_job)
        assert found["automountServiceAccountToken"] is False
        assert not {"serviceAccountName", "hostNetwork", "hostPID", "hostIPC"} & set(found)
        context = found["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not any("hostPath" in volume for volume in found["volumes"])
    for container in containers(overlay, place):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"]["requests"])
        assert {"cpu", "memory", "ephemeral-storage"} <= set(container["resources"]["limits"])
        assert {"tmp", "home"} <= {mount["name"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("overlay", PROFILES)
def test_images_are_named_by_digest_and_records_say_so(overlay):
    for container in containers(overlay, "shared"):
        assert re.fullmatch(r"[a-z0-9./-]+@sha256:[0-9a-f]{64}", container["image"])
        assert {"name": "IMAGE_DIGEST", "value": container["image"]} in container["env"]


@pytest.mark.parametrize("overlay", PROFILES)
def test_both_jobs_are_of_one_schedule_and_the_collector_outlasts_the_runs(overlay):
    run, collect = (cron_jobs(overlay)[name]["spec"] for name in ("campaign-run", "campaign-collect"))
    for field in ("schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds"):
        assert run[field] == collect[field]
    assert run["concurrencyPolicy"] == "Forbid"
    settings = next(found["data"] for found in rendered(overlay, "shared") if "WAIT_SECONDS" in found.get("data", {}))
    longest = [found["jobTemplate"]["spec"]["activeDeadlineSeconds"] for found in (run, collect)]
    assert longest[0] < int(settings["WAIT_SECONDS"]) < longest[1]


def test_an_overlay_asks_for_its_accelerator_for_the_runs_alone():
    for overlay, resource in (("nvidia", "nvidia.com/gpu"), ("tpu", "google.com/tpu")):
        run, collect = (pod(cron_jobs(overlay)[name]) for name in ("campaign-run", "campaign-collect"))
        assert run["containers"][0]["resources"]["limits"][resource] == 1
        assert run["tolerations"] == [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
        assert resource not in json.dumps(collect)
        assert resource not in json.dumps(run["initContainers"])
    assert set(pod(cron_jobs("tpu")["campaign-run"])["nodeSelector"]) == {
        "cloud.google.com/gke-tpu-accelerator",
        "cloud.google.com/gke-tpu-topology",
    }


@pytest.mark.parametrize(
    ("job", "campaign"),
    [
        ("campaign-run-29412180", "2025-12-03-0300"),
        ("campaign-collect-29412180", "2025-12-03-0300"),
        ("prefixed-campaign-collect-29412180", "2025-12-03-0300"),
        ("campaign-run-first", "first"),
        ("campaign-run-20261201", "20261201"),
        ("campaign-collect-2026-12-01-0300", "2026-12-01-0300"),
    ],
)
def test_both_jobs_give_the_campaign_one_name(job, campaign):
    """The scheduled minute is 03:00 UTC of December 3. The script says which folder it does not find."""
    environment = {"PATH": os.environ["PATH"], "JOB_NAME": job, "WAIT_SECONDS": "0", "TZ": "Asia/Tokyo"}
    command = ["bash", str(MANIFESTS / "base" / "campaign.sh"), "collect"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"/workspace/checkout/.campaigns/{campaign}/collector: No such file" in done.stderr
