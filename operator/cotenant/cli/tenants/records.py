"""Recorded runs, read through the API server, with amounts and times as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName
from cotenant.sdk.job_paths import below

Run = Mapping[str, Any]
LISTED_MAX: Final = 5_000
HOUR: Final = 3_600


def run_of(connection: Connection, name: ObjectName) -> dict[str, Any]:
    """The newest run of the job with this name, finished or not. Raises UserError."""
    return connection.get(below("", name.namespace, "runs", name.name))


def runs_of(connection: Connection, *, everywhere: bool, most: int) -> dict[str, Any]:
    """Runs of the namespace, or of all namespaces. The newest come first."""
    path = below("", "" if everywhere else connection.namespace, "runs")
    return connection.get(f"{path}?limit={most}")


def gpu_hours(amount: int, hour: int = HOUR) -> str:
    """GPU-hours to a hundredth, or to a thousandth below a tenth; rounded half up. `hour`: one of them in `amount`."""
    if 0 < amount * 10 < hour:
        return f"0.{(amount * 1000 + hour // 2) // hour:03d}"
    hundredths = (amount * 100 + hour // 2) // hour
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def length(seconds: int) -> str:
    """A duration: `2h13m`, `4m10s`, `9s`."""
    hours, minutes, rest = seconds // HOUR, seconds // 60 % 60, seconds % 60
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def local_time(text: str, now: datetime | None = None) -> str:
    """The time in the reader's own zone, with the date if it is not today."""
    if not text:
        return ""
    at, here = datetime.fromisoformat(text).astimezone(), (now or clock.now()).astimezone()
    return at.strftime("%H:%M:%S" if at.date() == here.date() else "%Y-%m-%d %H:%M")


def percent(value: int | None) -> str:
    return "-" if value is None else f"{value} %"
