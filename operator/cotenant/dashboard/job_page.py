"""The page of one job, or of its last recorded run if the job is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from cotenant import names
from cotenant.controller.client.kube import EVENTS, PODS, TRAINING_JOBS, Document, Resource
from cotenant.core.model.lifecycle import Phase
from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.pages import ANSWER_S, RECORD_S, RUNS, Drawn, Page, problems_of
from cotenant.dashboard.reading.caller_client import DeniedError, Scope
from cotenant.dashboard.reading.sources import Source
from cotenant.dashboard.views.job import event_lines, job_view
from cotenant.dashboard.views.run import recorded_figures, run_view
from cotenant.dashboard.views.wish import Wish
from cotenant.sdk.job_paths import ranks_of

EXPLANATIONS: Final = Resource(names.QUERY_GROUP, names.QUERY_VERSION, "explanations")
LOG_S: Final = 2.0
"""Seconds between two reads of a log."""
LOG_LINES: Final = 200


def job_page(namespace: str, name: str) -> Page:
    def draw(viewer: Viewer, wish: Wish, _: float) -> Drawn:
        return _job(viewer, wish, (namespace, name))

    return Page(f"/jobs/{namespace}/{name}", f"{namespace}/{name}", "job.html", draw, is_filtered=False)


def _job(viewer: Viewer, wish: Wish, job: tuple[str, str]) -> Drawn:
    namespace, name = job

    def read(document: Document) -> Document:
        viewer.traces.note(document)
        return document

    found = viewer.follow(Scope(TRAINING_JOBS, namespace, name), read)
    document = found.value.get(f"{namespace}/{name}")
    if document is None:
        return _run(viewer, found, job)
    uid = str(document["metadata"].get("uid", ""))
    view = job_view(document, viewer.traces.points(uid))
    events = viewer.follow(Scope(EVENTS, namespace, fields=f"involvedObject.uid={uid}"), lambda one: one)
    sources: list[Source[Any]] = [found, events]
    context: dict[str, Any] = {"view": view, "events": event_lines(events.value.values()), "log": None, "why": None}
    record = _record(viewer, job)
    sources.append(record)
    context["recorded"] = recorded_figures(record.value)
    if view.row.phase == Phase.PENDING:
        none: Document = {}
        why = viewer.ask(("why", job), lambda: viewer.client.get(EXPLANATIONS, name, namespace), none, ANSWER_S)
        sources.append(why)
        context |= {"why": why.value.get("status"), "why_problem": why.problem}
    elif view.row.shares:
        log = viewer.ask(("log", job, wish.rank), _last_lines(viewer, namespace, uid, wish.rank), "", LOG_S)
        sources.append(log)
        context |= {"log": log.value, "log_problem": log.problem}
    return Drawn(sources, lambda: context, problems_of(found, events))


def _run(viewer: Viewer, found: Source[Any], job: tuple[str, str]) -> Drawn:
    """The record of the last run of a job that is gone, if the operator has one."""
    namespace, name = job
    record = _record(viewer, job)
    run = run_view(record.value) if record.value.get("status") else None
    return Drawn(
        [found, record],
        lambda: {"view": None, "run": run, "name": f"{namespace}/{name}", "namespace_of_run": namespace},
        problems_of(found),
    )


def _record(viewer: Viewer, job: tuple[str, str]) -> Source[Document]:
    """The operator's record of the newest run with this name, finished or not."""
    namespace, name = job
    none: Document = {}
    return viewer.ask(("run", job), lambda: viewer.client.get(RUNS, name, namespace), none, RECORD_S)


def _last_lines(viewer: Viewer, namespace: str, uid: str, rank: int) -> Callable[[], Awaitable[str]]:
    """The last lines that the pod of a rank has printed."""

    async def read() -> str:
        scope = Scope(PODS, namespace, labels=f"{names.LABEL_JOB_UID}={uid}")
        pod = _pod_of_rank(await viewer.client.objects(scope), rank)
        if pod is None:
            raise DeniedError(404, f"there is no pod of rank {rank} now")
        return await viewer.client.logs(namespace, pod, LOG_LINES)

    return read


def _pod_of_rank(pods: Iterable[Document], rank: int) -> str | None:
    """The pod of a rank in the newest attempt. The operator's annotations of pods are used for display alone."""
    found: list[tuple[int, str]] = []
    for pod in pods:
        attempt = str((pod["metadata"].get("labels") or {}).get(names.LABEL_ATTEMPT) or 0)
        if attempt.isdecimal() and rank in ranks_of(pod):
            found.append((int(attempt), str(pod["metadata"]["name"])))
    return max(found)[1] if found else None
