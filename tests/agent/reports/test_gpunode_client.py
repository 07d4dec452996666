"""The agent's client of the API server, over played typed clients: what it asks for, and what it makes of an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import kubernetes
import pytest
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodQuota, grant_of
from cotenant_agent.failures import Failures, Step
from cotenant_agent.gpus.readings import GpuSourceError
from cotenant_agent.reports import gpunode_client
from cotenant_agent.reports.gpunode_client import GPUNodeClient, error_summary, has_ended

WHERE = ("cotenant.dev", "v1beta1", "gpunodes")
TIMEOUT = {"_request_timeout": (5, 10)}
MERGE = {**TIMEOUT, "_content_type": "application/merge-patch+json"}
NODE = {"metadata": {"name": "n1", "uid": "node-uid"}}
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid"}
OURS = {"labels": {"app.kubernetes.io/managed-by": "cotenant"}, "ownerReferences": [OWNER]}
PODS = {"field_selector": "spec.nodeName=n1"}


class Api:
    """A typed client: records calls, and gives the answers of a test, by the name of the method; an error is raised."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {}
        self.api_client = SimpleNamespace(sanitize_for_serialization=lambda value: value)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **words: Any) -> Any:
            self.calls.append((name, args, words))
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        call.__name__ = name
        return call


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    api = Api()
    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda: None)
    for name in ("CoreV1Api", "CustomObjectsApi", "NodeV1Api"):
        monkeypatch.setattr(kubernetes.client, name, lambda: api)
    return api


@pytest.fixture
def client(api: Api) -> GPUNodeClient:
    return GPUNodeClient("n1", Failures())


def test_without_a_service_account_and_a_kubeconfig_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise kubernetes.config.ConfigException("no file")

    monkeypatch.setattr(kubernetes.config, "load_incluster_config", missing)
    monkeypatch.setattr(kubernetes.config, "load_kube_config", missing)
    with pytest.raises(GpuSourceError) as raised:
        GPUNodeClient("n1", Failures())
    assert str(raised.value) == "no cluster: neither a service account nor a kubeconfig (no file)"


def test_the_node_is_read_by_its_name_with_a_deadline(api: Api, client: GPUNodeClient) -> None:
    api.answers["read_node"] = NODE
    assert client.node() == NODE
    assert api.calls == [("read_node", ("n1",), TIMEOUT)]


@pytest.mark.parametrize(("answer", "there"), [({}, True), (ApiException(status=404), False)])
def test_a_runtime_class_is_there_or_not(api: Api, client: GPUNodeClient, answer: Any, there: bool) -> None:
    api.answers["read_runtime_class"] = answer
    assert client.runtime_class_exists("nvidia") is there
    assert api.calls == [("read_runtime_class", ("nvidia",), TIMEOUT)]


def test_an_api_server_that_refuses_says_nothing_about_a_runtime_class(api: Api, client: GPUNodeClient) -> None:
    api.answers["read_runtime_class"] = ApiException(status=403)
    with pytest.raises(ApiException):
        client.runtime_class_exists("nvidia")


def test_a_gpu_node_that_is_missing_is_created_and_belongs_to_its_node(api: Api, client: GPUNodeClient) -> None:
    body = {"apiVersion": "cotenant.dev/v1beta1", "kind": "GPUNode", "metadata": {"name": "n1", **OURS}}
    api.answers["create_cluster_custom_object"] = {"created": True}
    assert client.ensure_gpu_node(NODE) == {"created": True}
    assert api.calls == [("create_cluster_custom_object", (*WHERE, body), TIMEOUT)]


@pytest.mark.parametrize(
    ("owners", "patches"),
    [
        pytest.param([OWNER], [], id="of this Node: as it is"),
        pytest.param(
            [OWNER | {"uid": "an older node"}],
            [("patch_cluster_custom_object", (*WHERE, "n1", {"metadata": OURS}), MERGE)],
            id="of a Node that was made anew: this one is its owner now",
        ),
    ],
)
def test_a_gpu_node_that_is_there_belongs_to_the_present_node(
    api: Api, client: GPUNodeClient, owners: list[Any], patches: list[Any]
) -> None:
    there = {"metadata": {"name": "n1", "ownerReferences": owners}}
    patched = {"metadata": {"name": "n1", **OURS}}
    api.answers |= {
        "create_cluster_custom_object": ApiException(status=409),
        "get_cluster_custom_object": there,
        "patch_cluster_custom_object": patched,
    }
    assert client.ensure_gpu_node(NODE) == (patched if patches else there)
    assert api.calls[1:] == [("get_cluster_custom_object", (*WHERE, "n1"), TIMEOUT), *patches]


