"""What administrators propose, as a cluster that is not there: read as the real thing is, with how it is done."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.api.conversion.quota_grants import spec_digest
from cotenant.api.conversion.to_core import parse_queue, parse_quota_request, to_queue
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.query_api.cluster_proposals import OF_DECISIONS, cluster_proposal
from cotenant.controller.query_api.proposals import ProposalError
from cotenant.controller.query_api.questions import NotFoundError
from cotenant.core.model.plan import Plan
from cotenant.core.policy import DEFAULT
from cotenant.query.cluster_change import ChangedCluster
from cotenant.query.situation import Situation
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

QUEUE = {
    "apiVersion": "cotenant.dev/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "red"},
    "spec": {
        "namespaces": ["red"],
        "quotas": [{"gpuClass": "H100", "guaranteed": 4, "limit": 8}, {"gpuClass": "A100"}],
    },
}
CACHE = cast(
    "ObjectCache",
    SimpleNamespace(queues={"red": parse_queue(QUEUE)}, namespaces={}, jobs={"red/held": object()}, quota_grants={}),
)
HELD = make_job("held", placement=make_placement(("n1", [[0]])), admitted_at=1.0)
SITUATION = Situation(
    make_snapshot(nodes=[make_node("n1"), make_node("n2")], queues=[make_queue("red", guaranteed=4)], jobs=[HELD]),
    Plan(),
)


def proposed(**spec: Any) -> tuple[ChangedCluster, str]:
    found = cluster_proposal(spec, CACHE, labelled_only=False)
    return found.change(SITUATION), found.command


@pytest.mark.parametrize(
    ("change", "gpu_class", "quota"),
    [
        ({"gpus": "+4"}, "H100", (8_000, 8_000)),
        ({"gpus": "-1.5"}, "H100", (2_500, 8_000)),
        ({"gpus": 2, "limit": "+2"}, "H100", (2_000, 10_000)),
        ({"gpus": "2"}, "A100", (2_000, None)),
    ],
)
def test_an_amount_is_counted_from_what_there_is(
    change: dict[str, Any], gpu_class: str, quota: tuple[int, int | None]
) -> None:
    cluster, command = proposed(queue="red", change=change, gpuClass=gpu_class)
    (queue,) = cluster.snapshot.queues
    (line,) = (one for one in queue.quotas if one.gpu_class == gpu_class)
    assert (line.guaranteed, line.limit) == quota
    assert command.startswith("kubectl patch queue red --type=merge -p ")


def test_what_is_granted_for_now_is_counted_on_top_of_what_is_proposed() -> None:
    quotas = ({"gpuClass": "H100", "gpus": 3, "guaranteed": 1},)
    spec = {"quotas": quotas, "until": "2030-01-01T00:00:00Z", "reason": "a paper"}
    document = {
        "apiVersion": "cotenant.dev/v1beta1", "kind": "QuotaRequest",
        "metadata": {"name": "more", "namespace": "red"}, "spec": spec,
    }  # fmt: skip
    granted = {
        "queue": "red", "quotas": quotas, "since": 0, "until": "2030-01-01T00:00:00Z",
        "digest": spec_digest(parse_quota_request(document).spec),
    }  # fmt: skip
    status = {"approval": {"decision": "Approved", "by": "grace"}, "granted": granted}
    request = parse_quota_request(document | {"status": status})
    cache = cast("ObjectCache", SimpleNamespace(**vars(CACHE) | {"quota_grants": {"red/more": request}}))

    found = cluster_proposal({"queue": "red", "change": {"gpus": "+2"}, "gpuClass": "H100"}, cache, labelled_only=False)

    (queue,) = found.change(SITUATION).snapshot.queues
    assert (queue.quotas[0].guaranteed, queue.quotas[0].limit) == (7_000, 11_000)


def test_the_command_makes_the_queue_that_was_decided_with() -> None:
    cluster, command = proposed(queue="red", change={"gpus": "+4", "weight": 3}, gpuClass="H100")
    patch = json.loads(command.partition("-p ")[2].strip("'"))
    patched = QUEUE | {"spec": cast("dict[str, Any]", QUEUE["spec"]) | patch["spec"]}
    assert cluster.snapshot.queues == (to_queue(parse_queue(patched), namespaces={}),)


@pytest.mark.parametrize(
    ("spec", "refusal"),
    [
        ({"queue": "red", "change": {"gpus": "+4"}}, "It has lines for H100, A100: name the class"),
        ({"queue": "red", "change": {"gpus": "-9"}, "gpuClass": "H100"}, "less than nothing: it is 4"),
        ({"queue": "red", "change": {"gpus": "+5"}, "gpuClass": "H100"}, "limit is less than guaranteed"),
        ({"queue": "red", "change": {"gpus": "many"}, "gpuClass": "H100"}, "'many' is no number of GPUs"),
        ({"queue": "red", "change": {"weigth": 2}}, "weigth"),
        ({"queue": "red"}, "spec.change must be"),
        ({"queue": "blue", "change": {"gpus": 1}}, 'queues.cotenant.dev "blue" not found'),
        ({"node": "n9", "act": "Drain"}, "there is no node 'n9'"),
        ({"node": "n1", "act": "Explode"}, "spec.act must be"),
        ({"node": "n1", "act": "Add", "count": 1_001}, "from 1 to 1000"),
        (
            {"setting": "log_level", "value": "debug"},
            "no setting that a decision is made by; those are: collect_after_s",
        ),
        ({"setting": "moves", "value": "some"}, "moves"),
        ({"manifest": {"kind": "Secret"}}, "is no Queue"),
        ({}, "give one of"),
        ({"queue": "red", "node": "n1"}, "give one of"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_field(spec: dict[str, Any], refusal: str) -> None:
    with pytest.raises((ProposalError, NotFoundError), match=refusal):
        proposed(**spec)


def test_a_drained_node_takes_no_work_and_its_jobs_wait_again() -> None:
    cluster, command = proposed(node="n1", act="Drain")
    assert (cluster.left, command) == (("red/held",), "kubectl cotenant drain n1")
    assert [(one.name, one.ready) for one in cluster.snapshot.nodes] == [("n1", False), ("n2", True)]
    assert cluster.snapshot.jobs[0].placement is None


def test_a_cordoned_node_keeps_its_jobs() -> None:
    cluster, _ = proposed(node="n1", act="Cordon")
    assert (cluster.left, cluster.snapshot.jobs, cluster.snapshot.nodes[0].ready) == ((), (HELD,), False)


@pytest.mark.parametrize("name", OF_DECISIONS)
def test_a_setting_is_that_of_the_operator(name: str) -> None:
    cluster, command = proposed(setting=name, value="7")
    assert (getattr(cluster.policy, name), command) == (
        7,
        f"helm upgrade … --reset-then-reuse-values --set operator.settings.{name}=7",
    )
    assert cluster.policy != DEFAULT


@pytest.mark.parametrize(
    ("gpu", "left", "healthy"),
    [("GPU-n1-0", ("red/held",), [False, True]), ("GPU-n1-1", (), [True, False])],
    ids=["one that is held", "one that is free"],
)
def test_a_drain_of_one_gpu_ends_those_who_hold_it_alone(gpu: str, left: tuple[str, ...], healthy: list[bool]) -> None:
    cluster, command = proposed(node="n1", act="Drain", gpu=gpu)
    assert (cluster.left, cluster.why_left) == (left, "its GPU would be drained")
    assert [one.healthy for one in cluster.snapshot.nodes[0].gpus] == healthy
    assert [job.placement is None for job in cluster.snapshot.jobs] == [bool(left)]
    assert command == f"kubectl cotenant drain n1 --gpu {gpu}"


@pytest.mark.parametrize(
    "spec", [{"act": "Cordon", "gpu": "GPU-n1-0"}, {"act": "Drain", "gpu": "GPU-n2-0"}, {"act": "Drain", "gpu": 3}]
)
def test_a_drain_of_a_gpu_that_is_not_there_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises((ProposalError, NotFoundError), match=r"there is no GPU|spec\.gpu must be"):
        proposed(node="n1", **spec)
