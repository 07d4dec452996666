"""Questions about a job that is on another cluster: its pods there, and what they print."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web

from cotenant.api.resources.placement_status import ClusterRun
from cotenant.controller.client.kube import UnreachableError
from cotenant.controller.composites.remote_clusters.remote_pods import PodsThere, RemotePods
from cotenant.controller.composites.remote_clusters.trouble import TroubleError
from cotenant.controller.query_api.documents import API_VERSION, Document, listed
from cotenant.controller.query_api.front_proxy import Caller
from cotenant.controller.query_api.proposals import annotated_user
from cotenant.controller.query_api.questions import ElsewhereError, NotFoundError, TooManyQuestionsError
from cotenant.controller.query_api.server import Route

log = logging.getLogger(__name__)

AGAIN: Final = "ask again in some seconds; it says nothing about the other cluster or the job there"
STREAMS_MAX: Final = 128
STREAMS_OF_ONE_MAX: Final = 64
"""At most this many logs are read at once, together and for each user."""
_PARAMETERS: Final[Mapping[str, re.Pattern[str]]] = {
    "follow": re.compile(r"true|false"),
    "timestamps": re.compile(r"true|false"),
    "tailLines": re.compile(r"\d{1,9}"),
    "sinceTime": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
}
"""Those of the kubelet that are passed on, and how they look."""
_BELOW: Final = "/namespaces/{namespace}/remotejobs/{name}"


@dataclass(slots=True, kw_only=True)
class RemoteQuestions:
    pods: RemotePods
    _open: Counter[str] = field(default_factory=Counter)
    """User → logs that are read now."""

    def routes(self) -> tuple[Route, ...]:
        return (
            Route("GET", f"{_BELOW}/pods", "get", "remotejobs/pods", self.listed),
            Route("GET", f"{_BELOW}/pods/{{pod}}", "get", "remotejobs/pods", self.pod),
            Route("GET", f"{_BELOW}/log/{{pod}}", "get", "remotejobs/log", self.log),
        )

    async def listed(self, request: web.Request, _: Caller) -> Document:
        """Pods of one attempt there: `?attempt=`, by default the last."""
        cluster = self._cluster(request)
        asked = request.query.get("attempt", "")
        attempt = int(asked) if asked.isdecimal() and len(asked) < 10 else cluster.attempts
        async with self._there(cluster) as there:
            items = await there.listed(attempt)
        return listed("RemotePod", items)

    async def pod(self, request: web.Request, _: Caller) -> Document:
        """One of them."""
        name = request.match_info["pod"]
        async with self._there(self._cluster(request)) as there:
            found = await there.pod(name)
        if found is None:
            raise NotFoundError(f"{request.match_info['name']} has no pod {name} there")
        return {"apiVersion": API_VERSION, "kind": "RemotePod"} | found

    async def log(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """What a pod there prints, as the kubelet sends it."""
        name, cluster, by = request.match_info["pod"], self._cluster(request), annotated_user(caller.user)
        if self._open.total() >= STREAMS_MAX or self._open[by] >= STREAMS_OF_ONE_MAX:
            raise TooManyQuestionsError("too many logs are read at a time; choose one with --rank")
        self._open[by] += 1
        try:
            async with self._there(cluster) as there:
                if await there.pod(name) is None:
                    raise NotFoundError(f"{request.match_info['name']} has no pod {name} there")
                async with there.log(name, log_query(request.query)) as chunks:
                    return await _sent(request, chunks)
        finally:
            self._open[by] -= 1
            self._open += Counter()  # without those who read nothing any more

    @contextlib.asynccontextmanager
    async def _there(self, cluster: ClusterRun) -> AsyncIterator[PodsThere]:
        """Raises ElsewhereError if the cluster, or the API server here, does not answer or refuses."""
        try:
            async with self.pods.of(cluster) as there:
                yield there
        except TroubleError as error:
            asked = f"kubectl cotenant logs {cluster.namespace}/{cluster.job}"
            raise ElsewhereError(f"cluster {cluster.name}: {error}. There: {asked}") from error
        except UnreachableError as error:
            log.warning("the kubeconfig of RemoteCluster %s was not read: %s", cluster.name, error)
            raise ElsewhereError(f"the API server here does not answer the operator now: {AGAIN}") from error

    def _cluster(self, request: web.Request) -> ClusterRun:
        """The cluster that has the job. Raises NotFoundError."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        record = self.pods.cache.jobs.get(f"{namespace}/{name}")
        if record is None:
            raise NotFoundError.of_job(namespace, name)
        cluster = record.status.cluster
        if cluster is None or not cluster.uid:
            raise NotFoundError(f"{namespace}/{name} is on no other cluster")
        return cluster


async def _sent(request: web.Request, chunks: AsyncIterator[bytes]) -> web.StreamResponse:
    """The answer, once all of it is sent. An answer that has begun is cut off where the source breaks."""
    answer = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    await answer.prepare(request)
    try:
        async for chunk in chunks:
            await answer.write(chunk)
        await answer.write_eof()
    except (OSError, aiohttp.ClientError):
        if request.transport is not None:
            request.transport.abort()
    return answer


def log_query(asked: Mapping[str, str]) -> dict[str, str]:
    """The parameters that are passed on to the other cluster."""
    return {name: asked[name] for name, form in _PARAMETERS.items() if form.fullmatch(asked.get(name, ""))}
