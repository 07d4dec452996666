"""What becomes of a batch of what was seen: timelines of jobs, records of decisions and of runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.controller.decision_log.archive import Archive
from cotenant.controller.decision_log.past_capsules import PastCapsules
from cotenant.controller.decision_log.record_writer import Decided, PhaseSeen, RecordWriter
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.core.model.plan import Action, Evict, EvictionKind, Plan
from cotenant.core.policy import DEFAULT
from cotenant.core.scheduling.scheduler import schedule
from cotenant.decision_log.timelines import Happening
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

ONE_NODE = make_placement(("n1", [[0], [1]]))
SNAPSHOT = make_snapshot(
    now=1_000.0,
    nodes=[make_node("n1", gpus=2)],
    queues=[make_queue("red", guaranteed=2)],
    jobs=[make_job("a", queue="red", workers=2, gpus=1), make_job("b", queue="red", gpus=1)],
)
NAMESPACES = frozenset({"red", "blue"})


@pytest.fixture
def writer() -> RecordWriter:
    return RecordWriter(archive=Archive(), capsules=PastCapsules(DEFAULT, 1 << 20, 1), metrics=Metrics())


def decided(plan: Plan, *carried_out: Action, now: float = 1_000.0) -> Decided:
    return Decided(replace(SNAPSHOT, now=now), plan, carried_out, 0.01)


def told(writer: RecordWriter, name: str) -> list[tuple[str, str, str]]:
    (uid,) = [job.uid for job in SNAPSHOT.jobs if job.key == f"red/{name}"]
    return [(one.what, one.reason, one.message) for one in writer.timelines[uid].happenings]


def test_of_a_decision_each_job_is_noted_what_it_is_to_that_job(writer: RecordWriter) -> None:
    plan = schedule(SNAPSHOT, DEFAULT)
    writer.write([decided(plan, *plan.actions)], (), NAMESPACES)
    ((what, reason, message),) = told(writer, "a")
    assert (what, reason, message) == ("Admitted", "", "workers on n1 (2): H100")
    ((what, reason, message),) = told(writer, "b")
    assert (what, reason) == ("Waits", "WaitingForGPUs")
    assert message


def test_an_action_that_was_not_carried_out_did_not_happen(writer: RecordWriter) -> None:
    writer.write([decided(schedule(SNAPSHOT, DEFAULT))], (), NAMESPACES)
    assert told(writer, "a") == []


def test_whoever_gives_way_is_told_for_whom_and_the_message_names_the_namespaces_in_it(writer: RecordWriter) -> None:
    away = Evict(job="red/a", kind=EvictionKind.MOVED, in_favour_of="blue/c", message="moved")
    writer.write([decided(Plan(actions=(away,)), away)], (), NAMESPACES)
    assert told(writer, "a") == [("Evicted", EvictionKind.MOVED.value, "moved for blue/c")]
    (uid,) = [job.uid for job in SNAPSHOT.jobs if job.key == "red/a"]
    assert writer.timelines[uid].happenings[0].mentions == ("blue",)


def test_the_same_decision_again_is_one_record_and_one_capsule(writer: RecordWriter) -> None:
    plan = schedule(SNAPSHOT, DEFAULT)
    writer.write([decided(plan), decided(plan, now=2_000.0)], (), NAMESPACES)
    assert len(writer.capsules.newest_first()) == 1


def test_another_replica_that_leads_begins_with_nothing_but_what_an_earlier_one_gave(writer: RecordWriter) -> None:
    job = SNAPSHOT.jobs[0]
    writer.write([PhaseSeen(job.uid, Happening(at=1.0, what="Running"))], (), NAMESPACES)
    writer.forget()
    writer.note_admitted(job.uid, ONE_NODE, 5.0, {"n1-gpu-0": "H100"})
    assert [(one.at, one.what) for one in writer.timelines[job.uid].happenings] == [(5.0, "Admitted")]
