"""The pages of lists: what each reads, and which view goes into which template.

A page is drawn from the sources as they are. The caller waits for the sources first, or draws again when they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from cotenant import names
from cotenant.controller.client.kube import (
    GPU_NODES,
    LOCAL_QUEUES,
    QUEUES,
    QUOTA_REQUESTS,
    SESSIONS,
    TRAINING_JOBS,
    Document,
    Resource,
)
from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.reading.caller_client import Scope
from cotenant.dashboard.reading.request_rows import request_row
from cotenant.dashboard.reading.rows import JobRow, gpu_node_row, job_row
from cotenant.dashboard.reading.run_rows import RunRow, as_job, run_row
from cotenant.dashboard.reading.session_rows import session_row
from cotenant.dashboard.reading.sources import Source
from cotenant.dashboard.views.history import cost_of, history_view
from cotenant.dashboard.views.line import line_view
from cotenant.dashboard.views.money import budget_rows, money_view
from cotenant.dashboard.views.overview import overview_view
from cotenant.dashboard.views.queue_bars import local_view, tree_view
from cotenant.dashboard.views.reliability import reliability_view, showback_view
from cotenant.dashboard.views.requests import requests_view
from cotenant.dashboard.views.sessions import sessions_view
from cotenant.dashboard.views.timeline import timeline_view
from cotenant.dashboard.views.wall import wall_view
from cotenant.dashboard.views.wish import Wish

QUEUE_TREES: Final = Resource(names.QUERY_GROUP, names.QUERY_VERSION, "queuetrees", namespaced=False)
SHOWBACKS: Final = Resource(names.QUERY_GROUP, names.QUERY_VERSION, "showbacks")
LEDGER_S: Final = 30.0
"""Seconds between two requests for the ledger."""
RUNS: Final = Resource(names.QUERY_GROUP, names.QUERY_VERSION, "runs")
ANSWER_S: Final = 3.0
"""Seconds between two requests of one page to the operator."""
RECORD_S: Final = 30.0
"""The same for the record of a job that is gone. It changes only if its name is used again."""
RUNS_MAX: Final = 2_000
"""At most this many runs are listed, the newest."""
EVERYWHERE: Final = "*"
FORBIDDEN: Final = 403
OWN_GPUS: Final = (
    "You see the GPUs of jobs that you may read. People with the ClusterRole cotenant-queue-viewer see all GPUs."
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The values for a template, and the sources that they came from."""

    sources: list[Source[Any]]
    context: Callable[[], Mapping[str, Any]]
    """Makes the values. It is a function because it takes time on a large cluster, and a caller may need the sources
    alone.
    """
    notes: list[str] = field(default_factory=list)
    """What the person may not see, and what may be out of date."""


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    title: str
    template: str
    draw: Callable[[Viewer, Wish, float], Drawn]
    is_filtered: bool = True
    """True if a namespace, a queue or a text narrows the list."""


def namespace_of(viewer: Viewer, wish: Wish) -> str:
    """The namespace of the lists; empty for all."""
    chosen = wish.namespace or viewer.namespace
    return "" if chosen == EVERYWHERE else chosen


def _jobs(viewer: Viewer, wish: Wish) -> Source[dict[str, JobRow]]:
    return viewer.follow(Scope(TRAINING_JOBS, namespace_of(viewer, wish)), job_row)


def problems_of(*sources: Source[Any]) -> list[str]:
    """Notes about sources that cannot be read."""
    return [source.problem for source in sources if source.problem]


def notes_of_nodes(nodes: Source[Any], *others: Source[Any]) -> list[str]:
    """The same. Most tenants may not read nodes, which is no problem."""
    return [*([OWN_GPUS] if nodes.code == FORBIDDEN else problems_of(nodes)), *problems_of(*others)]


def _queues(viewer: Viewer, wish: Wish, _: float) -> Drawn:
    none: list[Document] = []
    tree = viewer.ask("queuetrees", partial(viewer.client.objects, Scope(QUEUE_TREES)), none, ANSWER_S)
    if not tree.problem:
        return Drawn([tree], lambda: {"view": tree_view(tree.value, wish)})
    local = viewer.follow(Scope(LOCAL_QUEUES, namespace_of(viewer, wish)), lambda document: document)
    notes = [] if tree.code == FORBIDDEN else problems_of(tree)  # the page says who sees the tree
    return Drawn([tree, local], lambda: {"view": local_view(local.value.values(), wish)}, notes + problems_of(local))


