"""Calls of the kubelet that are decided on here: which streams there are, what is stopped twice, what is refused."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from cotenant_local.runtime.cri.runtime_service import RuntimeService
from local.tests.runtime.cri.test_grpc_errors import AbortedError, Context
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_classes")


class Runtime:
    """A node with a pod and one container in it."""

    def __init__(self, *, running: bool = True, ready: bool = True) -> None:
        self.config = SimpleNamespace(pod_cidr="10.244.1.0/24", catalogue="/images.yaml")
        metadata = Message(name="main")
        self.main: Any = SimpleNamespace(id="c1", running=running, config=Message(metadata=metadata))
        self.pod: Any = SimpleNamespace(id="p1", ready=ready)
        self.stopped: list[str] = []
        self.streams = SimpleNamespace(address=lambda kind, target, request: f"http://node/{kind}/{target.id}")
        self.sandboxes = SimpleNamespace(find={"p1": self.pod}.get)
        self.containers = SimpleNamespace(find={"c1": self.main}.get, stop=self.stop, subscribers=[])

    def container(self, identity: str) -> Any:
        return {"c1": self.main}[identity]

    def sandbox(self, identity: str) -> Any:
        return {"p1": self.pod}[identity]

    async def stop(self, container: Any, timeout: int) -> None:
        self.stopped.append(f"{container.id} within {timeout} s")

    async def stop_sandbox(self, sandbox: Any) -> None:
        self.stopped.append(sandbox.id)


def service(runtime: Any) -> RuntimeService:
    return RuntimeService(runtime)


def streams(**fields: Any) -> Message:
    return Message(container_id="c1", pod_sandbox_id="p1", **{"tty": False, "stdin": False, "stderr": False, **fields})


@pytest.mark.parametrize("call", ["Exec", "Attach"])
@pytest.mark.parametrize(
    "wanted",
    [{"stdout": True}, {"stderr": True}, {"stdin": True}, {"tty": True, "stdout": True}],
    ids=["output", "errors", "input", "a terminal"],
)
async def test_a_stream_has_an_address_where_the_container_runs(call: str, wanted: dict[str, bool]) -> None:
    answer = await getattr(service(Runtime()), call)(streams(**{"stdout": False, **wanted}), Context())
    assert answer.url == f"http://node/{call.lower()}/c1"


@pytest.mark.parametrize(
    ("runtime", "request_", "code", "message"),
    [
        pytest.param(
            Runtime(),
            streams(tty=True, stderr=True, stdout=True),
            "INVALID_ARGUMENT",
            "a terminal has one output: tty and stderr cannot both be asked for",
            id="two outputs of a terminal",
        ),
        pytest.param(
            Runtime(),
            streams(stdout=False),
            "INVALID_ARGUMENT",
            "one of stdin, stdout, stderr must be asked for",
            id="no stream at all",
        ),
        pytest.param(
            Runtime(running=False),
            streams(stdout=True),
            "FAILED_PRECONDITION",
            "container main (c1) is not running",
            id="it has ended",
        ),
    ],
)
async def test_a_stream_that_cannot_be_is_refused(runtime: Runtime, request_: Message, code: str, message: str) -> None:
    for call in ("Exec", "Attach"):
        with pytest.raises(AbortedError) as refusal:
            await getattr(service(runtime), call)(request_, Context())
        assert refusal.value.args == (grpc.StatusCode[code], message)


async def test_a_port_is_forwarded_to_a_pod_that_is_there() -> None:
    assert (await service(Runtime()).PortForward(streams(), Context())).url == "http://node/portforward/p1"
    with pytest.raises(AbortedError) as refusal:
        await service(Runtime(ready=False)).PortForward(streams(), Context())
    assert refusal.value.args == (grpc.StatusCode.FAILED_PRECONDITION, "pod sandbox p1 is not running")


async def test_what_is_gone_already_is_stopped_without_a_refusal() -> None:
    runtime = Runtime()
    for identity in ("c1", "absent"):
        await service(runtime).StopContainer(Message(container_id=identity, timeout=7), Context())
    for identity in ("p1", "absent"):
        await service(runtime).StopPodSandbox(Message(pod_sandbox_id=identity), Context())
    assert runtime.stopped == ["c1 within 7 s", "p1"]


async def test_the_nodes_range_of_pods_stays_whatever_the_kubelet_asks_for(caplog: pytest.LogCaptureFixture) -> None:
    for asked in ("", "10.244.1.0/24", "10.0.0.0/8"):
        config = Message(network_config=Message(pod_cidr=asked))
        await service(Runtime()).UpdateRuntimeConfig(Message(runtime_config=config), Context())
    assert [record.getMessage() for record in caplog.records] == [
        "the kubelet asks for pod range 10.0.0.0/8; this node keeps 10.244.1.0/24"
    ]


async def test_the_configuration_is_shown_to_those_who_want_to_know_more() -> None:
    brief = await service(Runtime()).Status(Message(verbose=False), Context())
    verbose = await service(Runtime()).Status(Message(verbose=True), Context())
    assert (brief.info, json.loads(verbose.info["config"])["podCIDR"]) == ({}, "10.244.1.0/24")
    assert {one.type: one.status for one in brief.status.conditions} == {"RuntimeReady": True, "NetworkReady": True}


async def test_a_checkpoint_is_not_provided() -> None:
    with pytest.raises(AbortedError) as refusal:
        await service(Runtime()).CheckpointContainer(Message(), Context())
    assert refusal.value.args[0] is grpc.StatusCode.UNIMPLEMENTED


async def test_whoever_listens_for_events_no_more_is_sent_none() -> None:
    runtime = Runtime()
    events: Any = service(runtime).GetContainerEvents(Message(), Context())
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    (queue,) = runtime.containers.subscribers
    gone = SimpleNamespace(id="c9", sandbox_id="absent", created_at=5)
    queue.put_nowait((2, gone))
    event = await first
    assert (event.container_id, event.container_event_type, event.pod_sandbox_status) == ("c9", 2, None)
    await events.aclose()
    assert runtime.containers.subscribers == []
