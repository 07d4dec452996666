"""A cluster as `cotenant top` reads it, and its screen after keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from cotenant.cli.administrators.gpu_shares import gpu_views
from cotenant.cli.administrators.top.keys import pressed
from cotenant.cli.administrators.top.rows import TopData, listing
from cotenant.cli.administrators.top.screen import room, screen
from cotenant.cli.administrators.top.view import Line, Style, TopView

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SHARE = {"ppm": 0, "terms": [], "pastPpm": 0, "weight": 1}


def queue(name: str, used: str, borrowed: str, waiting: int, *, depth: int = 1) -> dict[str, Any]:
    status = {
        "depth": depth, "guaranteed": "4", "used": used, "borrowed": borrowed, "holding": 1, "waiting": waiting,
        "broken": "", "quotas": [], "share": SHARE,
    }  # fmt: skip
    return {"metadata": {"name": name}, "status": status}


def job(name: str, position: int, since: str, **status: Any) -> dict[str, Any]:
    about = {"standing": "Waiting", "queue": "red", "asks": "2 GPUs", "position": position, "submittedAt": since}
    return {"metadata": {"namespace": "red", "name": name}, "status": about | {"reason": "QueueLimit"} | status}


def node(name: str, *uses: int | None, holders: list[tuple[str, int, int]]) -> dict[str, Any]:
    gpus: list[dict[str, Any]] = [
        {"uuid": f"GPU-{name}-{number}", "index": number, "class": "H100", "memoryMiB": 81_920}
        | ({} if use is None else {"used": {"utilizationPercent": use}})
        for number, use in enumerate(uses)
    ]
    gpus[-1] |= {"healthy": False, "health": "XID79"}
    held = [
        {"namespace": "red", "job": job, "gpus": [{"uuid": f"GPU-{name}-{gpu}", "computeMilli": milli}]}
        for job, gpu, milli in holders
    ]
    return {"metadata": {"name": name}, "status": {"node": "Ready", "gpus": gpus, "holders": held}}


DATA = TopData(
    queues=[queue("lab", "7", "0", 2, depth=0), queue("team-a", "6", "2", 0), queue("team-b", "1", "0", 2)],
    gpus=list(
        gpu_views([
            node("n1", 90, 0, None, holders=[("train", 0, 1000), ("notebook", 1, 250)]),
            node("n2", 0, None, holders=[("sweep", 0, 500)]),
        ])
    ),
    jobs=[
        job("big", 2, "2026-01-01T11:00:00Z", message="Queue team-a may hold 8.", wouldStartIf="workers is 2"),
        job("next", 1, "2026-01-01T11:50:00Z", message="It is the next."),
        {"metadata": {"namespace": "red", "name": "runs"}, "status": {"standing": "Admitted", "queue": "lab"}},
    ],
)  # fmt: skip


def drawn(view: TopView, rows: int = 16, columns: int = 200, data: TopData | None = None) -> list[Line]:
    seen = data or DATA
    return screen(view, seen, listing(view, seen, NOW), NOW, (rows, columns))


def shown(view: TopView, rows: int = 16, columns: int = 200) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in drawn(view, rows, columns)]


def after(keys: Iterable[str], view: TopView | None = None, rows: int = 16) -> TopView:
    """The view after these keys on a terminal with this many rows. None of the keys quits."""
    found = view or TopView()
    for key in keys:
        following = pressed(found, key, listing(found, DATA, NOW).rows, room(rows))
        assert following is not None, key
        found = following
    return found


def at_cursor(view: TopView, rows: int = 16) -> str:
    """The row at the cursor, by its first line on the screen."""
    return next("".join(text for text, _ in line) for line in drawn(view, rows) if line and line[0][1] is Style.CHOSEN)