def test_a_gpu_node_that_may_not_be_created_is_an_error(api: Api, client: GPUNodeClient) -> None:
    api.answers["create_cluster_custom_object"] = ApiException(status=403)
    with pytest.raises(ApiException):
        client.ensure_gpu_node(NODE)


def test_status_and_annotations_are_merged(api: Api, client: GPUNodeClient) -> None:
    api.answers |= {"patch_cluster_custom_object_status": {"patched": True}, "patch_cluster_custom_object": {}}
    assert client.patch_status({"status": {"heartbeat": "now"}}) == {"patched": True}
    client.remove_annotation("cotenant.dev/reset")
    removed = {"metadata": {"annotations": {"cotenant.dev/reset": None}}}
    assert api.calls == [
        ("patch_cluster_custom_object_status", (*WHERE, "n1", {"status": {"heartbeat": "now"}}), MERGE),
        ("patch_cluster_custom_object", (*WHERE, "n1", removed), MERGE),
    ]


class ListedPod(dict[str, Any]):
    """A pod as a document, with the attributes that the typed client has."""

    def __init__(self, uid: str, *, mib: int | None = 1000, phase: str = "Running") -> None:
        grant = PodGrant("h", (RankGrant(0, (GpuGrant("GPU-a", mib or 0, 400, whole=False),)),))
        job = Contract("job", "red", "u", 1, 0, (grant,), "command", ("x",))
        env = [{"name": "COTENANT_CONTRACT", "value": job.to_json()}] if mib is not None else []
        metadata = {"uid": uid, "namespace": "red", "name": f"pod-{uid}"}
        super().__init__(
            metadata=metadata, spec={"containers": [{"name": "worker", "env": env}]}, status={"phase": phase}
        )
        self.metadata = SimpleNamespace(uid=uid)
        self.status = SimpleNamespace(phase=phase)


def quota(uid: str, mib: int = 1000) -> PodQuota:
    return PodQuota(
        pod_uid=uid, namespace="red", pod=f"pod-{uid}", quota_mib={"GPU-a": mib}, compute_milli={"GPU-a": 400},
        job="job", job_uid="u", attempt=1, grace_s=30,
    )  # fmt: skip


def pods(*ended: str, **mib: int) -> PodsOnNode:
    return PodsOnNode(grants={uid: quota(uid, amount) for uid, amount in mib.items()}, ended=frozenset(ended))


