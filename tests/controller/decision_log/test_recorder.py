"""What the operator records of its own work: a whole replica on the double of the API server, in simulated time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cotenant.controller.client.kube import TRAINING_JOBS
from cotenant.controller.decision_log import recorder
from cotenant.controller.informers import tombstones
from cotenant.core.model.plan import Plan
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.capsule import Capsule, differences, replayed
from tests.controller.execution.replica import Replica, end_pods, simulate_time, start_pods, submit

pytestmark = pytest.mark.looptime


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_time(monkeypatch)


async def run(replica: Replica, seconds: float = 2.0) -> None:
    """The loop, and then the recorder's thread."""
    await replica.run(seconds)
    await replica.operator.decision_recorder.drain()


async def finish(replica: Replica, name: str = "train", phase: str = "Succeeded") -> None:
    status = {"phase": phase, "placement": None, "usage": {"gpuSeconds": 8, "gpuMilliseconds": 8_000}}
    await replica.kube.patch(TRAINING_JOBS, name, {"status": status}, namespace="red", subresource="status")
    replica.kube.deliver(replica.operator.feed.on_event)
    await replica.operator.decision_recorder.drain()


def whats(replica: Replica, name: str = "train") -> list[str]:
    found = replica.operator.decision_recorder.run(f"red/{name}")
    return [f"{one.what} {one.reason}".strip() for one in found.timeline.happenings] if found else []


async def test_of_a_job_that_runs_the_record_counts_what_it_has_held_by_now() -> None:
    replica = Replica()
    submit(replica.kube)
    await run(replica)
    await start_pods(replica.kube)
    await run(replica)
    recorder_ = replica.operator.decision_recorder
    before = recorder_.run("red/train", recorder_.clock())
    await run(replica, 60.0)
    found = recorder_.run("red/train", recorder_.clock())
    assert before is not None
    assert found is not None
    assert found.outcome == "Running"
    assert found.run_seconds - before.run_seconds in (60, 61)
    assert found.gpu_milliseconds - before.gpu_milliseconds in (4 * 60_000, 4 * 61_000)


async def test_a_run_is_recorded_once_with_what_happened_to_it_and_outlives_its_object() -> None:
    replica = Replica()
    submit(replica.kube, "first")
    await run(replica, 1.0)
    submit(replica.kube)
    await run(replica, 1.0)
    await start_pods(replica.kube)
    assert whats(replica) == ["Waits WaitingForGPUs"]
    await finish(replica, "first")
    await run(replica)
    await end_pods(replica.kube)
    await run(replica)
    await start_pods(replica.kube)
    await run(replica)
    await finish(replica)
    replica.kube.remove(TRAINING_JOBS, "train", "red")
    await run(replica)
    archive = replica.operator.decision_recorder.archive
    assert [(one.name, one.outcome) for one in archive.runs("red", most=9)] == [
        ("train", "Succeeded"),
        ("first", "Succeeded"),
    ]
    found = replica.operator.decision_recorder.run("red/train")
    assert found is not None
    assert whats(replica) == [
        "Waits WaitingForGPUs",
        "Waits WaitingForEviction",
        "Admitted",
        "Running Running",
        "Succeeded Running",
    ]
    assert found.timeline.happenings[2].message == "workers on n1 (2), n2 (2): H100"
    assert (found.gpu_class, found.gpu_milliseconds) == ("H100", 8_000)


async def test_a_job_that_is_deleted_while_it_holds_gpus_is_a_run_too_and_one_that_never_did_is_none() -> None:
    replica = Replica()
    submit(replica.kube)
    submit(replica.kube, "waits")
    await run(replica)
    for name in ("train", "waits"):
        replica.kube.remove(TRAINING_JOBS, name, "red")
    await run(replica)
    assert [(one.name, one.outcome) for one in replica.operator.decision_recorder.archive.runs(most=9)] == [
        ("train", "Deleted")
    ]


async def test_the_newest_deleted_jobs_are_remembered_and_no_late_event_records_or_charges_one_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tombstones, "TOMBSTONES_MAX", 1)
    replica, last = Replica(), {}
    recorder_ = replica.operator.decision_recorder
    for name in ("first", "second"):
        submit(replica.kube, name)
        await run(replica)
        await finish(replica, name)
        recorder_.charge()
        last = replica.kube.stored(TRAINING_JOBS, name, "red") or {}
        replica.kube.remove(TRAINING_JOBS, name, "red")
        await run(replica)
        recorder_.charge()
        replica.operator.feed.on_event(TRAINING_JOBS, last, True)
        recorder_.charge()
        await recorder_.drain()
    first, second = (
        next(one.uid for one in recorder_.archive.runs("red", name, most=1)) for name in ("first", "second")
    )
    assert [recorder_.archive.knows(uid) for uid in (first, second)] == [False, True]
    assert [recorder_.showback.ledger.charged(uid) for uid in (first, second)] == [0, 8_000]
    assert [one.name for one in recorder_.archive.runs(most=9)] == ["second", "first"]
    assert [(one.name, one.held) for one in recorder_.archive.charges()] == [("first", 8_000), ("second", 8_000)]


async def test_a_job_that_vanishes_or_ends_while_no_watch_tells_it_has_its_record_too() -> None:
    replica = Replica()
    submit(replica.kube, workers=1)
    submit(replica.kube, "ends", workers=1)
    submit(replica.kube, "waits", workers=4)
    await run(replica)
    for name in ("train", "waits"):
        replica.kube.remove(TRAINING_JOBS, name, "red")
    document = replica.kube.stored(TRAINING_JOBS, "ends", "red")
    assert document is not None
    over = document["status"] | {"phase": "Succeeded", "placement": None, "finishedAt": "2026-01-01T00:00:00Z"}
    replica.kube.put(TRAINING_JOBS, document | {"status": over})
    replica.kube.deliver(lambda *_: None)  # the watch is down
    await replica.operator.feed.resync()
    await replica.operator.decision_recorder.drain()
    archive = replica.operator.decision_recorder.archive
    assert {(one.name, one.outcome) for one in archive.runs(most=9)} == {("train", "Deleted"), ("ends", "Succeeded")}
    await replica.operator.feed.resync()
    await replica.operator.decision_recorder.drain()
    assert len(archive.runs(most=9)) == 2


