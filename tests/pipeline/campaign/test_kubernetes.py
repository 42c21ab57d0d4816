"""The manifest for Kubernetes fits the schemas, the study, and what a pod may do. tests/cluster runs its command."""

import re

import kubernetes_validate
import pytest
import yaml
from conftest import REPOSITORY

from pipeline.campaign.jobs import elements
from pipeline.study.schema import load_study

MANIFEST = REPOSITORY / "deploy" / "kubernetes" / "campaign.yaml"
OBJECTS = {found["kind"]: found for found in yaml.safe_load(MANIFEST.read_text())["items"]}
JOB = OBJECTS["Job"]["spec"]
POD = JOB["template"]["spec"]
(CONTAINER,) = POD["containers"]
OLDEST = "1.29"  # whose Indexed Jobs have backoffLimitPerIndex


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("kind", OBJECTS)
def test_every_object_in_the_manifest_fits_its_schema(kind, version):
    kubernetes_validate.validate(OBJECTS[kind], version, strict=True)


def test_a_job_has_one_index_per_element_and_time_for_the_last_to_wait():
    assert JOB["completions"] == len(elements(load_study(REPOSITORY / "params.yaml")))
    assert JOB["parallelism"] > 1
    (wait_seconds,) = re.findall(r"--wait (\d+)", CONTAINER["command"][-1])
    assert int(wait_seconds) < JOB["activeDeadlineSeconds"]
