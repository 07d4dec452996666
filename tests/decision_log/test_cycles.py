"""Records of cycles: what was done, and whose reason is another than before."""

from __future__ import annotations

from dataclasses import replace

from cotenant.core.model.plan import Admit, Evict, EvictionKind, Plan, Reason, Verdict
from cotenant.decision_log import cycles
from cotenant.decision_log.cycles import ActionTaken, CycleHistory, ReasonGiven
from tests.support.clusters import make_job, make_node, make_placement, make_queue, make_snapshot

SNAPSHOT = make_snapshot(nodes=[make_node("n1")], queues=[make_queue("red", guaranteed=2)], jobs=[make_job("a")])
PLACE = make_placement(("n1", [[0], [1]]))


def verdict(job: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> Verdict:
    return Verdict(job=job, reason=reason, message=f"{job} waits")


def plan(*verdicts: Verdict, actions: tuple[Admit | Evict, ...] = ()) -> Plan:
    return Plan(actions=actions, verdicts={one.job: one for one in verdicts})


def test_a_record_has_the_reasons_that_are_new_and_counts_all() -> None:
    history = CycleHistory()
    first, _ = history.record(SNAPSHOT, plan(verdict("red/a"), verdict("red/b")), (), 0.5)
    other = plan(verdict("red/a"), verdict("red/b", Reason.NO_QUOTA), verdict("red/c"))
    second, given = history.record(replace(SNAPSHOT, now=2_000.0), other, (), 0.5)
    assert [one.job for one in first.verdicts] == ["red/a", "red/b"]
    assert (
        second.verdicts
        == given
        == (
            ReasonGiven(job="red/b", reason="NoQuota", message="red/b waits"),
            ReasonGiven(job="red/c", reason="WaitingForGPUs", message="red/c waits"),
        )
    )
    assert second.reasons == {"WaitingForGPUs": 2, "NoQuota": 1}
    assert first.digest != second.digest


def test_a_decision_that_still_holds_is_a_short_record() -> None:
    history, decided = CycleHistory(), plan(verdict("red/a"))
    history.record(SNAPSHOT, decided, (), 0.1)
    again, given = history.record(replace(SNAPSHOT, now=1_005.0), decided, (), 0.1)
    assert (again.same, again.at, again.verdicts, given) == (True, 1_005.0, (), ())


def test_who_has_left_the_line_and_comes_back_is_given_a_reason_again() -> None:
    history = CycleHistory()
    history.record(SNAPSHOT, plan(verdict("red/a")), (), 0.1)
    history.record(SNAPSHOT, plan(), (), 0.1)
    _, given = history.record(SNAPSHOT, plan(verdict("red/a")), (), 0.1)
    assert [one.job for one in given] == ["red/a"]


def test_actions_say_whether_they_were_carried_out() -> None:
    evict = Evict(job="red/x", kind=EvictionKind.PREEMPTED, in_favour_of="red/a", message="make room")
    admit = Admit(job="red/a", placement=PLACE)
    record, _ = CycleHistory().record(SNAPSHOT, plan(actions=(evict, admit)), (admit,), 0.1)
    assert record.actions == (
        ActionTaken(
            action="Evict", job="red/x", carried_out=False, kind="Preempted", in_favour_of="red/a", message="make room"
        ),
        ActionTaken(action="Admit", job="red/a", nodes=(("n1", 2),)),
    )


def test_of_many_reasons_some_are_listed_and_all_are_known() -> None:
    many = plan(*(verdict(f"red/j{number:05d}") for number in range(cycles.VERDICTS_MAX + 7)))
    record, given = CycleHistory().record(SNAPSHOT, many, (), 0.1)
    assert (len(record.verdicts), record.verdicts_more, len(given)) == (cycles.VERDICTS_MAX, 7, cycles.VERDICTS_MAX + 7)
