"""What each view of `cotenant top` lists: queues as a tree, GPUs as a wall, waiting jobs; each row with its details."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from cotenant.cli.administrators.gpu_shares import GpuView
from cotenant.cli.administrators.gpus import HEADER as GPU_HEADER
from cotenant.cli.administrators.gpus import brick, letters_of
from cotenant.cli.administrators.gpus import cells as gpu_cells
from cotenant.cli.administrators.top.view import Line, Style, TopRow, TopView
from cotenant.cli.queries import why
from cotenant.cli.queries.ps import HEADER as JOB_HEADER
from cotenant.cli.queries.ps import cells as job_cells
from cotenant.cli.queries.queues import HEADER as QUEUE_HEADER
from cotenant.cli.queries.queues import arithmetic
from cotenant.cli.queries.queues import cells as queue_cells
from cotenant.cli.terminal.output import table

Document: TypeAlias = Mapping[str, Any]
BAR: Final = 20
"""Width of a queue's bar, in characters."""
BRICK: Final = 8
LAST: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class TopData:
    """The documents that were read last."""

    queues: Sequence[Document] = ()
    gpus: Sequence[GpuView] = ()
    jobs: Sequence[Document] = ()
    error: str = ""
    """Why the data is older than it should be."""


@dataclass(frozen=True, slots=True)
class TopListing:
    head: Line
    """The head of the table. It does not scroll."""
    rows: Sequence[TopRow]


def listing(view: TopView, data: TopData, now: datetime) -> TopListing:
    return _LISTINGS[view.view](view, data, now)


def waits(job: Document) -> bool:
    return bool(job["status"]["standing"] == "Waiting")


def _queues(view: TopView, data: TopData, _: datetime) -> TopListing:
    orders: dict[str, Callable[[Document], Any]] = {
        "used": lambda one: -float(one["status"]["used"]),
        "waiting": lambda one: -int(one["status"]["waiting"]),
        "share": lambda one: -int(one["status"]["share"]["ppm"]),
    }
    found = [one for one in data.queues if view.has(one["metadata"]["name"])]
    if view.sort in orders:  # a tree that is turned round is none
        found = _ordered(found, orders[view.sort], view)
    cells = [queue_cells(one) for one in found]
    widths = _widths([QUEUE_HEADER, *cells])
    rows = [
        TopRow(
            key=(name := one["metadata"]["name"]),
            text=name,
            lines=(((_row(shown, widths) + "  ", _style_of_queue(one["status"])), *bar(one["status"])),),
            details=partial(_queue_details, one, data.jobs),
        )
        for one, shown in zip(found, cells, strict=True)
    ]
    return TopListing(((_row(QUEUE_HEADER, widths), Style.DIM),), rows)


def _queue_details(queue: Document, jobs: Iterable[Document]) -> Iterator[str]:
    yield table(QUEUE_HEADER, [queue_cells(queue)])
    yield from arithmetic(queue)
    name = queue["metadata"]["name"]
    of_it = [one for one in jobs if one["status"]["queue"] == name]
    rows = [(_name(one), one["status"]["standing"], one["status"].get("asks", "")) for one in of_it]
    yield ""
    yield table(("JOB", "STANDING", "ASKS"), rows) if rows else "No job of it waits or holds GPUs."


def bar(status: Document) -> Line:
    """The bar of a queue: the used part of its guarantee, then what it borrows. The larger of guarantee and use is the
    full width.
    """
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


