"""The operator's log: repeated lines are limited."""

from __future__ import annotations

import logging

import aiohttp
import pytest

from cotenant.contract.decoding.plain_log import PlainFormatter
from cotenant.controller.telemetry.logs import (
    FORMAT,
    LINES_PER_WINDOW,
    WINDOW_S,
    RepeatLimit,
    configure,
    downgrade_retries,
    drop_tracebacks_of_outages,
)


class Written(logging.Handler):
    def __init__(self, limit: RepeatLimit) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def writer(times: list[float]) -> tuple[logging.Logger, Written]:
    """A log on a clock that shows `times[0]`."""
    log = logging.Logger("jobs")
    written = Written(RepeatLimit(clock=lambda: times[0]))
    log.addHandler(written)
    return log, written


def test_the_same_trouble_of_a_thousand_jobs_is_a_few_lines_and_a_number() -> None:
    times = [0.0]
    log, written = writer(times)
    for moment in (0.0, WINDOW_S):
        times[0] = moment
        for job in range(1000):
            log.warning("job-%d: no answer", job)
    assert written.lines[: LINES_PER_WINDOW + 1] == [
        *(f"job-{job}: no answer" for job in range(LINES_PER_WINDOW)),
        f"job-0: no answer (and {1000 - LINES_PER_WINDOW} more lines like this since the last one)",
    ]
    assert len(written.lines) == 2 * LINES_PER_WINDOW


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
    assert downgrade_retries(record)
    assert (record.levelname, record.getMessage()) == ("WARNING", f"{message[:200]} …")


def test_what_is_quoted_in_a_line_can_neither_end_it_nor_move_a_cursor() -> None:
    quoted = "\x1b[2J\u202e\n2026-01-01 CRITICAL forged"
    record = logging.LogRecord("jobs", logging.INFO, __file__, 1, "job %s", (quoted,), None)
    (line,) = PlainFormatter(FORMAT).format(record).splitlines()
    assert line.endswith("INFO jobs: job \\x1b[2J\\u202e 2026-01-01 CRITICAL forged")


@pytest.mark.parametrize(
    ("logger", "error", "kept"),
    [
        ("kopf._core.reactor.running", aiohttp.ClientPayloadError("an answer that breaks off"), False),
        ("kopf._cogs.clients.watching", ConnectionResetError("a connection that breaks"), False),
        ("kopf._core.reactor.running", TypeError("a fault of the program"), True),
        ("kopf.objects", FileNotFoundError("a fault of the program too"), True),
        ("cotenant.controller", ConnectionResetError("an error that nobody expected"), True),
    ],
)
def test_an_outage_of_the_api_server_is_told_without_kopfs_lines_of_code(
    logger: str, error: Exception, kept: bool
) -> None:
    record = logging.LogRecord(logger, logging.ERROR, __file__, 1, "failed: %s", (error,), (type(error), error, None))
    assert drop_tracebacks_of_outages(record)
    lines = PlainFormatter(FORMAT).format(record).splitlines()
    assert lines[0].endswith(f"failed: {error}")
    assert (len(lines) > 1) is kept


def test_a_traceback_keeps_its_lines_and_is_plain() -> None:
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        record = logging.LogRecord("jobs", logging.ERROR, __file__, 1, "no", (), (ValueError, error, None))
    assert PlainFormatter("%(message)s").format(record) == "no\nValueError: \\x1b[2J"


def test_the_log_of_the_operator_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    configure("info")
    assert [type(handler.formatter) for handler in root.handlers] == [PlainFormatter]
