"""The application of a session that a person wants to open: where it is, how it lets people in, whether this person may
open it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cotenant import names
from cotenant.api.resources.sessions.session import Application
from cotenant.api.resources.sessions.session_status import SessionPhase
from cotenant.controller.client.kube import PODS, SESSIONS, Document, UnreachableError
from cotenant.dashboard.reading.caller_client import SELF_ACCESS_REVIEWS, CallerClient, DeniedError, Scope

FORWARDS: Final = {"group": "", "resource": "pods", "subresource": "portforward", "verb": "create"}
"""The right that a person needs to open a session."""
FIRST_PAGE: Final = {Application.JUPYTER_LAB: "lab"}
REFUSED: Final = 403
NOT_NOW: Final = 409
TRIES: Final = 45
EVERY_S: Final = 1.0
"""How often the token is asked for. It exists as soon as the application listens, some seconds after its pod runs."""


class _WrittenInPod(BaseModel):
    """The content of the file in the pod. The tenant can write it, so it is used only as a token for that same pod."""

    model_config = ConfigDict(frozen=True)

    token: Annotated[str, Field(max_length=512, pattern=r"^[-_.~A-Za-z0-9]*$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTarget:
    """One run of a session's application."""

    namespace: str
    name: str
    uid: str
    attempt: int
    application: str
    pod: str
    port: int
    path: str
    token: str = field(repr=False, default="")

    @property
    def address(self) -> str:
        """Its origin as the application sees it: in its pod it listens on loopback."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def first_page(self) -> str:
        return self.path + FIRST_PAGE.get(Application(self.application), "")


async def find_target(client: CallerClient, namespace: str, name: str) -> SessionTarget:
    """The target of a session. Raises DeniedError with a sentence for the person, UnreachableError."""
    session = await client.get(SESSIONS, name, namespace)
    status = session.get("status") or {}
    if status.get("phase") != SessionPhase.RUNNING:
        raise DeniedError(NOT_NOW, f"it is {status.get('phase') or 'Pending'}: {status.get('message') or ''}")
    if not status.get("port"):
        raise DeniedError(NOT_NOW, f"a shell has no page: kubectl cotenant session open {namespace}/{name}")
    pod = await _pod_of(client, namespace, status)
    await require_right(client, namespace, pod)
    written = await _written(client, namespace, pod)
    try:
        token = _WrittenInPod.model_validate_json(written).token
    except ValidationError:
        raise DeniedError(NOT_NOW, f"{names.SESSION_FILE} in its pod is not what its application wrote") from None
    return SessionTarget(
        namespace=namespace,
        name=name,
        uid=session["metadata"]["uid"],
        attempt=status["attempt"],
        application=session["spec"]["application"],
        pod=pod,
        port=status["port"],
        path=status.get("path") or "/",
        token=token,
    )


async def _written(client: CallerClient, namespace: str, pod: str) -> str:
    """The file of the application. Waits for it if the application starts. Raises DeniedError, UnreachableError."""
    for _ in range(TRIES):
        try:
            return await client.output_of(namespace, pod, ("cat", names.SESSION_FILE))
        except UnreachableError as error:
            if "No such file" not in str(error):
                raise
        await asyncio.sleep(EVERY_S)
    raise DeniedError(NOT_NOW, "its application has not started yet: open it again in a minute")


async def require_right(client: CallerClient, namespace: str, pod: str) -> None:
    """Raises DeniedError if the caller may not forward ports of this pod."""
    asked = {"resourceAttributes": FORWARDS | {"namespace": namespace, "name": pod}}
    if (await client.review(SELF_ACCESS_REVIEWS, asked)).get("allowed") is not True:
        raise DeniedError(REFUSED, f"you may not forward ports of pods in {namespace} (create pods/portforward)")


async def require_same(client: CallerClient, target: SessionTarget) -> None:
    """Raises DeniedError if this run of the session has ended, or if the caller may no longer reach it."""
    await require_right(client, target.namespace, target.pod)
    session = await client.get(SESSIONS, target.name, target.namespace)
    status = session.get("status") or {}
    now = (session["metadata"]["uid"], status.get("phase"), status.get("attempt"))
    if now != (target.uid, SessionPhase.RUNNING, target.attempt):
        raise DeniedError(NOT_NOW, "it was stopped, or has started again")


async def _pod_of(client: CallerClient, namespace: str, status: Document) -> str:
    """The pod in which the application runs. Raises DeniedError."""
    labels = f"{names.LABEL_JOB}={status['job']},{names.LABEL_ATTEMPT}={status['attempt']}"
    for pod in await client.objects(Scope(PODS, namespace, labels=labels)):
        leaves = pod["metadata"].get("deletionTimestamp")
        if (pod.get("status") or {}).get("phase") == "Running" and not leaves:
            return str(pod["metadata"]["name"])
    raise DeniedError(NOT_NOW, "its pod does not run now: open it again when it has started")
