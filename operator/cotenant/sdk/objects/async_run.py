"""A submitted job as a handle: its status, its place in the line, its logs, its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from cotenant import names
from cotenant.sdk.errors import MissingObjectError, failure
from cotenant.sdk.job_paths import PodPaths, question_path, ranks_of
from cotenant.sdk.objects.async_object import AsyncObject

Document = dict[str, Any]
ASKED_MAX: Final = 20
"""How often the operator is asked about a job that it has not seen yet."""
ASKED_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class AsyncRun(AsyncObject):
    """One TrainingJob."""

    PLURAL: ClassVar[str] = "trainingjobs"
    KIND: ClassVar[str] = "TrainingJob"

    async def why(self) -> Document:
        """The operator's explanation: reason, position, who is ahead, when it starts, what would change it."""
        path = question_path(self.namespace, "explanations", self.name)
        for _ in range(ASKED_MAX):
            try:
                return dict((await self.server.request("GET", path)).get("status") or {})
            except MissingObjectError:
                await self.document()  # raises for a job that is not there; the operator sees a new one in a moment
            await asyncio.sleep(ASKED_S)
        raise MissingObjectError(f"the operator has not seen {self.namespace}/{self.name} yet: ask again")

    async def events(self) -> AsyncIterator[Document]:
        """The status at each change of phase, reason, message or progress, until the job has ended or is gone.

        The first one comes when the operator has seen the job, so every one has a phase.
        """
        last: tuple[object, ...] | None = None
        async for document in self.versions():
            status = document.get("status") or {}
            if "phase" not in status:
                continue
            progress = (status.get("progress") or {}).get("summary")
            now = (status.get("phase"), status.get("reason"), status.get("message"), progress)
            if now != last:
                last = now
                yield status
            if status.get("phase") in self.AWAITED:
                return

    async def result(self, timeout_s: float | None = None) -> Document:
        """The job's results. Raises JobFailedError with the rank and its last lines, or as `wait` does."""
        status = await self.wait(timeout_s)
        if status.get("phase") != "Succeeded":
            raise failure(f"{self.namespace}/{self.name}", status)
        return dict(status.get("results") or {})

    async def logs(
        self, *, rank: int | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncIterator[str]:
        """Lines of the newest attempt's pods, one pod after the other. `follow` needs a `rank` if there are several
        pods.

        If the pods are gone: the last lines in the status.
        """
        document = await self.document()
        status = document.get("status") or {}
        query = {"container": names.CONTAINER, **({"tailLines": str(tail)} if tail is not None else {})}
        places = PodPaths.of(document)
        pods = await self._pods(places, PodPaths.attempts_of(document), rank)
        if not pods:
            for line in (status.get("lastExit") or {}).get("tail") or ():
                yield line
            return
        if follow and len(pods) > 1:
            raise ValueError(f"{len(pods)} pods: name one of their ranks, such as logs(rank=0, follow=True)")
        for pod in pods:
            async for line in self.server.lines(places.log(pod), query | ({"follow": "true"} if follow else {})):
                yield line.decode(errors="replace")

    async def _pods(self, places: PodPaths, attempt: int, rank: int | None) -> list[str]:
        path, query = places.pods(attempt)
        found = (await self.server.request("GET", path, query=query)).get("items") or []
        ranked = sorted((ranks_of(pod), pod["metadata"]["name"]) for pod in found)
        return [name for ranks, name in ranked if rank is None or rank in ranks]
