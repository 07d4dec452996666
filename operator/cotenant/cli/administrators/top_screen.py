"""The screen of `cotenant top`: what is shown, and what a key does to it. Documents and keys in, painted lines out.

Three views: queues as a tree with what each holds, borrows and waits for; GPUs as a wall, a brick each, a letter for
each job by the part that it holds; jobs that wait, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from cotenant.cli.administrators.gpu_shares import WHOLE, GpuView, counted_gpus
from cotenant.cli.administrators.gpus import brick, letters_of
from cotenant.cli.queries.ps import HEADER as JOB_HEADER
from cotenant.cli.queries.ps import cells as job_cells
from cotenant.cli.queries.queues import HEADER as QUEUE_HEADER
from cotenant.cli.queries.queues import cells as queue_cells
from cotenant.contract.decoding.plain_text import printable

Document: TypeAlias = Mapping[str, Any]
VIEWS: Final = ("Queues", "GPUs", "Waiting")
SORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Queues": ("tree", "used", "waiting", "share"),
    "GPUs": ("node", "idle", "held"),
    "Waiting": ("place", "age", "queue", "reason"),
}
KEYS: Final = "1 2 3 or Tab view   / search   s sort   ↑ ↓ PgUp PgDn move   q quit"
BAR: Final = 20
"""Characters of a queue's bar."""


class Style(Enum):
    PLAIN = 0
    BOLD = 1
    GOOD = 2
    WARNING = 3
    BAD = 4
    DIM = 5


Line: TypeAlias = tuple[tuple[str, Style], ...]
"""Texts, one after the other."""


@dataclass(frozen=True, slots=True)
class TopView:
    """Choices of the person."""

    view: str = VIEWS[0]
    sorts: Mapping[str, int] = field(default_factory=dict)
    search: str = ""
    typing: bool = False
    """The search is being typed."""
    first: int = 0
    """First line that is shown."""

    @property
    def sort(self) -> str:
        return SORTS[self.view][self.sorts.get(self.view, 0)]


@dataclass(frozen=True, slots=True)
class TopData:
    """Documents that were read last."""

    queues: Sequence[Document] = ()
    gpus: Sequence[GpuView] = ()
    jobs: Sequence[Document] = ()
    error: str = ""
    """Why it is older than it should be."""


def pressed(view: TopView, key: str, page: int = 10) -> TopView | None:
    """The view after this key; None: the person leaves. Keys are letters, or names such as `KEY_DOWN`."""
    if view.typing:
        return _typed(view, key)
    match key:
        case "q" | "\x03":
            return None
        case "1" | "2" | "3":
            return replace(view, view=VIEWS[int(key) - 1], first=0)
        case "\t":
            return replace(view, view=VIEWS[(VIEWS.index(view.view) + 1) % len(VIEWS)], first=0)
        case "s":
            following = (view.sorts.get(view.view, 0) + 1) % len(SORTS[view.view])
            return replace(view, sorts={**view.sorts, view.view: following}, first=0)
        case "/":
            return replace(view, typing=True, search="", first=0)
        case "\x1b":
            return replace(view, search="", first=0)
        case _:
            pages = {"KEY_NPAGE": page, "KEY_PPAGE": -page, "KEY_HOME": -(1 << 30)}
            steps = {"KEY_DOWN": 1, "j": 1, "KEY_UP": -1, "k": -1} | pages
            return replace(view, first=max(0, view.first + steps.get(key, 0)))


def _typed(view: TopView, key: str) -> TopView:
    if key in {"\n", "\r", "KEY_ENTER"}:
        return replace(view, typing=False)
    if key == "\x1b":
        return replace(view, typing=False, search="")
    if key in {"KEY_BACKSPACE", "\x7f", "\b"}:
        return replace(view, search=view.search[:-1])
    return replace(view, search=view.search + key) if len(key) == 1 and key.isprintable() else view


def screen(view: TopView, data: TopData, now: datetime, size: tuple[int, int]) -> list[Line]:
    """The whole screen: at most `size` (rows, columns), body scrolled to what was chosen."""
    rows, columns = size
    body = list(BODIES[view.view](view, data, now))
    head, table_head = [_title(data, now), _tabs(view), ()], body[:1]
    room = max(0, rows - len(head) - 1 - len(table_head))
    first = min(view.first, max(0, len(body) - 1 - room))
    found: list[Line] = [*head, *table_head, *body[1 + first : 1 + first + room]]
    found += [()] * (rows - 1 - len(found))
    return [_cut(line, columns) for line in [*found[: rows - 1], _foot(view)]]


def _title(data: TopData, now: datetime) -> Line:
    held, idle = sum(one.held_milli for one in data.gpus) / WHOLE, sum(one.is_idle for one in data.gpus)
    ill, waiting = sum(not one.healthy for one in data.gpus), sum(_waits(one) for one in data.jobs)
    text = f"  {now.astimezone().strftime('%H:%M:%S')}   {counted_gpus(len(data.gpus))}: {held:g} held, "
    line: Line = (("cotenant", Style.BOLD), (text, Style.PLAIN))
    line += ((f"{idle} idle", Style.WARNING if idle else Style.PLAIN), (", ", Style.PLAIN))
    line += ((f"{ill} ill", Style.BAD if ill else Style.PLAIN), (f"   {waiting} jobs wait", Style.PLAIN))
    return (*line, (f"   {data.error}", Style.BAD)) if data.error else line


def _tabs(view: TopView) -> Line:
    tabs: Line = ()
    for number, name in enumerate(VIEWS, start=1):
        chosen = name == view.view
        tabs += ((f"[{number} {name}]" if chosen else f" {number} {name} ", Style.BOLD if chosen else Style.DIM),)
    search = f"   /{view.search}{'_' if view.typing else ''}" if view.search or view.typing else ""
    return (*tabs, (f"   by {view.sort}{search}", Style.DIM))


