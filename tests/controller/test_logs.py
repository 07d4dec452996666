"""What an administrator reads: a log that is no flood, metrics that are explained."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from pathlib import Path

import pytest
from kubernetes.client import Configuration

from cotenant.controller.client.rest import RestKube
from cotenant.controller.leader.election import Leadership, LeaseTimes
from cotenant.controller.telemetry.logs import LINES, WINDOW_S, Limit, soften
from cotenant.controller.telemetry.metrics import Metrics

ADMINISTRATORS = (Path(__file__).parents[2] / "docs" / "administrators.md").read_text()


class Written(logging.Handler):
    def __init__(self, limit: Limit) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def writer(times: list[float]) -> tuple[logging.Logger, Written]:
    """A log on a clock that shows `times[0]`."""
    log = logging.Logger("jobs")
    written = Written(Limit(clock=lambda: times[0]))
    log.addHandler(written)
    return log, written


def test_the_same_trouble_of_a_thousand_jobs_is_a_few_lines_and_a_number() -> None:
    times = [0.0]
    log, written = writer(times)
    for moment in (0.0, WINDOW_S):
        times[0] = moment
        for job in range(1000):
            log.warning("job-%d: no answer", job)
    assert written.lines[: LINES + 1] == [
        *(f"job-{job}: no answer" for job in range(LINES)),
        f"job-0: no answer (and {1000 - LINES} more lines like this since the last one)",
    ]
    assert len(written.lines) == 2 * LINES


def test_another_trouble_is_not_drowned_by_the_first() -> None:
    log, written = writer([0.0])
    for _ in range(1000):
        log.warning("the first")
    log.error("the second")
    assert written.lines[-1] == "the second"


def test_what_happened_once_is_told_each_time() -> None:
    log, written = writer([0.0])
    for job in range(1000):
        log.info("job-%d: Running", job)
    assert len(written.lines) == 1000


def test_what_kopf_tries_again_by_itself_is_a_short_warning() -> None:
    message = "Request attempt #1/9 failed; will retry: GET /api/v1/pods -> " + "x" * 1000
    record = logging.LogRecord("kopf._cogs.clients.watching", logging.ERROR, "", 0, "%s", (message,), None)
    assert soften(record)
    assert (record.levelname, record.getMessage()) == ("WARNING", f"{message[:200]} …")


async def test_a_lease_that_nobody_answers_for_is_told_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    configuration = Configuration()
    async with await asyncio.start_server(lambda reader, _: reader.read(), "127.0.0.1", 0) as silent:
        configuration.host = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        async with RestKube(lambda: configuration) as kube:
            times = LeaseTimes(renew_deadline_s=0.05)
            lease = Leadership(kube, namespace="a", name="b", identity="c", times=times)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lease.run(), timeout=0.5)
    assert caplog.messages[0] == "lease a/b cannot be renewed: no answer within 0.05 s"


def test_every_metric_is_explained_and_none_that_is_not_there() -> None:
    served = Metrics().text().decode()
    described = dict(re.findall(r"^# HELP (\S+) (.*)$", served, re.MULTILINE))
    # Of a counter or histogram, `_created` says when it began; nobody asks for that.
    names = {name for name in described if not name.endswith("_created")}
    operators_part = ADMINISTRATORS.split("From the agent:")[0]
    documented = set(re.findall(r"`(cotenant_\w+)", operators_part.split("| metric of the operator |")[1]))
    assert documented == names
    assert all(described[name] for name in names)
