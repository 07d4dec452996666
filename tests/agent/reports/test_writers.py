"""If a node has two agents, one writes, and the other names the one that writes."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_agent.reports.writers import ALIVE_HEARTBEATS, Writer, conflict

ME = Writer("nvidia", "agent-a")
NOW = 1000.0
ALIVE_S = ALIVE_HEARTBEATS * 15
OF_AMD = {"source": "amd.com/gpu", "instance": "other-b"}
NEXT = {"source": "nvidia", "instance": "agent-b"}


@pytest.mark.parametrize(
    ("writer", "age", "started", "said"),
    [
        pytest.param(None, 1.0, False, "", id="an agent of before, which does not say who it is"),
        pytest.param(ME.entry(), 1.0, True, "", id="itself"),
        pytest.param(OF_AMD, ALIVE_S + 1, False, "", id="one that has gone"),
        pytest.param(OF_AMD, ALIVE_S, False, "an agent for amd.com/gpu (other-b) writes the GPUNode", id="of others"),
        pytest.param(OF_AMD, 1.0, True, "an agent for amd.com/gpu (other-b) writes the GPUNode", id="of others, later"),
        pytest.param(NEXT, 1.0, False, "", id="the version of before, when this one starts"),
        pytest.param(NEXT, 1.0, True, "another agent for nvidia (agent-b) writes", id="the next version of this one"),
        pytest.param({"source": 7}, 1.0, True, "an agent for 7 () writes", id="nonsense that somebody wrote"),
        pytest.param("text", 1.0, True, "", id="no writer at all"),
    ],
)
def test_who_holds_back_for_whom(writer: Any, age: float, started: bool, said: str) -> None:
    found = conflict(ME, {"writer": writer}, NOW, NOW - age, started=started)
    assert found.startswith(said) if said else found == ""


def test_of_two_kinds_that_are_both_alive_never_both_write_and_of_one_kind_the_later_one_does() -> None:
    """The status names the last writer. An agent that wrote before stops for an agent of another kind."""
    amd = Writer("amd.com/gpu", "other-b")
    assert conflict(ME, {"writer": amd.entry()}, NOW, NOW, started=True)
    assert conflict(amd, {"writer": ME.entry()}, NOW, NOW, started=False)
    later = Writer("nvidia", "agent-b")
    assert conflict(ME, {"writer": later.entry()}, NOW, NOW, started=True)
    assert not conflict(later, {"writer": ME.entry()}, NOW, NOW, started=False)


def test_a_status_without_a_heartbeat_is_nobody_s() -> None:
    assert conflict(ME, {"writer": OF_AMD}, NOW, None, started=False) == ""
