"""The manifest for Kubernetes fits the schemas, the study, and what a pod may do. tests/cluster runs its command."""

import re

import kubernetes_validate
import pytest
import yaml
from conftest import REPOSITORY

from pipeline.campaign.elements import elements
from pipeline.study.schema import load_study

MANIFEST = REPOSITORY / "deploy" / "kubernetes" / "campaign.yaml"
OBJECTS = {found["kind"]: found for found in yaml.safe_load(MANIFEST.read_text())["items"]}
JOB = OBJECTS["Job"]["spec"]
POD = JOB["template"]["spec"]
(CONTAINER,) = POD["containers"]
OLDEST = "1.29"  # whose Indexed Jobs have backoffLimitPerIndex


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("kind", OBJECTS)
def test_the_objects_fit_the_schemas(kind, version):
    kubernetes_validate.validate(OBJECTS[kind], version, strict=True)


def test_one_scheduled_job_at_a_time_shares_the_volume_with_all_its_pods():
    assert OBJECTS["CronJob"]["spec"]["concurrencyPolicy"] == "Forbid"
    assert OBJECTS["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_job_has_an_index_for_each_element_of_the_study_and_the_last_one_may_wait():
    assert JOB["completions"] == len(elements(load_study(REPOSITORY / "params.yaml")))
    assert JOB["parallelism"] > 1
    (wait_seconds,) = re.findall(r"--wait (\d+)", CONTAINER["command"][-1])
    assert int(wait_seconds) < JOB["activeDeadlineSeconds"]


def test_nothing_is_allowed_that_is_not_needed():
    assert POD["automountServiceAccountToken"] is False
    assert not {"serviceAccountName", "hostNetwork", "hostPID", "hostIPC"} & set(POD)
    context = POD["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert re.fullmatch(r"[a-z0-9./-]+@sha256:[0-9a-f]{64}", CONTAINER["image"])
