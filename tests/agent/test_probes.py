"""What the kubelet is told, and that everybody else learns no more."""

import time

import pytest

from cotenant_agent import probes
from cotenant_agent.http_server import Answer
from tests.agent.test_metrics import look, make_agent

OK, NO = Answer(200, b"ok\n"), Answer(503, b"no\n")


@pytest.mark.parametrize(
    ("age", "healthz", "readyz"),
    [(0.0, OK, OK), (60.0, OK, NO), (600.0, NO, NO), (-3600.0, NO, NO)],
    ids=["fresh", "late: not ready", "hung: restart me", "of before the clock was set back: a new one is due"],
)
def test_the_probes_follow_the_age_of_the_last_look(age: float, healthz: Answer, readyz: Answer) -> None:
    agent = make_agent()
    look(agent, time.time() - age)
    paths = probes.paths(agent)
    assert {path: respond("") for path, respond in paths.items()} == {"/healthz": healthz, "/readyz": readyz}


def test_an_agent_that_has_not_written_yet_lives_but_is_not_ready() -> None:
    paths = probes.paths(make_agent())
    assert (paths["/healthz"](""), paths["/readyz"]("")) == (OK, NO)
