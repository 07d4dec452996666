"""Parts hear of a change of leadership in the order in which they asked: first those that have something to forget."""

from __future__ import annotations

from cotenant.controller.leader.leadership import Leadership


def test_leadership_is_asked_for_each_time() -> None:
    held = [True]
    leadership = Leadership(lambda: held[0])
    before = leadership.held
    held[0] = False
    assert (before, leadership.held) == (True, False)


def test_what_a_leader_knew_is_forgotten_at_each_loss_before_anybody_is_told_of_the_change() -> None:
    told: list[object] = []
    leadership = Leadership(lambda: True)
    leadership.on_change(told.append)
    leadership.on_lost(lambda: told.append("plan"))
    leadership.on_lost(lambda: told.append("budgets"))
    leadership.changed(True)
    assert told == [True]
    leadership.changed(False)
    assert told == [True, "plan", "budgets", False]
    leadership.changed(False)
    assert told[4:] == ["plan", "budgets", False]
