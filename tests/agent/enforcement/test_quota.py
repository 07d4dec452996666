"""Grants from contracts, and the watch: three polls over quota × 1.05 make a violation."""

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant
from cotenant_agent.enforcement.quota import (
    Excess,
    PodGpu,
    PodQuota,
    QuotaViolation,
    asked_limit,
    evaluate,
    grant_of,
    running_container,
)

HELD = PodGpu("pod-1", "GPU-a")
WHOLE = Contract(
    job="a",
    namespace="red",
    uid="u",
    attempt=1,
    node_rank=0,
    pods=(PodGrant("a-0", (RankGrant(0, (GpuGrant("GPU-a", 1000, 500, whole=False),)),)),),
    mode="command",
    command=("true",),
).to_json()


def pod_with(contract: str) -> dict[str, Any]:
    container = {"name": "worker", "env": [{"name": "COTENANT_CONTRACT", "value": contract}]}
    return {"metadata": {"uid": "pod-1", "namespace": "red", "name": "a-1-0"}, "spec": {"containers": [container]}}


def grant(quota: int = 1000) -> dict[str, PodQuota]:
    return {"pod-1": PodQuota(pod_uid="pod-1", namespace="red", pod="a-1-0", quota_mib={"GPU-a": quota})}


@pytest.mark.parametrize(
    ("used", "want"),
    [
        pytest.param([1050] * 5, [0, 0, 0, 0, 0], id="the tolerance is not a violation"),
        pytest.param([1051] * 5, [0, 0, 1, 1, 1], id="above the tolerance, from the third poll on"),
        pytest.param([1051, 1051, 900, 1051, 1051], [0, 0, 0, 0, 0], id="a breath in between starts the count again"),
        pytest.param([2000, 2000, 2000, 1040, 1000], [0, 0, 1, 1, 0], id="it ends at the quota, not at the tolerance"),
        pytest.param([2000, 2000, 2000, None], [0, 0, 1, 0], id="it ends when the process does"),
    ],
)
def test_a_violation_takes_three_polls_and_ends_at_the_quota(used: Sequence[int | None], want: list[int]) -> None:
    watch: Any = {}
    seen = []
    for poll, amount in enumerate(used):
        watch, violations = evaluate(watch, {} if amount is None else {HELD: amount}, grant(), now=float(poll))
        seen.append(len(violations))
    assert seen == want


def test_a_violation_says_since_when_and_how_much() -> None:
    watch: Any = {}
    for poll in range(4):
        watch, violations = evaluate(watch, {HELD: 2000 + poll}, grant(), now=100.0 + poll)
    assert violations == (QuotaViolation("pod-1", "GPU-a", 2003, 1000, 100.0),)
    assert watch == {HELD: Excess(4, 100.0, 2003, 1000)}


def test_a_gpu_that_was_not_granted_has_no_quota_at_all() -> None:
    watch: Any = {}
    for poll in range(3):
        watch, violations = evaluate(watch, {PodGpu("pod-1", "GPU-b"): 1}, grant(), now=float(poll))
    assert violations == (QuotaViolation("pod-1", "GPU-b", 1, 0, 0.0),)


def test_a_contract_counts_in_the_launchers_container_alone() -> None:
    pod = pod_with(WHOLE)
    pod["spec"]["containers"][0]["name"] = "beside"
    assert grant_of(pod) is None


def test_a_pod_without_a_grant_is_not_judged() -> None:
    watch: Any = {}
    for poll in range(3):
        watch, violations = evaluate(watch, {PodGpu("stranger", "GPU-a"): 80_000}, grant(), now=float(poll))
    assert (watch, violations) == ({}, ())


def test_violations_come_in_a_fixed_order() -> None:
    grants = {
        uid: PodQuota(pod_uid=uid, namespace="red", pod=uid, quota_mib={"GPU-a": 1, "GPU-b": 1}) for uid in ("p2", "p1")
    }
    usage = {PodGpu(uid, gpu): 9 for gpu in ("GPU-b", "GPU-a") for uid in ("p2", "p1")}
    watch: Any = {}
    for poll in range(3):
        watch, violations = evaluate(watch, usage, grants, now=float(poll))
    assert [(v.pod_uid, v.gpu_uuid) for v in violations] == [
        ("p1", "GPU-a"),
        ("p1", "GPU-b"),
        ("p2", "GPU-a"),
        ("p2", "GPU-b"),
    ]


def pod(env: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metadata": {"uid": "pod-1", "namespace": "red", "name": "a-1-1"},
        "spec": {"containers": [{"name": "worker", "env": env}]},
    }


