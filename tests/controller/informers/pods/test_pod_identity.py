"""Whose a pod is and what it was granted, by its spec alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import names
from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_identity import PodIdentity, identity_of
from cotenant.controller.informers.pods.pod_record import read_pod
from tests.controller.builders import JOB_ID, contract_of, placement_on, pod_document

PLACED = placement_on(("n1", 1)).nodes[0]
OURS = PodIdentity(job=JOB_ID, attempt=1, node_rank=0, placement=PLACED)


@pytest.mark.parametrize(
    "edit",
    [
        {"labels": None},
        {"labels": {names.LABEL_JOB_UID: "other", names.LABEL_NODE_RANK: "seven"}},
        {"annotations": {names.ANNOTATION_PLACEMENT: '{"node": "n2", "grants": {}}'}},
        {"annotations": None},
        {"ownerReferences": []},
        {"finalizers": ["a/b"]},
        {"deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 100_000_000},
    ],
    ids=str,
)
def test_no_edit_of_metadata_makes_a_pod_another_or_nobodys(edit: dict[str, Any]) -> None:
    document = pod_document()
    document["metadata"] |= edit
    assert identity_of(document) == OURS


@pytest.mark.parametrize(
    "forged",
    [
        {"namespace": "elsewhere"},
        {"name": "train-1-1"},
        {"name": "other"},
    ],
    ids=str,
)
def test_a_contract_of_another_pod_makes_none_of_ours(forged: dict[str, str]) -> None:
    document = pod_document()
    document["metadata"] |= forged
    assert identity_of(document) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version":1}', "[" * 100_000, "zlib:!", "zlib:AAAA", '{"version":1,"pods":[{"host":1}]}'],
    ids=lambda text: text[:30] or "none",
)
def test_metadata_of_ours_without_a_contract_that_can_be_read_holds_nothing(text: str) -> None:
    document = pod_document()
    document["spec"]["containers"][0]["env"] = [{"name": names.ENV_CONTRACT, "value": text}]
    assert identity_of(document) is None


def test_only_the_worker_container_has_a_contract_and_of_two_with_one_name_the_last_counts() -> None:
    document = pod_document()
    (container,) = document["spec"]["containers"]
    document["spec"]["containers"] = [container | {"name": "beside"}]
    assert identity_of(document) is None
    document["spec"]["containers"] = [
        container | {"env": [{"name": names.ENV_CONTRACT, "value": "x"}, *container["env"]]}
    ]
    assert identity_of(document) == OURS


def test_before_it_is_bound_its_affinity_names_its_node() -> None:
    document = pod_document()
    del document["spec"]["nodeName"]
    assert identity_of(document) == replace(OURS, placement=replace(PLACED, node=""))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    document["spec"]["affinity"] = {"nodeAffinity": required}
    assert identity_of(document) == OURS


def test_a_server_holds_no_gpu() -> None:
    found = identity_of(pod_document(1, server=True))
    assert found == PodIdentity(job=JOB_ID, attempt=1, node_rank=1, placement=None, role=Role.PARAMETER_SERVER)


def test_an_evaluator_holds_no_gpu() -> None:
    found = identity_of(pod_document(1, evaluator=True))
    assert found == PodIdentity(job=JOB_ID, attempt=1, node_rank=1, placement=None, role=Role.EVALUATOR)


@pytest.mark.parametrize(
    ("node_rank", "platform", "has_chief"),
    [(0, {"chief": True}, True), (1, {"chief": True}, False), (0, {}, False), (0, {"chief": "x"}, False)],
    ids=["its pod", "another pod", "a job without one", "nonsense"],
)
def test_the_pod_of_rank_0_has_the_chief(node_rank: int, platform: dict[str, Any], has_chief: bool) -> None:
    document, nodes = pod_document(node_rank), placement_on(("n1", 1), ("n2", 1)).nodes
    own = contract_of(node_rank, 1, nodes[node_rank])
    env = replace(own, platform=platform).to_environment()
    document["spec"]["containers"][0]["env"] = [{"name": name, "value": text} for name, text in env.items()]
    found = identity_of(document)
    assert found is not None
    assert found.has_chief is has_chief


def test_a_contract_of_a_pod_behind_all_others_is_nobodys() -> None:
    document = pod_document(1, evaluator=True)
    own = replace(contract_of(1, 1, PLACED, evaluator=True), evaluator=None)
    document["spec"]["containers"][0]["env"] = [
        {"name": name, "value": text} for name, text in own.to_environment().items()
    ]
    assert identity_of(document) is None


def test_a_long_contract_is_read_as_well() -> None:
    placed = placement_on(("n1", 3000)).nodes[0]
    assert len(contract_of(0, 1, placed).to_json()) > 100_000
    found = identity_of(pod_document(placement=placed))
    assert found is not None
    assert found.placement == placed


def test_the_contract_is_read_once_and_the_node_is_the_one_that_it_is_bound_to() -> None:
    first = read_pod(pod_document())
    again = read_pod(pod_document(version=11), first)
    assert again.worker is first.worker
    bound = pod_document(version=12)
    bound["spec"]["nodeName"] = "n2"  # nothing else of a spec that counts here can change
    moved = read_pod(bound, again)
    assert moved.worker == identity_of(bound) == replace(OURS, placement=replace(PLACED, node="n2"))
    assert read_pod(pod_document(uid="namesake"), first).worker is not first.worker
