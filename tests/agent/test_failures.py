"""Failures that the agent survives: counted each time, logged once, in one printable line."""

from __future__ import annotations

import pytest

from cotenant_agent.failures import LOGGED_MAX, Failures, Step


def test_every_failure_is_counted_and_the_same_one_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    for name in ("a", "a", "b"):
        failures.note(Step.POD, f"pod red/{name}", ValueError("\x1b[31mno\u202e" + "x" * 1000))
    assert failures.counts() == {step: 3 if step is Step.POD else 0 for step in Step}
    messages = [record.getMessage() for record in caplog.records]
    assert [message.partition(":")[0] for message in messages] == ["pod red/a", "pod red/b"]
    assert all(message.isprintable() and len(message) < 350 for message in messages)


def test_what_was_logged_is_not_remembered_without_bound() -> None:
    failures = Failures()
    for number in range(3 * LOGGED_MAX):
        failures.note(Step.POD, f"pod red/{number}", ValueError())
    assert len(failures._logged) <= LOGGED_MAX