def contract() -> str:
    def rank(number: int, uuid: str, mib: int) -> RankGrant:
        return RankGrant(number, (GpuGrant(uuid, mib, 400, whole=False),))

    return Contract(
        job="a",
        namespace="red",
        uid="u",
        attempt=1,
        node_rank=1,
        pods=(PodGrant("h0", (rank(0, "GPU-x", 99),)), PodGrant("h1", (rank(1, "GPU-a", 600), rank(2, "GPU-a", 400)))),
        mode="command",
    ).to_json()


def test_the_grant_is_the_sum_of_the_ranks_of_this_pod() -> None:
    assert grant_of(pod([{"name": "COTENANT_CONTRACT", "value": contract()}])) == PodQuota(
        pod_uid="pod-1", namespace="red", pod="a-1-1", quota_mib={"GPU-a": 1000}, compute_milli={"GPU-a": 800},
        job="a", job_uid="u", attempt=1, node_rank=1, grace_s=30,
    )  # fmt: skip


@pytest.mark.parametrize(
    "env",
    [
        pytest.param([], id="none"),
        pytest.param([{"name": "COTENANT_CONTRACT", "value": "{"}], id="not JSON"),
        pytest.param([{"name": "COTENANT_CONTRACT", "value": '{"version": 2}'}], id="another version"),
        pytest.param([{"name": "COTENANT_CONTRACT", "valueFrom": {}}], id="not written out"),
    ],
)
def test_a_pod_whose_contract_cannot_be_read_has_no_grant(env: list[dict[str, Any]]) -> None:
    assert grant_of(pod(env)) is None


@pytest.mark.parametrize(
    "contract",
    [
        "[" * 50_000,
        '{"version": 1, "pods": [{"host": "a", "ranks": [{"rank": 0, "gpus": [{"uuid": [], "memory_mib": "x"}]}]}]}',
        WHOLE.replace('"node_rank":0', '"node_rank":"0"'),
        WHOLE.replace('"node_rank":0', '"node_rank":-1'),
        WHOLE.replace('"node_rank":0', '"node_rank":1e3'),
        WHOLE.replace('"memory_mib":1000', '"memory_mib":"1000"'),
        WHOLE.replace('"memory_mib":1000', '"memory_mib":null'),
        WHOLE.replace('"memory_mib":1000', '"memory_mib":' + "9" * 5000),
        WHOLE.replace('"GPU-a"', '["GPU-a"]'),
        WHOLE.replace('"ranks":[', '"ranks":["x",'),
        "zlib:AAAA",
        "zlib:" + base64.b64encode(zlib.compress(b"\xff\xfe")).decode(),
        "zlib:" + base64.b64encode(zlib.compress(bytes(64 << 20))).decode(),
        "\ud800",
    ],
    ids=lambda text: text[:60] if text.startswith("[") else ascii(text)[-40:],
)
def test_a_contract_that_somebody_broke_grants_nothing_and_ends_nothing(contract: str) -> None:
    assert grant_of(pod_with(WHOLE)) is not None
    assert grant_of(pod_with(contract)) is None


@pytest.mark.parametrize(
    ("env", "mib"),
    [
        pytest.param({"NVIDIA_GPU_MEMORY_REQUEST": "1", "NVIDIA_GPU_MEMORY_LIMIT": "32768"}, 32768, id="both"),
        pytest.param({"NVIDIA_GPU_MEMORY_LIMIT": "32768"}, None, id="one alone limits nothing"),
        pytest.param({"NVIDIA_GPU_MEMORY_REQUEST": "1"}, None, id="nor does the other"),
        pytest.param({"NVIDIA_GPU_MEMORY_REQUEST": "1", "NVIDIA_GPU_MEMORY_LIMIT": "9Gi"}, None, id="no integer"),
        pytest.param({}, None, id="none"),
    ],
)
def test_a_pod_asks_for_a_limit_with_two_variables(env: dict[str, str], mib: int | None) -> None:
    assert asked_limit(env) == mib


@pytest.mark.parametrize(
    ("containers", "found"),
    [
        ([{"name": "worker", "containerID": "containerd://a1", "state": {"running": {}}}], "a1"),
        ([{"name": "other", "containerID": "containerd://a1", "state": {"running": {}}}], ""),
        ([{"name": "worker", "containerID": "containerd://a1", "state": {"terminated": {}}}], ""),
        ([{"name": "worker", "state": {"waiting": {}}}], ""),
        (None, ""),
    ],
    ids=str,
)
def test_a_container_is_named_while_it_runs(containers: list[dict[str, Any]] | None, found: str) -> None:
    assert running_container({"containerStatuses": containers}) == found


def test_a_whole_gpu_of_unknown_memory_is_not_watched() -> None:
    excesses: Any = {}
    for poll in range(4):
        excesses, violations = evaluate(excesses, {PodGpu("pod-1", "GPU-a"): 20_000}, grant(0), float(poll))
        assert (excesses, violations) == ({}, ())
