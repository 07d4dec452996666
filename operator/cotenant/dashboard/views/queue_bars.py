"""The tree of queues as bars: for every line of a quota what is guaranteed, used and borrowed, and the limit.

The data is the operator's own answer about the tree, or the LocalQueues of the namespaces that the caller may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cotenant.dashboard.views.wish import Paged, Wish, paged
from cotenant.sdk.objects.answer_texts import fair_share, percent

ROWS: Final = 100
WIDE: Final = 1000
"""Width of a bar in its drawing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaBar:
    """One line of a quota. Positions are in units of WIDE and comparable within a page."""

    label: str
    """The line's name: `H100, zone a`, or `all GPUs`."""
    own: float
    """What is used of the guarantee, as far as its GPUs exist."""
    borrowed: float
    guaranteed: float
    limit: float | None
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    name: str
    namespace: str
    """Namespace of a LocalQueue."""
    depth: int
    used: str
    borrowed: str
    guaranteed: str
    running: int
    waiting: int
    share: str
    arithmetic: tuple[str, ...]
    broken: str
    hold: str
    """Why an administrator holds it: none of its jobs starts."""
    bars: tuple[QuotaBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesView:
    rows: Paged[QueueRow]
    is_local: bool


def tree_view(answers: Iterable[Mapping[str, Any]], wish: Wish) -> QueuesView:
    """The page from `QueueTree` answers. Parents come first."""
    found = [one for one in answers if wish.text in one["metadata"]["name"].lower()]
    page = paged(found, wish.page, ROWS)
    scale = _scale(quota for one in page.items for quota in one["status"]["quotas"])
    rows = [_tree_row(one, scale) for one in page.items]
    return QueuesView(rows=page.showing(rows), is_local=False)


def local_view(queues: Iterable[Mapping[str, Any]], wish: Wish) -> QueuesView:
    """The page from LocalQueue documents."""
    ordered = sorted(queues, key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"]))
    page = paged([one for one in ordered if wish.text in one["metadata"]["name"].lower()], wish.page, ROWS)
    scale = _scale(quota for one in page.items for quota in _quotas(one))
    rows = [_local_row(one, scale) for one in page.items]
    return QueuesView(rows=page.showing(rows), is_local=True)


def _quotas(queue: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Quota lines of a LocalQueue, in the words of a QueueTree."""
    return [one | {"class": one.get("gpuClass")} for one in (queue.get("status") or {}).get("quotas") or ()]


def _scale(quotas: Iterable[Mapping[str, Any]]) -> float:
    amounts = [_number(one.get(name)) for one in quotas for name in ("guaranteed", "used", "limit")]
    return WIDE / max([1.0, *amounts])


def _tree_row(answer: Mapping[str, Any], scale: float) -> QueueRow:
    status = answer["status"]
    return QueueRow(
        name=answer["metadata"]["name"],
        namespace="",
        depth=min(int(status["depth"]), 12),
        used=status["used"],
        borrowed=status["borrowed"],
        guaranteed=status["guaranteed"],
        running=status["holding"],
        waiting=status["waiting"],
        share="" if status["broken"] else percent(status["share"]["ppm"]),
        arithmetic=tuple(fair_share(status["share"])),
        broken=status["broken"],
        hold=str(status.get("hold") or ""),
        bars=tuple(_bar(one, scale) for one in status["quotas"]),
    )


def _local_row(queue: Mapping[str, Any], scale: float) -> QueueRow:
    status = queue.get("status") or {}
    return QueueRow(
        name=queue["metadata"]["name"],
        namespace=queue["metadata"]["namespace"],
        depth=0,
        used=str(status.get("used", 0)),
        borrowed=str(status.get("borrowed", 0)),
        guaranteed=str(status.get("guaranteed", 0)),
        running=int(status.get("running") or 0),
        waiting=int(status.get("pending") or 0),
        share="",
        arithmetic=(
            f"{status.get('usedHere', 0)} of it by jobs of this namespace",
            f"{status.get('free', 0)} free now",
        ),
        broken="",
        hold="",
        bars=tuple(_bar(one, scale) for one in _quotas(queue)),
    )


def _bar(quota: Mapping[str, Any], scale: float) -> QuotaBar:
    used, guaranteed = _number(quota.get("used")), _number(quota.get("guaranteed"))
    limit = None if quota.get("limit") is None else _number(quota["limit"])
    where = ", ".join(filter(None, (quota.get("class"), f"zone {quota['zone']}" if quota.get("zone") else "")))
    there = _number(quota.get("effective", guaranteed))
    own = min(used, there)
    says = f"{quota.get('used')} used of {quota.get('guaranteed')} guaranteed"
    says += f" (of which {quota['effective']} are there)" if there != guaranteed else ""
    says += f", limit {quota['limit']}" if limit is not None else ", no limit but what others lend"
    return QuotaBar(
        label=where or "all GPUs",
        own=round(own * scale, 1),
        borrowed=round((used - own) * scale, 1),
        guaranteed=round(guaranteed * scale, 1),
        limit=None if limit is None else round(limit * scale, 1),
        says=says,
    )


def _number(amount: object) -> float:
    try:
        return float(str(amount))
    except ValueError:
        return 0.0