async def test_cycles_say_what_was_done_and_the_capsule_gives_the_same_plan() -> None:
    replica = Replica()
    submit(replica.kube)
    await run(replica)
    submit(replica.kube, "waits")
    await run(replica)
    of = replica.operator.decision_recorder
    cycles = of.archive.cycles(99)
    assert [one.job for cycle in cycles for one in cycle.actions] == ["red/train"]
    assert [one.reason for cycle in cycles for one in cycle.verdicts] == ["WaitingForGPUs"]
    assert cycles[0].reasons == {"WaitingForGPUs": 1}
    capsule = of.capsule()
    assert capsule is not None
    assert differences(capsule, replayed(capsule)) == ()
    assert len(capsule.plan) == 1


async def test_the_inputs_of_a_cycle_that_evicted_are_there_long_after_it_and_give_the_same_bytes() -> None:
    replica = Replica()
    submit(replica.kube)
    await run(replica)
    document = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert document is not None
    urgent = submit(replica.kube, "urgent", workers=4)
    replica.kube.put(TRAINING_JOBS, urgent | {"spec": urgent["spec"] | {"priority": 9}})
    await run(replica)
    replica.kube.remove(TRAINING_JOBS, "urgent", "red")
    await run(replica, 60.0)
    of = replica.operator.decision_recorder
    (evicting,) = [one for one in of.archive.cycles(99) if any(action.action == "Evict" for action in one.actions)]
    kept = of.capsules.get(evicting.digest)
    assert kept is not None
    assert (kept.at, kept.evictions) == (evicting.at, 1)
    capsule = Capsule.from_bytes(kept.packed)
    assert differences(capsule, replayed(capsule)) == ()
    assert any(line.startswith("Evict ") for line in capsule.plan)
    of.forget()
    assert of.capsules.newest_first() == []


async def test_a_new_leader_records_what_ended_while_nobody_did() -> None:
    old = Replica()
    submit(old.kube)
    await run(old)
    await finish(old)
    new = Replica(old.kube)
    await new.operator.feed.resync()
    recording = asyncio.create_task(new.operator.decision_recorder.record())
    await asyncio.sleep(2 * recorder.PAUSE_S)
    recording.cancel()
    assert [one.name for one in new.operator.decision_recorder.archive.runs(most=9)] == ["train"]


async def test_a_new_leader_knows_where_jobs_run_that_it_did_not_place() -> None:
    old = Replica()
    submit(old.kube)
    await run(old)
    new = Replica(old.kube)
    await new.operator.feed.resync()
    recording = asyncio.create_task(new.operator.decision_recorder.record())
    await asyncio.sleep(2 * recorder.PAUSE_S)
    recording.cancel()
    found = new.operator.decision_recorder.run("red/train")
    assert found is not None
    assert (whats(new), found.gpu_class) == (["Admitted"], "H100")


async def test_who_does_not_lead_records_nothing() -> None:
    replica = Replica()
    submit(replica.kube)
    await run(replica)
    replica.lose()
    replica.operator.leadership.changed(False)
    known = replica.kube.stored(TRAINING_JOBS, "train", "red") or {}
    replica.kube.put(TRAINING_JOBS, known | {"status": {"phase": "Succeeded", "attempts": 1}})
    replica.kube.deliver(replica.operator.feed.on_event)
    await replica.operator.decision_recorder.drain()
    assert replica.operator.decision_recorder.archive.runs(most=9) == []
    assert replica.operator.decision_recorder.capsule() is None


def dropped(replica: Replica, item: str) -> float:
    return (
        replica.operator.metrics.registry.get_sample_value("cotenant_decision_log_dropped_total", {"item": item}) or 0
    )


async def test_what_is_not_kept_up_with_is_dropped_with_a_count_and_nobody_waits() -> None:
    replica = Replica()
    of = replica.operator.decision_recorder
    for number in range(recorder.DECISIONS_MAX + 3):
        of.on_decision(Snapshot(now=float(number)), Plan(), (), 0.1)
    assert dropped(replica, "Decided") == 3
    await of.drain()
    assert len(of.archive.cycles(999)) == recorder.DECISIONS_MAX


async def test_too_many_ends_are_dropped_with_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "QUEUE_MAX", 2)
    replica = Replica()
    for name in ("a", "b", "c"):
        submit(replica.kube, name)
        await finish_unseen(replica, name)
    replica.kube.deliver(replica.operator.feed.on_event)
    assert dropped(replica, "RunEnded") + dropped(replica, "PhaseSeen") == 4


async def finish_unseen(replica: Replica, name: str) -> None:
    await replica.kube.patch(
        TRAINING_JOBS, name, {"status": {"phase": "Failed"}}, namespace="red", subresource="status"
    )


async def test_a_failure_costs_what_was_being_recorded_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replica = Replica()
    of = replica.operator.decision_recorder
    broken = replace(Snapshot(now=1.0), evicted=(object(),))  # type: ignore[arg-type]
    of.on_decision(broken, Plan(), (), 0.1)
    await of.drain()
    assert "1 entries of the decision log are lost" in caplog.text
    of.on_decision(Snapshot(now=2.0), Plan(), (), 0.1)
    await of.drain()
    assert [one.at for one in of.archive.cycles(9)] == [2.0]
