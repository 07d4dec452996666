"""The kubelet's probes of the agent, from the age of the last look. Everybody may ask, so the answer is only
yes or no.
"""

from __future__ import annotations

import time
from typing import Final

from cotenant_agent.agent import Agent
from cotenant_agent.elapsed import elapsed_s
from cotenant_agent.http_server import Answer, Respond

READY_AGE_S: Final = 30.0
LIVE_AGE_S: Final = 180.0
"""After this time without a look, a driver call hangs. A new process may help."""


def paths(agent: Agent) -> dict[str, Respond]:
    started = time.time()

    def healthz(_: str) -> Answer:
        # One that holds back for another agent is not mended by a new process.
        return _answer(bool(agent.refused) or sample_age_s(agent, started, time.time()) < LIVE_AGE_S)

    def readyz(_: str) -> Answer:
        return _answer(agent.writes > 0 and sample_age_s(agent, started, time.time()) < READY_AGE_S)

    return {"/healthz": healthz, "/readyz": readyz}


def sample_age_s(agent: Agent, started: float, now: float) -> float:
    return elapsed_s(agent.view.taken_at if agent.view is not None else started, now)


def _answer(good: bool) -> Answer:
    return Answer(200, b"ok\n") if good else Answer(503, b"no\n")