def _nodes_and_jobs(view: Callable[..., object], viewer: Viewer, wish: Wish, now: float) -> Drawn:
    nodes = viewer.follow(Scope(GPU_NODES), gpu_node_row)
    jobs = _jobs(viewer, wish)
    return Drawn(
        [nodes, jobs],
        lambda: {
            "view": view([row.at(now) for row in nodes.value.values()], jobs.value.values(), wish, viewer.palette)
        },
        notes_of_nodes(nodes, jobs),
    )


def _one_kind(
    kind: Resource,
    read: Callable[[Document], object],
    view: Callable[..., object],
    viewer: Viewer,
    wish: Wish,
    _: float,
) -> Drawn:
    found = viewer.follow(Scope(kind, namespace_of(viewer, wish)), read)
    return Drawn([found], lambda: {"view": view(found.value.values(), wish)}, problems_of(found))


def _timeline(viewer: Viewer, wish: Wish, now: float) -> Drawn:
    jobs = _jobs(viewer, wish)
    runs = _past_runs(viewer, wish)
    notes = [f"Deleted jobs are not shown: {runs.problem}"] if runs.problem else []

    def shown() -> Mapping[str, Any]:
        there = {job.uid for job in jobs.value.values()}
        gone = [as_job(run) for run in runs.value if run.uid not in there]
        # Drawn anew each half minute: the line of the present moves.
        return {"view": timeline_view([*jobs.value.values(), *gone], wish, now - now % 30)}

    return Drawn([jobs, runs], shown, problems_of(jobs) + notes)


def _past_runs(viewer: Viewer, wish: Wish) -> Source[list[RunRow]]:
    """Finished runs from the operator's records, the newest first."""
    scope = Scope(RUNS, namespace_of(viewer, wish), page=RUNS_MAX)

    async def listed() -> list[RunRow]:
        return [run_row(one) for one in await viewer.client.objects(scope)]

    none: list[RunRow] = []
    return viewer.ask(("runs", scope.namespace), listed, none, RECORD_S)


def _history(viewer: Viewer, wish: Wish, now: float) -> Drawn:
    runs = _past_runs(viewer, wish)
    notes = [runs.problem] if runs.problem else []
    if len(runs.value) >= RUNS_MAX:
        notes.append(f"The newest {RUNS_MAX:,} runs are here; kubectl cotenant history --limit N has more.")
    return Drawn([runs], lambda: {"view": history_view(runs.value, wish, now - now % 30), "cost_of": cost_of}, notes)


def _reliability(viewer: Viewer, wish: Wish, now: float) -> Drawn:
    jobs = _jobs(viewer, wish)
    return Drawn(
        [jobs], lambda: {"view": reliability_view(jobs.value.values(), wish, now - now % 30)}, problems_of(jobs)
    )


def _showback(viewer: Viewer, wish: Wish, _: float) -> Drawn:
    jobs = _jobs(viewer, wish)
    queues = viewer.follow(
        Scope(QUEUES), lambda document: {"metadata": document["metadata"], "status": document.get("status")}
    )
    scope = Scope(SHOWBACKS, namespace_of(viewer, wish))
    none: list[Document] = []
    held = viewer.ask(("showbacks", scope.namespace), partial(viewer.client.objects, scope), none, LEDGER_S)
    local = viewer.follow(Scope(LOCAL_QUEUES, namespace_of(viewer, wish)), lambda document: document)
    notes = problems_of(jobs)
    notes += [f"Budgets are not shown: {local.problem}"] if queues.problem and local.problem else []
    notes += [f"The ledger is not shown: {held.problem}"] if held.problem else []

    def shown() -> Mapping[str, Any]:
        return {
            "view": showback_view(jobs.value.values(), wish),
            "money": money_view(held.value, wish),
            "budgets": budget_rows(queues.value.values(), local.value.values()),
        }

    return Drawn([jobs, queues, local, held], shown, notes)


PAGES: Final = (
    Page("/", "Overview", "overview.html", partial(_nodes_and_jobs, overview_view)),
    Page("/queues", "Queues", "queues.html", _queues),
    Page("/gpus", "GPUs", "wall.html", partial(_nodes_and_jobs, wall_view)),
    Page("/line", "Jobs", "line.html", partial(_one_kind, TRAINING_JOBS, job_row, line_view)),
    Page("/timeline", "Timeline", "timeline.html", _timeline),
    Page("/history", "History", "history.html", _history),
    Page("/reliability", "Reliability", "reliability.html", _reliability),
    Page("/showback", "Showback", "showback.html", _showback),
    Page("/requests", "Requests", "requests.html", partial(_one_kind, QUOTA_REQUESTS, request_row, requests_view)),
    Page("/sessions", "Sessions", "sessions.html", partial(_one_kind, SESSIONS, session_row, sessions_view)),
)
