"""The driver behind its sockets, with a kubelet that speaks gRPC to it as the real one does."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from cotenant_agent.dra import kubelet_api
from cotenant_agent.dra.driver import Driver, DriverFolders
from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodGpu, PodQuota
from tests.agent.dra.gpus import NODE, A, B, FakeResourceApi, claim, result
from tests.agent.reports.observed import busy, make_observer


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the path of a socket may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="dra") as made:
        yield Path(made)


NOTHING_RUNS: Callable[[], frozenset[str] | None] = frozenset


class FakeKubelet:
    """`endpoint` is found by the registration socket, as the kubelet's plugin watcher does."""

    def __init__(self, folder: Path) -> None:
        (self.registration,) = (folder / "plugins_registry").iterdir()
        info = self._call(self.registration, "/pluginregistration.Registration/GetInfo", "InfoRequest", "PluginInfo")
        self.info = info
        self.endpoint = Path(info.endpoint)

    def acknowledge(self, *, registered: bool, error: str = "") -> None:
        method = "/pluginregistration.Registration/NotifyRegistrationStatus"
        status = {"plugin_registered": registered, "error": error}
        self._call(self.registration, method, "RegistrationStatus", "RegistrationStatusResponse", **status)

    def _call(self, socket: Path, method: str, request: str, response: str, **fields: Any) -> Any:
        messages = kubelet_api.registration if "pluginregistration" in method else kubelet_api.dra["v1"]
        with grpc.insecure_channel(f"unix://{socket}") as channel:
            call = channel.unary_unary(
                method,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=messages[response].FromString,
            )
            return call(messages[request](**fields), timeout=10)

    def _claims(self, verb: str, names: tuple[str, ...], version: str) -> Any:
        refs = [{"namespace": "guests", "name": name, "uid": f"{name}-uid"} for name in names]
        method = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/Node{verb}Resources"
        return self._call(
            self.endpoint, method, f"Node{verb}ResourcesRequest", f"Node{verb}ResourcesResponse", claims=refs
        ).claims

    def prepare(self, *names: str, version: str = "v1") -> Any:
        return self._claims("Prepare", names, version)

    def unprepare(self, *names: str, version: str = "v1") -> Any:
        return self._claims("Unprepare", names, version)


@contextmanager
def driver(
    folder: Path, api: FakeResourceApi, running: Callable[[], frozenset[str] | None] = NOTHING_RUNS
) -> Iterator[tuple[Driver, FakeKubelet]]:
    made = Driver(NODE, api, DriverFolders(folder / "kubelet", folder / "cdi"), running)
    made.start([A, B])
    try:
        yield made, FakeKubelet(folder / "kubelet")
    finally:
        made.stop()


def environments(folder: Path) -> dict[str, list[str]]:
    """Claim → the variables that its containers get."""
    specs = [json.loads(path.read_text()) for path in (folder / "cdi").glob("*.json")]
    return {one["name"]: one["containerEdits"]["env"] for spec in specs for one in spec["devices"]}


