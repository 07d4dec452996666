"""Why a pod waits for its volumes or its network stands in Events of its kubelet, which are read while it waits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.controller.client.kube import EVENTS, PODS, TRAINING_JOBS, Document
from cotenant.controller.reports import kubelet_events
from cotenant.controller.reports.kubelet_events import AFTER_S, KubeletEventReader, last_warning
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import JOB_ID, T0, admitted, job_document, new_cluster, pod_document
from tests.support.api_faults import Fault
from tests.support.fake_kube import FakeKube

pytestmark = pytest.mark.looptime
SINCE = datetime.fromtimestamp(T0, UTC).isoformat()


def warning(reason: str = "FailedMount", at: str = "22:14:00", **fields: Any) -> Document:
    return {
        "type": "Warning",
        "reason": reason,
        "message": 'configmap "digits" not found',
        "lastTimestamp": f"2023-11-14T{at}Z",
        "source": {"component": "kubelet"},
    } | fields


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        pytest.param([], "", id="there is none"),
        pytest.param([warning()], 'FailedMount: configmap "digits" not found', id="a warning of the kubelet"),
        pytest.param([warning("B", "22:15:00"), warning("A")], 'B: configmap "digits" not found', id="the newest"),
        pytest.param([warning(type="Normal")], "", id="no warning"),
        pytest.param([warning(source={"component": "somebody"})], "", id="of somebody else"),
        pytest.param(
            [warning(source={"component": "attachdetach-controller"}, message="m")], "FailedMount: m",
            id="of who attaches disks",
        ),
        pytest.param(
            [warning(source={}, reportingComponent="kubelet", message="a\x1b[31m\nb")], r"FailedMount: a\x1b[31m b",
            id="without what a terminal would obey",
        ),
        pytest.param([warning(message="x" * 5000)], f"FailedMount: {'x' * 986}…", id="cut"),
    ],
)  # fmt: skip
def test_the_cause_is_the_newest_warning_of_a_kubelet(events: list[Document], cause: str) -> None:
    assert last_warning(events) == cause


class World:
    """A job that starts, with one pod whose volumes its kubelet has been getting ready since `T0`."""

    def __init__(self, *faults: Fault, phase: Phase = Phase.STARTING, ready: str = "False") -> None:
        self.kube, self.cluster, self.now = FakeKube(*faults), new_cluster(), T0 + AFTER_S
        self.memories = self.cluster.view._memories
        self.memory = self.memories[JOB_ID]
        self.reader = KubeletEventReader(
            self.kube, self.cluster.cache, self.memories, clock=lambda: self.now,
        )  # fmt: skip
        self.ready = ready
        self.put_job(phase)
        self.uid = self.put_pod(0)
        self.cluster.cache.pop_changes()
        self.tell("one", self.uid)

    def put_pod(self, rank: int) -> str:
        """Its uid."""
        conditions = [{"type": "PodReadyToStartContainers", "status": self.ready}]
        document = pod_document(rank, status={"phase": "Pending", "startTime": SINCE, "conditions": conditions})
        self.cluster.cache.put(PODS, document)
        return str(document["metadata"]["uid"])

    def put_job(self, phase: Phase, version: str = "5") -> None:
        document = job_document(status=admitted(phase, ("n1", 1)).to_document())
        document["metadata"]["resourceVersion"] = version
        self.cluster.cache.put(TRAINING_JOBS, document)

    def tell(self, name: str, uid: str, **fields: Any) -> None:
        metadata = {"name": name, "namespace": "red"}
        self.kube.put(EVENTS, warning(**fields) | {"metadata": metadata, "involvedObject": {"uid": uid}})

    @property
    def causes(self) -> dict[str, str]:
        return dict(self.memory.pod_causes)


async def test_a_job_is_looked_at_again_when_its_kubelet_has_named_a_cause() -> None:
    world = World()
    world.tell("other", "another-pod", reason="Other", at="23:00:00")
    await world.reader.read()
    assert world.causes == {world.uid: 'FailedMount: configmap "digits" not found'}
    assert JOB_ID in world.cluster.cache.pop_changes().jobs
    await world.reader.read()
    assert JOB_ID not in world.cluster.cache.pop_changes().jobs
    world.tell("one", world.uid, reason="FailedCreatePodSandBox", at="22:16:00")
    await world.reader.read()
    assert world.causes[world.uid].startswith("FailedCreatePodSandBox: ")


@pytest.mark.parametrize(
    ("world", "early_s"),
    [
        pytest.param({"phase": Phase.RUNNING}, 0.0, id="of a job that runs"),
        pytest.param({"ready": "True"}, 0.0, id="whose volumes are there"),
        pytest.param({}, 1.0, id="that has hardly waited"),
    ],
)
async def test_nothing_is_asked_about_a_pod(world: dict[str, Any], early_s: float) -> None:
    given = World(**world)
    given.now -= early_s
    await given.reader.read()
    assert (given.causes, [call for call in given.kube.calls if "events" in call]) == ({}, [])


async def test_a_cause_is_forgotten_when_the_job_waits_no_longer() -> None:
    world = World()
    await world.reader.read()
    assert list(world.causes) == [world.uid]
    world.put_job(Phase.RUNNING, version="6")
    await world.reader.read()
    assert world.causes == {}


async def test_pods_take_turns_if_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_events, "PODS_A_ROUND", 2)
    world = World()
    first, second, third = sorted([world.uid, world.put_pod(1), world.put_pod(2)])
    heard = []
    for hour, reason in enumerate(("A", "B", "C"), 1):
        for uid in (first, second, third):
            world.tell(uid, uid, reason=reason, lastTimestamp=f"2023-11-15T0{hour}:00:00Z")
        await world.reader.read()
        heard.append({uid: cause.partition(":")[0] for uid, cause in world.causes.items()})
    assert heard == [
        {first: "A", second: "A"},
        {first: "B", second: "A", third: "B"},
        {first: "B", second: "C", third: "C"},
    ]