def _foot(view: TopView) -> Line:
    return (("Enter: keep, Esc: all" if view.typing else KEYS, Style.DIM),)


def _queues(view: TopView, data: TopData, _: datetime) -> Iterator[Line]:
    orders: dict[str, Callable[[Document], Any]] = {
        "used": lambda one: -float(one["status"]["used"]),
        "waiting": lambda one: -int(one["status"]["waiting"]),
        "share": lambda one: -int(one["status"]["share"]["ppm"]),
    }
    found = [one for one in data.queues if view.search in one["metadata"]["name"]]
    if view.sort in orders:
        found = sorted(found, key=orders[view.sort])
    rows = [(queue_cells(one), bar(one["status"]), _style_of_queue(one["status"])) for one in found]
    widths = _widths([QUEUE_HEADER, *(cells for cells, _, _ in rows)])
    yield ((_row(QUEUE_HEADER, widths), Style.DIM),)
    for cells, drawn, style in rows:
        yield (_row(cells, widths) + "  ", style), *drawn


def bar(status: Document) -> Line:
    """What a queue uses: of its own, then borrowed, in the width of whichever is more, its guarantee or its use."""
    guaranteed, used = float(status["guaranteed"]), float(status["used"])
    most = max(guaranteed, used)
    if not most:
        return ()
    own, whole = round(min(used, guaranteed) * BAR / most), round(used * BAR / most)
    parts = (("█" * own, Style.GOOD), ("▒" * (whole - own), Style.WARNING), ("·" * (BAR - whole), Style.DIM))
    return tuple(part for part in parts if part[0])


def _style_of_queue(status: Document) -> Style:
    if status.get("broken"):
        return Style.BAD
    return Style.WARNING if status["waiting"] else Style.PLAIN


def _wall(view: TopView, data: TopData, _: datetime) -> Iterator[Line]:
    letters = letters_of(share for gpu in data.gpus for share in gpu.shares)
    nodes: dict[str, list[GpuView]] = {}
    for gpu in data.gpus:
        if view.search in " ".join((gpu.node, gpu.gpu_class, *(share.job for share in gpu.shares))):
            nodes.setdefault(gpu.node, []).append(gpu)
    orders: dict[str, Callable[[str], Any]] = {
        "node": lambda name: name,
        "idle": lambda name: (-sum(one.is_idle for one in nodes[name]), name),
        "held": lambda name: (-sum(one.held_milli for one in nodes[name]), name),
    }
    longest = max(len(name) for name in ("NODE", *nodes))
    yield (("NODE".ljust(longest) + "  GPUS", Style.DIM),)
    for name in sorted(nodes, key=orders[view.sort]):
        bricks = [(brick(gpu, letters, 8) + " ", _style_of_gpu(gpu)) for gpu in nodes[name]]
        yield ((f"{name.ljust(longest)}  ", Style.PLAIN), *bricks, (nodes[name][0].gpu_class, Style.DIM))
    yield ()
    shown = {share.job for found in nodes.values() for gpu in found for share in gpu.shares}
    for job, letter in letters.items():
        if job in shown:
            yield ((f"{letter}  ", Style.BOLD), (job, Style.PLAIN))


def _style_of_gpu(gpu: GpuView) -> Style:
    if not gpu.healthy or gpu.strangers:
        return Style.BAD
    if not gpu.shares:
        return Style.DIM
    return Style.WARNING if gpu.is_idle or gpu.node_state not in {"", "Ready"} else Style.GOOD


def _waiting(view: TopView, data: TopData, now: datetime) -> Iterator[Line]:
    orders: dict[str, Callable[[Document], Any]] = {
        "place": lambda one: one["status"].get("position", 1 << 30),
        "age": lambda one: one["status"]["submittedAt"],
        "queue": lambda one: (one["status"]["queue"], one["status"].get("position", 1 << 30)),
        "reason": lambda one: (one["status"].get("reason", ""), one["status"].get("position", 1 << 30)),
    }
    found = [one for one in data.jobs if _waits(one) and view.search in _text_of(one)]
    header = ("NAMESPACE", *JOB_HEADER)
    rows = [
        ((one["metadata"]["namespace"], *job_cells(one, now)), one["status"])
        for one in sorted(found, key=orders[view.sort])
    ]
    widths = _widths([header, *(cells for cells, _ in rows)])
    yield ((_row(header, widths), Style.DIM),)
    for cells, status in rows:
        yield ((_row(cells, widths), Style.BAD if status.get("needsChange") else Style.PLAIN),)
        helps = f"  would start now if {status['wouldStartIf']}" if status.get("wouldStartIf") else ""
        yield ((f"    {status.get('message', '')}{helps}", Style.DIM),)


def _waits(job: Document) -> bool:
    return bool(job["status"]["standing"] == "Waiting")


def _text_of(job: Document) -> str:
    status = job["status"]
    return " ".join((job["metadata"]["namespace"], job["metadata"]["name"], status["queue"], status.get("reason", "")))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def _cut(line: Line, columns: int) -> Line:
    """Plain, and no wider than the terminal."""
    found: list[tuple[str, Style]] = []
    for text, style in line:
        if columns > 0:
            found.append((printable(text)[:columns], style))
            columns -= len(found[-1][0])
    return tuple(found)


BODIES: Final[Mapping[str, Callable[[TopView, TopData, datetime], Iterator[Line]]]] = {
    "Queues": _queues,
    "GPUs": _wall,
    "Waiting": _waiting,
}
"""The first line of each is the head of its table and does not scroll."""