def test_the_kubelet_finds_the_driver_and_tells_it_what_became_of_it(folder: Path) -> None:
    api = FakeResourceApi()
    with driver(folder, api) as (made, kubelet):
        assert (kubelet.info.type, kubelet.info.name) == ("DRAPlugin", "gpu.cotenant.dev")
        assert list(kubelet.info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
        made.turn(make_observer().observe(busy(), PodsOnNode(), 0.0), 0.0)
        assert made.reason() == "the kubelet has not registered the driver"
        kubelet.acknowledge(registered=False, error="too old")
        assert made.reason() == "the kubelet has not registered the driver too old"
        kubelet.acknowledge(registered=True)
        assert made.reason() == ""
    assert not list((folder / "kubelet" / "plugins_registry").iterdir())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_claim_is_prepared_as_often_as_it_is_asked_for_and_given_back_as_often(folder: Path, version: str) -> None:
    share = result("gpu-a") | {"shareID": "share-1"}
    with driver(folder, FakeResourceApi(claim("c", share, pods=("p",)))) as (made, kubelet):
        answers = [kubelet.prepare("c", version=version)["c-uid"] for _ in range(2)]
        assert answers[0] == answers[1]
        (device,) = answers[0].devices
        assert (list(device.request_names), device.pool_name, device.device_name) == (["g"], "n1", "gpu-a")
        assert (list(device.cdi_device_ids), device.share_id) == (["gpu.cotenant.dev/claim=c-uid"], "share-1")
        assert environments(folder) == {"c-uid": ["NVIDIA_VISIBLE_DEVICES=GPU-A", "CUDA_VISIBLE_DEVICES=GPU-A"]}
        assert made.claimed() == {PodGpu("p", "GPU-A"): 20_480}
        for _ in range(2):
            assert kubelet.unprepare("c", version=version)["c-uid"].error == ""
        assert (environments(folder), made.claimed()) == ({}, {})


def test_what_cannot_be_prepared_is_told_by_claim_and_the_others_are_prepared(folder: Path) -> None:
    good, free = claim("good", result("gpu-a", "60Gi", "1")), claim("free")
    much = claim("much", result("gpu-a", "60Gi", "1"))
    namesake = claim("namesake", result("gpu-b"))
    namesake["metadata"]["uid"] = "another"
    with driver(folder, FakeResourceApi(good, free, much, namesake)) as (_, kubelet):
        answers = kubelet.prepare("good", "much", "free", "gone", "namesake")
    errors = {uid: answer.error for uid, answer in answers.items()}
    assert errors.pop("good-uid") == ""
    assert errors.pop("much-uid").startswith("GPU GPU-A has 81920 MiB")
    assert errors == {
        "free-uid": "no GPU of this driver is allocated to the claim",
        "gone-uid": "the claim gone-uid is gone",
        "namesake-uid": "the claim namesake-uid is gone",
    }


def test_a_new_agent_takes_up_what_is_prepared_without_the_api_server(folder: Path) -> None:
    """The old agent was killed after it stored the claim and before it answered; a reboot has emptied /var/run/cdi."""
    api = FakeResourceApi(claim("c", result("gpu-a")))
    with driver(folder, api) as (_, kubelet):
        before = kubelet.prepare("c")["c-uid"]
    for path in (folder / "cdi").glob("*.json"):
        path.unlink()
    (folder / "cdi" / "gpu.cotenant.dev-claim_unknown.json").write_text("{}")
    api.down = True
    with driver(folder, api) as (_, kubelet):
        assert environments(folder).keys() == {"c-uid"}
        assert kubelet.prepare("c")["c-uid"] == before
        assert kubelet.prepare("d")["d-uid"].error == "the claim cannot be read: HTTP 503 Service Unavailable"


@pytest.mark.parametrize(
    ("running", "there", "given"),
    [
        pytest.param(frozenset({"p"}), False, False, id="its containers still run"),
        pytest.param(None, False, False, id="what runs is not known"),
        pytest.param(frozenset(), True, False, id="the claim is still there"),
        pytest.param(frozenset(), False, True, id="the claim is gone and nothing runs"),
    ],
)
def test_a_departed_claim_holds_its_gpu_until_nothing_of_it_runs(
    folder: Path, running: frozenset[str] | None, there: bool, given: bool
) -> None:
    """The scheduler gives a GPU away again as soon as a pod's object is deleted by force."""
    api = FakeResourceApi(claim("old", result("gpu-a", None, None), pods=("p",)), claim("new", result("gpu-a")))
    with driver(folder, api, lambda: running) as (_, kubelet):
        assert not kubelet.prepare("old")["old-uid"].error
        if not there:
            del api.claims["old"]
        assert (not kubelet.prepare("new")["new-uid"].error) is given


def test_a_gpu_that_a_pod_holds_without_a_claim_is_tainted_and_not_prepared(folder: Path) -> None:
    grant = PodQuota(pod_uid="p", namespace="red", pod="a-1-0", quota_mib={"GPU-a": 70_000}, compute_milli={})
    observer, api = make_observer(), FakeResourceApi(claim("c", result("gpu-a")))
    with driver(folder, api) as (made, kubelet):
        made.turn(observer.observe(busy(), PodsOnNode(grants={"p": grant}), 0.0), 0.0)
        assert [name for name, one in api.devices().items() if one.get("taints")] == ["gpu-a"]
        assert "guests/c, red/a-1-0" in kubelet.prepare("c")["c-uid"].error
        made.turn(observer.observe(busy(), PodsOnNode(ended=frozenset({"p"})), 1.0), 1.0)
        made.turn(observer.observe(busy(), PodsOnNode(ended=frozenset({"p"})), 100.0), 100.0)
        assert not [one for one in api.devices().values() if one.get("taints")]
        assert not kubelet.prepare("c")["c-uid"].error


def test_nothing_is_offered_before_it_is_known_who_holds_what(folder: Path) -> None:
    api = FakeResourceApi()
    with driver(folder, api) as (made, _):
        made.turn(make_observer().observe(busy(), None, 0.0), 0.0)
    assert api.slices == {}