class Watched:
    """A watch with these events; `grants` are those of the client after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, client: GPUNodeClient, stop: threading.Event) -> None:
        self.client, self.stop = client, stop
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.grants: list[Any] = []
        self.asked: dict[str, Any] = {}
        monkeypatch.setattr(kubernetes.watch, "Watch", lambda: self)

    def stream(self, _call: Any, **words: Any) -> Iterator[dict[str, Any]]:
        self.asked = words
        for kind, pod in self.events:
            self.grants.append(self.client.pods())
            yield {"type": kind, "raw_object": pod}
        self.grants.append(self.client.pods())
        self.stop.set()


def test_grants_are_those_of_the_pods_on_this_node_that_may_hold_gpus_whatever_their_labels(
    monkeypatch: pytest.MonkeyPatch, api: Api, client: GPUNodeClient
) -> None:
    stop = threading.Event()
    watched = Watched(monkeypatch, client, stop)
    listed = [ListedPod("a"), ListedPod("b", phase="Succeeded"), ListedPod("c", mib=None)]
    version = SimpleNamespace(resource_version="77")
    api.answers["list_pod_for_all_namespaces"] = SimpleNamespace(items=listed, metadata=version)
    watched.events = [
        ("ADDED", ListedPod("d", phase="Pending")),
        ("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "80"}}),
        ("MODIFIED", ListedPod("a", mib=500)),
        ("MODIFIED", ListedPod("a", phase="Failed")),
        ("ADDED", ListedPod("e", mib=None)),
        ("DELETED", ListedPod("d")),
    ]
    client.watch_pods(stop)
    assert watched.grants == [
        pods("b", a=1000),
        pods("b", a=1000, d=1000),
        pods("b", a=1000, d=1000),
        pods("b", a=500, d=1000),
        pods("a", "b", d=1000),
        pods("a", "b", d=1000),
        pods("a", "b"),
    ]
    assert api.calls == [("list_pod_for_all_namespaces", (), PODS | TIMEOUT)]
    since = {"resource_version": "77", "timeout_seconds": 240, "allow_watch_bookmarks": True}
    assert watched.asked == PODS | since | {"_request_timeout": (5, 90)}
    assert client._failures.counts()[Step.POD] == 0


@pytest.mark.parametrize("error", [ApiException(status=410), HTTPError("cut"), OSError("no route")])
def test_a_watch_that_breaks_is_begun_again_and_the_grants_stay(
    monkeypatch: pytest.MonkeyPatch, client: GPUNodeClient, error: Exception
) -> None:
    pauses: list[float] = []
    stop: Any = SimpleNamespace(is_set=lambda: len(pauses) == 2, wait=pauses.append)

    def breaks(_stop: Any) -> None:
        raise error

    client._pods = pods(a=1000)
    monkeypatch.setattr(client, "_follow_pods", breaks)
    client.watch_pods(stop)
    assert (pauses, client.pods()) == ([5, 5], pods(a=1000))


def test_a_defect_of_the_watch_does_not_end_it_in_silence(
    monkeypatch: pytest.MonkeyPatch, client: GPUNodeClient
) -> None:
    pauses: list[float] = []
    stop: Any = SimpleNamespace(is_set=lambda: len(pauses) == 2, wait=pauses.append)

    def breaks(_stop: Any) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(client, "_follow_pods", breaks)
    client.watch_pods(stop)
    assert (pauses, client._failures.counts()[Step.WATCH]) == ([5, 5], 2)


def test_a_pod_that_cannot_be_read_keeps_its_grant_and_the_others_are_followed(
    monkeypatch: pytest.MonkeyPatch, api: Api, client: GPUNodeClient
) -> None:
    real = grant_of

    def read(pod: Any) -> PodQuota | None:
        if "broken" in pod["metadata"]:
            raise RecursionError("a contract that nests without end")
        return real(pod)

    def broken(name: str) -> dict[str, Any]:
        pod = ListedPod(name, mib=500)
        return {**pod, "metadata": pod["metadata"] | {"broken": True}}

    monkeypatch.setattr(gpunode_client, "grant_of", read)
    client._pods = pods(a=1000)
    events = [("ADDED", broken("c")), ("ADDED", ListedPod("d")), ("MODIFIED", broken("d"))]
    listed = SimpleNamespace(
        items=[broken("a"), broken("b"), ListedPod("e")], metadata=SimpleNamespace(resource_version="1")
    )
    api.answers["list_pod_for_all_namespaces"] = listed
    monkeypatch.setattr(
        kubernetes.watch.Watch,
        "stream",
        lambda *_, **__: ({"type": kind, "raw_object": pod} for kind, pod in events),
    )
    client._follow_pods(threading.Event())
    assert client.pods() == pods(a=1000, d=1000, e=1000)
    assert client._failures.counts()[Step.POD] == 4


@pytest.mark.parametrize(
    ("phase", "over"),
    [("Pending", False), ("Running", False), ("Unknown", False), (None, False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_holds_no_gpu_once_it_has_ended(phase: str | None, over: bool) -> None:
    assert has_ended(phase) is over


def test_nothing_is_known_before_the_first_list(client: GPUNodeClient) -> None:
    assert client.pods() is None


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiException(status=503, reason="Service Unavailable"), "HTTP 503 Service Unavailable"),
        (HTTPError("cut"), "HTTPError: cut"),
        (TimeoutError("timed out"), "TimeoutError: timed out"),
    ],
)
def test_an_error_is_one_line(error: Exception, text: str) -> None:
    assert isinstance(error, gpunode_client.UNREACHABLE)
    assert error_summary(error) == text


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ({"items": [], "metadata": {}}, 0),
        ({"items": [{}], "metadata": {"resourceVersion": "1"}}, 1),
        ({"items": [{}], "metadata": {"remainingItemCount": 4999}}, 5000),
    ],
    ids=["none yet", "the only one", "a page of one, of many"],
)
def test_gpunodes_are_counted_without_being_read(
    api: Api, client: GPUNodeClient, page: dict[str, Any], count: int
) -> None:
    api.answers["list_cluster_custom_object"] = page
    assert client.gpu_nodes() == count
    assert api.calls == [("list_cluster_custom_object", WHERE, {"limit": 1} | TIMEOUT)]
