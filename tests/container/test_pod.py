"""The pods of a campaign on Kubernetes, run by Docker as their manifests say: user, root file system, capabilities,
volumes. There is no Kubernetes: what starts pods, and when, is not tested.
"""

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from container.docker_images import output, run
from manifests import cron_jobs, pod, rendered
from projects import commit

from container import docker_images
from pipeline.campaign.fan_out import campaign_seeds

docker, base = docker_images.docker, docker_images.base
build_environment = docker_images.build_environment
place, tfds, project = docker_images.place, docker_images.tfds, docker_images.project
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="volumes are given to the user of the pods, which needs root")
IMAGE = "mixed-precision-test:cpu"
SCHEDULED_MINUTE = 29412180
CAMPAIGN = "2025-12-03-0300"


@pytest.fixture(scope="session")
def image(build_environment) -> str:
    run("make", "image", "TARGET=cpu", IMAGE=IMAGE, **build_environment)
    return IMAGE


class Cluster:
    """Runs pods of the rendered manifests. `workspace` stands for the volume that pods share, if they do.

    `offered` is what lies outside of the cluster: the repository, data sets, DVC's remote.
    """

    def __init__(self, docker: str, image: str, meeting_place: str, folder: Path, offered: dict[str, str]):
        self.docker, self.image, self.meeting_place, self.folder = docker, image, meeting_place, folder
        self.offered = offered
        self.config = {
            found["metadata"]["name"]: found["data"]
            for found in rendered("cpu", meeting_place)
            if found["kind"] == "ConfigMap"
        }
        self.num_pods = 0

    def start(self, cron_job: str, **environment: str):
        """A pod of the job: its init containers, then its container. Returns the last one that ran."""
        spec = pod(cron_jobs("cpu", self.meeting_place)[cron_job])
        self.num_pods += 1
        volumes = {volume["name"]: self._volume(volume, spec, self.num_pods) for volume in spec["volumes"]}
        for container in spec["initContainers"] + spec["containers"]:
            done = self._run(container, spec, volumes, environment | {"JOB_NAME": f"{cron_job}-{SCHEDULED_MINUTE}"})
            if done.returncode:
                break
        return done

    def _volume(self, volume: dict, spec: dict, number: int) -> Path:
        shared = "persistentVolumeClaim" in volume
        folder = self.folder / (volume["name"] if shared else f"{volume['name']}-{number}")
        folder.mkdir(exist_ok=True)
        if "configMap" in volume:
            for name, text in self.config[volume["configMap"]["name"]].items():
                (folder / name).write_text(text)
        elif "secret" in volume and not volume["secret"].get("optional"):
            (folder / "dvc").write_text("[core]\n    autostage = false\n")
            (folder / "dvc").chmod(volume["secret"]["defaultMode"])
            os.chown(folder / "dvc", 0, spec["securityContext"]["fsGroup"])
        else:  # as fsGroup has it
            os.chown(folder, 0, spec["securityContext"]["fsGroup"])
            folder.chmod(0o2777 if "emptyDir" in volume else 0o2775)
        return folder

    def _run(self, container: dict, spec: dict, volumes: dict[str, Path], environment: dict[str, str]):
        context, inside = spec["securityContext"], container["securityContext"]
        assert inside["readOnlyRootFilesystem"]
        assert not inside["allowPrivilegeEscalation"]
        options = ["--rm", "--network=none", "--read-only", "--security-opt=no-new-privileges"]
        options += [f"--cap-drop={name}" for name in inside["capabilities"]["drop"]]
        options += [f"--user={context['runAsUser']}:{context['runAsGroup']}", f"--group-add={context['fsGroup']}"]
        options += [f"--memory={container['resources']['limits']['memory'].removesuffix('i')}"]
        options += [f"--workdir={container['workingDir']}"]
        for mount in container["volumeMounts"]:
            mode = ":ro" if mount.get("readOnly") else ""
            options.append(f"--volume={volumes[mount['name']]}:{mount['mountPath']}{mode}")
        settings = dict(self.config[container["envFrom"][0]["configMapRef"]["name"]])
        settings |= {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
        settings |= {"GIT_URL": "/origin.git", "TFDS_DATA_DIR": "/tfds"} | environment
        options += [f"--env={name}={value}" for name, value in settings.items()]
        options += [f"--volume={where}" for where in self.offered.values()]
        command = [self.docker, "run", *options, self.image, *container["command"]]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(params=["shared", "remote"])
def cluster(request, docker, image, project, tfds) -> Cluster:
    """What a campaign finds: a repository with a small study of two runs, data sets, and for `remote` a DVC remote."""
    folder = place_for(request.param, tfds.parent)
    clone, origin = folder / "clone", folder / "origin.git"
    shutil.copytree(project, clone)  # which belongs to who runs the tests
    offered = {"origin": f"{origin}:/origin.git", "tfds": f"{tfds}:/tfds:ro"}
    if request.param == "remote":
        (folder / "remote").mkdir()
        with (clone / ".dvc" / "config").open("a") as file:
            file.write("['remote \"meeting\"']\n    url = /remote\n")
        text = (clone / ".dvc" / "config").read_text().replace("[core]\n", "[core]\n    remote = meeting\n")
        (clone / ".dvc" / "config").write_text(text)
        offered["remote"] = f"{folder / 'remote'}:/remote"
        commit(clone)
    output("git", "clone", "--quiet", "--bare", clone, origin, folder=folder)
    user = pod(cron_jobs("cpu", request.param)["campaign-run"])["securityContext"]["runAsUser"]
    for path in (origin, *origin.rglob("*"), folder / "remote"):
        if path.exists():
            os.chown(path, user, user)
    return Cluster(docker, image, request.param, folder, offered)


def place_for(name: str, parent: Path) -> Path:
    folder = parent / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    return folder


def test_the_pods_of_a_campaign(cluster):
    """Four elements, two at a time, one of them twice; then the collector, which is of the same schedule."""
    with ThreadPoolExecutor(2) as pool:
        elements = list(
            pool.map(lambda index: cluster.start("campaign-run", JOB_COMPLETION_INDEX=str(index)), range(4))
        )
    for element in elements:
        assert element.returncode == 0, element.stdout + element.stderr
    again = cluster.start("campaign-run", JOB_COMPLETION_INDEX="1")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "is cached - skipping run" in again.stdout
    beyond = cluster.start("campaign-run", JOB_COMPLETION_INDEX="4")
    assert (beyond.returncode, "has no line 5" in beyond.stderr) == (2, True)

    for _ in range(2):  # the second one in place of a pod that was lost at the very end
        collected = cluster.start("campaign-collect")
        assert collected.returncode == 30, collected.stdout + collected.stderr
        assert "has no baseline" in collected.stdout
    origin = cluster.folder / "origin.git"
    show = ("git", "-c", "safe.directory=*", "-C", origin, "show")
    ledger = json.loads(output(*show, f"campaign/{CAMPAIGN}:history/{CAMPAIGN}.json"))
    (seed,) = campaign_seeds(CAMPAIGN, 1, [])
    assert [(one["variant"], one["seed"], one["outcome"]) for one in ledger["runs"]] == [
        ("float32", seed, "completed"),
        ("mixed", seed, "completed"),
    ]
    assert ledger["made_on"]["image"] != "none"
    if cluster.meeting_place == "shared":
        campaign = cluster.folder / "workspace" / "checkout" / ".campaigns" / CAMPAIGN
        records = list((campaign / "collector" / "runs").rglob("record.json"))
        assert len(records) == 2
        digest = json.loads(records[0].read_text())["environment"]["image"]["digest"]
        assert digest == pod(cron_jobs("cpu", "shared")["campaign-run"])["containers"][0]["image"]
        assert list((campaign / "workers").iterdir()) == []
    else:
        assert len(list((cluster.folder / "remote" / "files").rglob("*"))) > 10
