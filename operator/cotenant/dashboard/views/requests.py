"""QuotaRequests by their answer. Those without an answer come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant.dashboard.reading.request_rows import RequestRow
from cotenant.dashboard.views.wish import Paged, Wish, paged

ROWS: Final = 50
WAITING: Final = frozenset({"Pending", "Invalid", "Unreadable"})
STANDINGS: Final = {
    "waiting": WAITING,
    "granted": frozenset({"Granted"}),
    "over": frozenset({"Denied", "Revoked", "Expired"}),
}
"""Word on the page → phases. The page shows the first unless another is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsView:
    show: str
    counts: dict[str, int]
    """Requests of each standing."""
    requests: Paged[RequestRow]


def requests_view(requests: Iterable[RequestRow], wish: Wish) -> RequestsView:
    """The page. The oldest unanswered request comes first; answered ones start with the newest."""
    show = wish.show if wish.show in STANDINGS else "waiting"
    matching = [one for one in requests if _matches(one, wish)]
    phases = Counter(one.phase for one in matching)
    shown = [one for one in matching if one.phase in STANDINGS[show]]
    shown.sort(key=lambda one: (one.created if show == "waiting" else -one.created, one.key))
    return RequestsView(
        show=show,
        counts={word: sum(phases[phase] for phase in among) for word, among in STANDINGS.items()},
        requests=paged(shown, wish.page, ROWS),
    )


def _matches(request: RequestRow, wish: Wish) -> bool:
    if wish.queue not in ("", request.queue):
        return False
    return not wish.text or any(wish.text in one.lower() for one in (request.key, request.asked, request.reason))
