"""Pods without an object that hold GPUs all the same, by what was seen of them last and by what their agents report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant.api.resources.gpunodes import GpuHolder
from cotenant.controller.informers.pods.departed_pods import HEARD_S, DepartedPods
from cotenant.controller.informers.pods.pod_record import PodRecord
from tests.controller.builders import JOB_ID, exited, placement_on, pod, server

T = 1000.0
POD = pod(0)
ENDED = pod(0, end=exited(137))
LOST = pod(0, end=exited(-1))


def holder(evidence: str = "Pod", **changes: Any) -> GpuHolder:
    document: dict[str, Any] = {
        "podUID": POD.uid, "namespace": "red", "pod": POD.name, "job": "train", "jobUID": JOB_ID.uid,
        "attempt": 1, "nodeRank": 0, "since": "2026-01-01T00:00:00Z", "evidence": evidence,
        "gpus": [{"uuid": "GPU-n1-0", "memoryMiB": 32_768, "computeMilli": 400}],
    }  # fmt: skip
    return GpuHolder.model_validate(document | changes)


def held(departed: DepartedPods, *present: PodRecord) -> list[str]:
    return [one.uid for one in departed.of_job(JOB_ID, {one.uid: one for one in present})]


def test_a_pod_that_is_deleted_by_force_holds_until_its_agent_no_longer_names_it() -> None:
    departed = DepartedPods()
    assert departed.report("n1", [holder()], T) == {JOB_ID}
    assert held(departed, POD) == []
    departed.note_departure(POD, T)
    assert held(departed) == [POD.uid]
    assert departed.report("n1", [holder("Processes")], T + 1) == {JOB_ID}
    assert held(departed) == [POD.uid]
    assert departed.report("n1", [holder("Processes")], T + 9999) == set()
    assert held(departed) == [POD.uid]
    assert departed.report("n1", [], T + 10_000) == {JOB_ID}
    assert (held(departed), departed.jobs()) == ([], set())


def test_one_that_its_agent_never_named_holds_until_a_report_that_must_have_seen_it() -> None:
    departed = DepartedPods()
    departed.report("n1", [], T)
    departed.note_departure(POD, T)
    seen = []
    for at in (T + 1, T + HEARD_S - 0.1, T + HEARD_S):
        departed.report("n1", [], at)
        seen.append(held(departed))
    assert seen == [[POD.uid], [POD.uid], []]


def test_a_pod_that_its_kubelet_has_ended_holds_nothing_though_the_report_is_older() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder()], T)
    assert held(departed, ENDED) == []
    departed.note_departure(ENDED, T)
    assert held(departed) == []
    departed.report("n1", [holder("GPU")], T + 1)
    assert held(departed) == [POD.uid]


def test_that_a_pod_failed_is_not_its_kubelets_word_that_it_ended() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder()], T)
    assert held(departed, LOST) == [POD.uid]
    departed.note_departure(LOST, T)
    assert held(departed) == [POD.uid]
    departed.report("n1", [], T + 1)
    assert held(departed) == []


@pytest.mark.parametrize("silent", [None, "other"], ids=["an agent of before", "another node's agent"])
def test_where_no_agent_speaks_of_holders_the_api_server_has_the_last_word(silent: str | None) -> None:
    departed = DepartedPods()
    departed.report(silent or "n1", None if silent is None else [], T)
    departed.note_departure(POD, T)
    assert held(departed) == []


def test_an_agent_that_goes_back_to_a_version_of_before_frees_what_it_alone_knew() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder()], T)
    departed.note_departure(POD, T)
    assert departed.report("n1", None, T + 1) == {JOB_ID}
    assert held(departed) == []


def test_after_a_restart_of_the_operator_the_report_alone_holds() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder("Processes", podUID="b"), holder()], T)
    found = {one.uid: one for one in departed.of_job(JOB_ID, {POD.uid: POD})}
    assert list(found) == ["b"]
    worker = found["b"].worker
    assert worker is not None
    assert (worker.job, worker.attempt, worker.placement) == (JOB_ID, 1, placement_on(("n1", 1)).nodes[0])
    assert departed.forget_node("n1") == {JOB_ID}
    assert (held(departed), departed.jobs()) == ([], set())


def test_servers_and_pods_that_were_never_bound_hold_no_gpu() -> None:
    departed = DepartedPods()
    departed.report("n1", [], T)
    for one in (server(nodes=1, node="n1"), replace(POD, node=""), replace(POD, worker=None)):
        departed.note_departure(one, T)
    assert departed.jobs() == set()


def test_a_pod_is_gone_with_the_first_report_that_no_longer_names_it_though_it_was_named_late() -> None:
    departed = DepartedPods()
    departed.report("n1", [], T)
    departed.note_departure(POD, T)
    departed.report("n1", [holder()], T + 1)
    assert held(departed) == [POD.uid]

    assert departed.report("n1", [], T + 2) == {JOB_ID}

    assert held(departed) == []


def test_what_another_nodes_agent_says_ends_no_pod_and_brings_none_back() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder(), holder(podUID="b")], T)
    departed.note_departure(ENDED, T)
    departed.note_departure(replace(POD, uid="b"), T)

    departed.report("n2", [], T + HEARD_S)

    assert held(departed) == ["b"]


def test_the_kubelets_word_stands_while_an_agent_that_has_seen_less_repeats_itself() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder()], T)
    departed.note_departure(ENDED, T)
    for at in (T + 1, T + 2):
        departed.report("n1", [holder()], at)
        assert held(departed) == []


def test_a_job_keeps_what_one_node_reports_when_another_has_nothing_more() -> None:
    departed = DepartedPods()
    departed.report("n1", [holder()], T)
    departed.report("n2", [holder(podUID="b")], T)
    assert departed.report("n1", [], T + 1) == {JOB_ID}

    assert (held(departed), departed.jobs()) == (["b"], {JOB_ID})


def test_a_report_of_a_pod_that_was_over_before_any_report_named_it_is_believed() -> None:
    """The report is newer than the observed end, so the agent sees processes that the kubelet does not know."""
    departed = DepartedPods()
    departed.report("n1", [], T)
    departed.note_departure(ENDED, T)
    departed.report("n1", [holder()], T + 1)

    assert held(departed) == [POD.uid]
