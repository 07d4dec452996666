"""The page of one Session. A person who may forward ports of its pod can open the session there."""

from __future__ import annotations

from cotenant.controller.client.kube import SESSIONS
from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.pages import Drawn, Page, problems_of
from cotenant.dashboard.reading.caller_client import Scope
from cotenant.dashboard.reading.session_rows import session_row
from cotenant.dashboard.views.wish import Wish


def session_page(namespace: str, name: str, *, is_served: bool) -> Page:
    """The page of one session. `is_served`: sessions can be opened here."""

    def draw(viewer: Viewer, _: Wish, __: float) -> Drawn:
        found = viewer.follow(Scope(SESSIONS, namespace, name), session_row)
        row = found.value.get(f"{namespace}/{name}")
        refused, why = viewer.refused_form
        notes = [f"It was not opened: {why}"] if refused == address(namespace, name) else []
        can_open = is_served and row is not None and row.runs and row.serves
        context = {"session": row, "can_open": can_open, "is_served": is_served, "address": address(namespace, name)}
        return Drawn([found], lambda: context, [*notes, *problems_of(found)])

    return Page(address(namespace, name), f"{namespace}/{name}", "session.html", draw, is_filtered=False)


def address(namespace: str, name: str) -> str:
    return f"/sessions/{namespace}/{name}"
