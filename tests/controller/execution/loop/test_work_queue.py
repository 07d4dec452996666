"""The rules of the work queue, those of controller-runtime's. Pure: time is a number."""

from __future__ import annotations

from cotenant.controller.execution.loop.work_queue import WorkQueue


def queue(*items: str) -> WorkQueue[str]:
    made: WorkQueue[str] = WorkQueue()
    for item in items:
        made.add(item)
    return made


def test_what_is_added_twice_is_handed_out_once_and_in_the_order_of_the_first_time() -> None:
    line = queue("a", "b", "a")
    assert (line.get(0.0), line.get(0.0)) == (["a", "b"], [])


def test_what_is_being_processed_is_handed_out_again_only_after_it_is_done() -> None:
    line = queue("a")
    line.get(0.0)
    line.add("a")
    assert ("a" in line, line.get(0.0)) == (True, [])
    line.done("a")
    assert ("a" in line, line.get(0.0), "a" in line) == (False, ["a"], True)


def test_what_is_started_without_being_asked_for_keeps_what_was_added() -> None:
    line = queue("a")
    line.start("a")
    assert line.get(0.0) == []
    line.done("a")
    assert line.get(0.0) == ["a"]


def test_what_is_added_for_later_waits_for_its_time() -> None:
    line = queue()
    line.add_after("b", 5.0)
    line.add_after("a", 3.0)
    assert (line.next_at(), line.get(2.9), line.get(3.0), line.next_at()) == (3.0, [], ["a"], 5.0)
    assert (line.get(9.0), line.next_at()) == (["b"], None)


def test_the_time_that_was_given_last_counts() -> None:
    line = queue()
    line.add_after("a", 3.0)
    line.add_after("a", 7.0)
    assert (line.get(5.0), line.get(7.0), line.get(9.0)) == ([], ["a"], [])


def test_a_fresh_observation_does_not_wait_for_the_time_that_was_given() -> None:
    line = queue()
    line.add_after("a", 100.0)
    line.add("a")
    assert line.get(0.0) == ["a"]
    line.done("a")
    assert (line.next_at(), line.get(200.0)) == (None, [])


def test_what_falls_due_while_it_is_being_processed_is_handed_out_afterwards() -> None:
    line = queue("a")
    line.get(0.0)
    line.add_after("a", 1.0)
    assert line.get(2.0) == []
    line.done("a")
    assert line.get(2.0) == ["a"]
