"""Which jobs are handed over, and when: a function of records, queues and the time."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_queue
from cotenant.api.resources.queues import Queue
from cotenant.controller.composites.remote_clusters.handover import HELPED, handovers
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.core.model.plan import Reason
from tests.controller.builders import T0, job_document

AFTER_S = 600


def queues(**spillover: Any) -> dict[str, Queue]:
    spec = {"spillover": {"cluster": "west", "after": "10m", **spillover}}
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": "red"}, "spec": spec}
    return {"red": parse_queue(document)}


def waiting(
    name: str = "train", reason: str = "WaitingForGPUs", status: dict[str, Any] | None = None, **spec: Any
) -> JobRecord:
    said = {"phase": "Pending", "pending": {"reason": reason, "message": "no place"}}
    document = job_document(name, said | (status or {}), **spec)
    return read_job(document | {"metadata": document["metadata"] | {"name": name, "uid": f"uid-{name}"}})


def gone(*records: JobRecord, at: float = T0 + AFTER_S, remote: str = "west", **spillover: Any) -> list[str]:
    found = handovers(records, queues(**spillover), remote, at, not_before={})
    return [one.record.name for one in found if not one.problem]


@pytest.mark.parametrize(("seconds", "goes"), [(AFTER_S - 1, []), (AFTER_S, ["train"])])
def test_a_job_goes_when_it_has_waited_for_as_long_as_its_queue_says(seconds: float, goes: list[str]) -> None:
    assert gone(waiting(), at=T0 + seconds) == goes


def test_the_wait_begins_anew_when_a_job_has_run_or_was_resumed() -> None:
    ended = {"type": "Admitted", "status": "False", "reason": "Evicted", "lastTransitionTime": "2026-01-01T00:05:00Z"}
    evicted = waiting(status={"conditions": [ended], "attempts": 1})
    resumed = waiting("resumed", status={"conditions": [ended | {"type": "Suspended", "reason": "Resumed"}]})
    assert gone(evicted, resumed, at=T0 + AFTER_S) == []
    assert sorted(gone(evicted, resumed, at=T0 + AFTER_S + 300)) == ["resumed", "train"]


def test_a_job_goes_to_the_cluster_of_its_queue_alone() -> None:
    assert gone(waiting(), remote="east") == []
    assert gone(waiting(queue="blue")) == []


STAYING = [
    pytest.param(waiting(suspend=True), id="suspended"),
    pytest.param(waiting(spillover="Never"), id="kept by its tenant"),
    pytest.param(waiting(status={"phase": "Running"}), id="it runs"),
    pytest.param(waiting(status={"phase": "Succeeded"}), id="it is over"),
    pytest.param(waiting(status={"pending": None}), id="nothing was decided yet"),
    pytest.param(
        waiting(
            status={"cluster": {"name": "west", "namespace": "red", "job": "train-1", "since": "2026-01-01T00:00:00Z"}}
        ),
        id="it is there",
    ),
]


@pytest.mark.parametrize("record", STAYING)
def test_what_does_not_wait_here_alone_stays(record: JobRecord) -> None:
    assert gone(record) == []


@pytest.mark.parametrize("reason", list(Reason))
def test_a_job_goes_for_want_of_a_place_or_of_quota_and_not_where_its_queue_lets_nothing_start(reason: Reason) -> None:
    stays = {
        Reason.QUEUE_NOT_FOUND,
        Reason.NAMESPACE_NOT_SERVED,
        Reason.BUDGET_SPENT,
        Reason.PRIORITY_NOT_ALLOWED,
        Reason.QUEUE_HELD,
        Reason.WAITING_FOR_EVICTION,
    }
    assert (gone(waiting(reason=reason.value)) == []) is (reason in stays)
    assert (reason in HELPED) is (reason not in stays)


def test_the_longest_wait_goes_first_and_no_more_than_the_queue_lets_be_there() -> None:
    older, younger = waiting("older"), waiting("younger")
    assert gone(younger, older, maxJobs=1) == ["older"]
    there = {"name": "west", "namespace": "red", "job": "a-1", "since": "2026-01-01T00:00:00Z"}
    away = waiting("away", status={"phase": "Running", "cluster": there})
    assert gone(younger, older, away, maxJobs=2) == ["older"]
    over = waiting("over", status={"phase": "Succeeded", "cluster": there})
    assert gone(younger, older, over, maxJobs=2) == ["older", "younger"]


def test_a_job_that_came_back_does_not_go_again_at_once() -> None:
    record = waiting()
    found = handovers([record], queues(), "west", T0 + AFTER_S, not_before={record.uid: T0 + AFTER_S + 1})
    assert found == []
