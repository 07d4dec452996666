"""The page of one QuotaRequest with the form of a person who may approve it, and their answer.

The answer is written with the person's token, to exactly the object that the page showed. The API server refuses it if
the request has changed, if it was created again, or if the person may not approve requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cotenant.api.resources.quota_requests import Approval
from cotenant.controller.client.kube import QUOTA_REQUESTS, UnreachableError
from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.pages import RECORD_S, Drawn, Page, problems_of
from cotenant.dashboard.reading.caller_client import SELF_ACCESS_REVIEWS, DeniedError, Scope
from cotenant.dashboard.reading.request_rows import request_row
from cotenant.dashboard.views.requests import WAITING
from cotenant.dashboard.views.wish import Wish

DECISIONS: Final = ("Approved", "Denied")
MESSAGE_MAX: Final = 500


def request_page(namespace: str, name: str) -> Page:
    def draw(viewer: Viewer, _: Wish, __: float) -> Drawn:
        return _request(viewer, namespace, name)

    return Page(address(namespace, name), f"{namespace}/{name}", "request.html", draw, is_filtered=False)


def address(namespace: str, name: str) -> str:
    return f"/requests/{namespace}/{name}"


def _request(viewer: Viewer, namespace: str, name: str) -> Drawn:
    found = viewer.follow(Scope(QUOTA_REQUESTS, namespace, name), request_row)
    row = found.value.get(f"{namespace}/{name}")
    asked = {"group": QUOTA_REQUESTS.group, "resource": QUOTA_REQUESTS.plural, "verb": "approve"}
    wanted = {"resourceAttributes": asked | {"namespace": namespace, "name": name}}

    async def may_approve() -> bool:
        return bool((await viewer.client.review(SELF_ACCESS_REVIEWS, wanted)).get("allowed"))

    right = viewer.ask(("may approve", namespace, name), may_approve, False, RECORD_S)
    context: dict[str, Any] = {
        "request": row,
        "may_approve": right.value and row is not None and row.phase in WAITING,
        "may_revoke": right.value and row is not None and row.phase == "Granted",
        "address": address(namespace, name),
        "message_max": MESSAGE_MAX,
    }
    refused, why = viewer.refused_form
    notes = [f"Your answer was not taken: {why}"] if refused == address(namespace, name) else []
    return Drawn([found, right], lambda: context, [*notes, *problems_of(found)])


async def answer(viewer: Viewer, namespace: str, name: str, form: Mapping[str, Any]) -> None:
    """Write the answer of a form. If the API server refuses it, the page shows why until the next answer.

    Raises ValueError if the page has no such form.
    """
    decision, message, uid, version = (str(form.get(one, "")) for one in ("decision", "message", "uid", "version"))
    if decision not in DECISIONS or not uid or not version:
        raise ValueError("an answer has a decision, and the uid and version of the request that was shown")
    approval = Approval.model_validate({"decision": decision, "by": viewer.user, "message": message[:MESSAGE_MAX]})
    body = {
        "metadata": {"uid": uid, "resourceVersion": version},
        "status": {"approval": approval.to_document()},
    }
    try:
        await viewer.client.patch_status(QUOTA_REQUESTS, name, namespace, body)
    except (DeniedError, UnreachableError) as error:
        viewer.refused_form = (address(namespace, name), str(error))
    else:
        viewer.refused_form = ("", "")
