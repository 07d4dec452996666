"""QuotaRequests by their answer. Those without an answer come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant.dashboard.reading.request_rows import RequestRow
from cotenant.dashboard.views.wish import Paged, Wish, in_standing, paged

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
    matching = (one for one in requests if wish.takes(one.queue, one.key, one.asked, one.reason))
    show, counts, shown = in_standing(matching, STANDINGS, wish)
    shown.sort(key=lambda one: (one.created if show == "waiting" else -one.created, one.key))
    return RequestsView(show=show, counts=counts, requests=paged(shown, wish.page, ROWS))
