"""Both limits end to end on a real cluster: asked for by a job, set, read back, published, lost, and lied about.

The driver, the toolkit's hook and MPS's control program are played (`played_driver`); API server, kube-scheduler,
kubelet, the chart's operator, agent and keeper of daemons are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.live.e2e.devices.played_driver import RUNTIME_CLASS, UUIDS, PlayedDriver, cuda_library
from tests.live.e2e.tenancy import SYSTEM, Document, Tenancy, product, training_job
from tests.live.waiting import timeout

pytestmark = pytest.mark.cluster
NODE, IMAGE = "node-1", "ghcr.io/cotenant/played-worker"
HOLD = ["python", "-c", "import time; print('holds', flush=True); time.sleep(3600)"]
HARD = {"memory": "Hard", "compute": "Hard"}


@dataclass
class World:
    tenancy: Tenancy
    driver: PlayedDriver

    def apply(self, name: str, fraction: str) -> None:
        share = {"memoryFraction": fraction, "computeFraction": fraction}
        self.tenancy.apply(training_job(name, gpu=share, runtime={"command": HOLD, "image": IMAGE}))

    def start(self, name: str, fraction: str) -> None:
        self.apply(name, fraction)
        self.tenancy.wait_phase(name, "Running")

    def pod(self, job: str) -> Document:
        (found,) = self.tenancy.get("pods", "-n", "team-a", "-l", f"cotenant.dev/job={job}")["items"]
        return dict(found)

    def inside(self, job: str, script: str) -> str:
        pod = self.pod(job)["metadata"]["name"]
        return self.tenancy.cluster.kubectl("exec", "-n", "team-a", pod, "--", "sh", "-c", script).strip()

    def gpu(self, job: str) -> str:
        (node,) = self.tenancy.job(job)["status"]["placement"]["nodes"]
        return str(node["ranks"][0]["gpus"][0]["uuid"])

    def compute(self, job: str, pid: int) -> None:
        """Have the job's program compute, in the MPS namespace that its container names."""
        pipe = f"/run/cotenant-mps/{self.gpu(job)}"
        assert self.inside(job, "echo $CUDA_MPS_PIPE_DIRECTORY; ls $COTENANT_MPS_PIPES") == f"{pipe}\n{self.gpu(job)}"
        namespace = self.inside(job, f"cat {pipe}/control")
        self.driver.compute(pid, self.pod(job)["metadata"]["uid"], self.gpu(job), namespace)

    def daemons(self) -> dict[str, dict[str, str]]:
        """Namespace → its limits, as the running daemons have them, of all GPUs."""
        script = "cat /run/cotenant-mps/*/pipe/state.json"
        text = self.tenancy.cluster.kubectl("exec", "-n", SYSTEM, "daemonset/cotenant-mps", "--", "sh", "-c", script)
        decoder, at = json.JSONDecoder(), 0
        found: dict[str, dict[str, str]] = {}
        while at < len(text.rstrip()):
            document, at = decoder.raw_decode(text, at)
            found |= document["gpu"]["namespaces"]
        return found

    def node(self) -> Document:
        return dict(self.tenancy.get("gpunode", NODE)["status"])

    def path(self, name: str) -> Document:
        paths = self.node().get("capabilities", {}).get("paths", [])
        return next((one for one in paths if one["path"] == name), {})

    def levels(self, job: str) -> dict[str, str]:
        return dict(self.tenancy.job(job)["status"].get("isolationLevels") or {})

    def wait_levels(self, job: str, wanted: dict[str, str]) -> None:
        def reached() -> bool:
            return self.levels(job) == wanted

        self.tenancy.wait(reached, what=f"{job} is {wanted}, not {self.levels(job)}, on {self.node().get('limits')}")

    def wait_condition(self, kind: str, status: str) -> Document:
        def there() -> Document | None:
            conditions = {one["type"]: one for one in self.node().get("conditions", [])}
            found: Document | None = conditions.get(kind)
            return found if found and found["status"] == status else None

        condition: Document = self.tenancy.wait(there, what=f"{kind} of the node is {status}")
        return condition

    def reasons(self, kind: str) -> set[str]:
        """Reasons of the Events of all objects of a kind."""
        events = self.tenancy.get("events", "-A", "--field-selector", f"involvedObject.kind={kind}")["items"]
        return {one["reason"] for one in events}

    def restart_agent(self) -> None:
        component = ("-l", "app.kubernetes.io/component=agent")
        self.tenancy.cluster.kubectl("delete", "pod", "-n", SYSTEM, *component, "--force", "--grace-period=0")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One node of two GPUs of 80 GiB that are not simulated, held to their shares by both paths."""
    from cotenant_local.cluster import spec

    gpus = {"count": 2, "class": "H100", "memoryLimits": True}
    with cuda_library() as cuda:
        image = {"like": "worker", "paths": [str(cuda)], "env": {"LD_LIBRARY_PATH": str(cuda)}}
        wanted = spec.parse({"nodes": [{"name": NODE, "gpus": gpus}], "images": {IMAGE: image}}, "test")
        made: list[PlayedDriver] = []

        def prepare(cluster: Any) -> None:
            made.append(PlayedDriver(cluster, NODE))
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(RUNTIME_CLASS))

        def amend(cluster: Any) -> None:
            made[0].lend(cluster)

        unmounted = [f"agent.host.{part}=false" for part in ("proc", "cgroup", "runtimeConfig", "packages")]
        values = ["agent.simulate=false", "agent.dra.enabled=true", "agent.mps.enabled=true", *unmounted]
        values += ["agent.toolkitVersion=1.20.1", "agent.pollSeconds=1", r"agent.nodeSelector.kubernetes\.io/os=linux"]
        with product("mps", wanted, *values, prepare=prepare, amend=amend) as tenancy:
            found = World(tenancy, made[0])
            tenancy.wait(lambda: found.path("MPS").get("available"), what="MPS is kept on the node")
            yield found


def test_a_share_is_hard_once_its_client_is_seen_in_its_namespace_and_what_is_said_is_so_inside(world: World) -> None:
    assert world.path("MemoryLimit")["available"], world.path("MemoryLimit")
    world.start("first", "0.4")
    world.wait_levels("first", {"memory": "Hard", "compute": "None"})  # nothing computes: nothing is claimed of it
    world.compute("first", 51)
    world.wait_levels("first", HARD)
    share = 80 * 1024 * 4 // 10
    usable = next(gpu for gpu in world.node()["gpus"] if gpu["uuid"] == world.gpu("first"))["memoryMiB"]
    assert int(world.inside("first", "echo $NVIDIA_GPU_MEMORY_LIMIT")) == usable * 4 // 10 <= share
    (limits,) = world.daemons().values()
    assert limits == {"active_thread_percentage": "40", "pinned_memory_limit": f"{usable * 4 // 10}M"}
    pipe = "$CUDA_MPS_PIPE_DIRECTORY"
    assert (
        world.inside("first", f"touch {pipe}/new 2>&1 || true; rm {pipe}/control 2>&1 || true").count("Read-only") == 2
    )
    assert "IsolationVerified" in world.reasons("TrainingJob")


def test_an_agent_that_dies_ends_no_client_and_takes_its_namespaces_up_again(world: World) -> None:
    before = world.daemons()
    world.apply("second", "0.3")
    claims = ("resourceclaims", "-n", "team-a")
    world.tenancy.wait(lambda: len(world.tenancy.get(*claims)["items"]) == 2, what="the second pod has a claim")
    world.restart_agent()  # before, while or after the kubelet has it prepared
    world.tenancy.wait_phase("second", "Running")
    assert world.gpu("second") == world.gpu("first"), "both share one GPU, so one daemon serves both"
    world.compute("second", 52)
    world.wait_levels("second", HARD)
    assert sorted(limits["active_thread_percentage"] for limits in world.daemons().values()) == ["30", "40"]
    assert before.items() <= world.daemons().items()
    world.wait_levels("first", HARD)
    assert world.tenancy.job("first")["status"]["attempts"] == 1


def test_a_node_that_loses_what_it_can_lowers_what_runs_and_ends_nothing(world: World) -> None:
    index = UUIDS.index(world.gpu("first"))
    lost = [f"fail {each} nvmlDeviceGetMemoryLimits_v1 4" for each in range(len(UUIDS))]
    world.driver.show(*lost)
    world.driver.hide(f"mode {index} ")
    world.driver.show(f"mode {index} 0")  # open to all again: somebody may compute beside MPS
    world.wait_levels("first", {"memory": "Watched", "compute": "None"})
    assert world.wait_condition("MemoryIsolationLowered", "True")["reason"] == "WasHard"
    assert world.wait_condition("ComputeIsolationLowered", "True")["reason"] == "WasHard"
    world.tenancy.wait(lambda: "IsolationLowered" in world.reasons("TrainingJob"), what="the job is told")
    world.driver.hide(*lost, f"mode {index} ")
    world.driver.show(f"mode {index} 3")
    world.wait_levels("first", HARD)
    world.wait_condition("MemoryIsolationLowered", "False")
    status = world.tenancy.job("first")["status"]
    assert (status["phase"], status["attempts"]) == ("Running", 1)


def test_a_read_back_that_lies_ends_the_attempt_and_lowers_the_node(world: World) -> None:
    """The daemon says that namespaces have the whole GPU; both jobs are refused to run so."""
    world.driver.tell_mps("lies")

    def told() -> Any:
        return [one for one in world.tenancy.jobs() if "IsolationMismatch" in json.dumps(one["status"])]

    ended = world.tenancy.wait(lambda: found if len(found := told()) == 2 else None, what="both attempts end")
    assert all("MPS lets this pod have 1000 milli-GPU" in json.dumps(one["status"]) for one in ended)
    assert {one["status"].get("failures", 0) for one in ended} == {0}, "it is the node's fault, and charged to nobody"
    world.tenancy.wait(lambda: world.path("MPS")["reason"].startswith("ReadBack: "), what="the node says why")
    assert not world.path("MPS")["available"]
    assert world.wait_condition("ComputeIsolationLowered", "True")["reason"] == "WasHard"
    world.restart_agent()
    world.driver.end_processes()
    (world.driver.world / "lies").unlink()
    world.tenancy.delete_all()
    world.tenancy.cluster.kubectl("rollout", "status", "daemonset/cotenant-agent", "-n", SYSTEM, timeout(120))
    assert world.path("MPS")["reason"].startswith("ReadBack: "), "who starts anew forgets nothing"
    world.start("after", "0.4")
    assert world.inside("after", "echo pipe=$CUDA_MPS_PIPE_DIRECTORY") == "pipe="
    world.tenancy.delete_all()
    world.tenancy.cluster.kubectl("annotate", "gpunode", NODE, "cotenant.dev/uncordon=all")
    world.tenancy.wait(lambda: world.path("MPS")["available"], what="an administrator has it tried again")