def _wall(view: TopView, data: TopData, _: datetime) -> TopListing:
    letters = letters_of(share for gpu in data.gpus for share in gpu.shares)
    nodes: dict[str, list[GpuView]] = {}
    for gpu in data.gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    texts = {name: _text_of_node(name, gpus) for name, gpus in nodes.items()}
    orders: dict[str, Callable[[str], Any]] = {
        "node": lambda name: name,
        "idle": lambda name: (-sum(one.is_idle for one in nodes[name]), name),
        "held": lambda name: (-sum(one.held_milli for one in nodes[name]), name),
    }
    names = _ordered([name for name in nodes if view.has(texts[name])], orders[view.sort], view)
    longest = max(len(name) for name in ("NODE", *names))
    rows = [
        TopRow(
            name,
            texts[name],
            (_bricks(name.ljust(longest), nodes[name], letters),),
            partial(_node_details, nodes[name]),
        )
        for name in names
    ]
    shown = {share.job for name in names for gpu in nodes[name] for share in gpu.shares}
    legend = [job for job in letters if job in shown]
    for number, job in enumerate(legend):
        line: Line = ((f"{letters[job]}  ", Style.BOLD), (job, Style.PLAIN))
        lines = (line,) if number else ((), line)
        rows.append(TopRow(job, job, lines, partial(_job_details, job, data)))
    return TopListing((("NODE".ljust(longest) + "  GPUS", Style.DIM),), rows)


def _text_of_node(name: str, gpus: Iterable[GpuView]) -> str:
    return " ".join((name, *(word for gpu in gpus for word in (gpu.gpu_class, *(share.job for share in gpu.shares)))))


def _bricks(name: str, gpus: Sequence[GpuView], letters: Mapping[str, str]) -> Line:
    bricks = [(brick(gpu, letters, BRICK) + " ", _style_of_gpu(gpu)) for gpu in gpus]
    return ((f"{name}  ", Style.PLAIN), *bricks, (gpus[0].gpu_class, Style.DIM))


def _node_details(gpus: Sequence[GpuView]) -> Iterator[str]:
    yield table(GPU_HEADER, [gpu_cells(one) for one in gpus])


def _style_of_gpu(gpu: GpuView) -> Style:
    if not gpu.healthy or gpu.strangers:
        return Style.BAD
    if not gpu.shares:
        return Style.DIM
    return Style.WARNING if gpu.is_idle or gpu.node_state not in {"", "Ready"} else Style.GOOD


def _waiting(view: TopView, data: TopData, now: datetime) -> TopListing:
    orders: dict[str, Callable[[Document], Any]] = {
        "place": lambda one: one["status"].get("position", LAST),
        "age": lambda one: one["status"]["submittedAt"],
        "queue": lambda one: (one["status"]["queue"], one["status"].get("position", LAST)),
        "reason": lambda one: (one["status"].get("reason", ""), one["status"].get("position", LAST)),
    }
    found = _ordered([one for one in data.jobs if waits(one) and view.has(_text_of(one))], orders[view.sort], view)
    header = ("NAMESPACE", *JOB_HEADER)
    cells = [(one["metadata"]["namespace"], *job_cells(one, now)) for one in found]
    widths = _widths([header, *cells])
    rows = [
        TopRow(
            _name(one), _text_of(one), _waiting_lines(_row(shown, widths), one["status"]), partial(why.sentences, one)
        )
        for one, shown in zip(found, cells, strict=True)
    ]
    return TopListing(((_row(header, widths), Style.DIM),), rows)


def _waiting_lines(first: str, status: Document) -> tuple[Line, Line]:
    helps = f"  would start now if {status['wouldStartIf']}" if status.get("wouldStartIf") else ""
    return (
        ((first, Style.BAD if status.get("needsChange") else Style.PLAIN),),
        ((f"    {status.get('message', '')}{helps}", Style.DIM),),
    )


def _job_details(name: str, data: TopData) -> Iterator[str]:
    for one in data.jobs:
        if _name(one) == name:
            yield from why.sentences(one)
    held = [gpu for gpu in data.gpus if any(share.job == name for share in gpu.shares)]
    yield table(GPU_HEADER, [gpu_cells(one) for one in held])


def _name(job: Document) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _text_of(job: Document) -> str:
    return " ".join((_name(job), job["status"]["queue"], job["status"].get("reason", "")))


def _ordered(found: Iterable[Any], order: Callable[[Any], Any], view: TopView) -> list[Any]:
    return sorted(found, key=order, reverse=view.is_reversed)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


_LISTINGS: Final[Mapping[str, Callable[[TopView, TopData, datetime], TopListing]]] = {
    "Queues": _queues,
    "GPUs": _wall,
    "Waiting": _waiting,
}
