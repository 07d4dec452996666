"""Pods that the API server refused: those of jobs, and those of operator and agents. Read from Events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from cotenant import names
from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity
from cotenant.cli.terminal.output import counted

RECENT_S: Final = 1800.0
"""Older refusals are not told: what was refused may be there by now."""
WORDS_MAX: Final = 300
NO_CLASS: Final = re.compile(r"no PriorityClass with name (\S+) was found")
OF_CHART: Final = "cotenant-workers"
"""How the name of the PriorityClass begins that the chart makes for worker pods."""


def refused_jobs(cluster: SeenCluster) -> Iterator[Diagnosis]:
    """Namespaces in which pods of jobs were refused lately, each with the newest words of the API server."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for event in cluster.items("refusedJobs"):
        if event["involvedObject"].get("kind") == "TrainingJob" and _is_recent(event, cluster.now):
            found.setdefault(event["metadata"]["namespace"], []).append(event)
    for namespace, events in sorted(found.items()):
        jobs = {event["involvedObject"].get("name") for event in events}
        words = _words(max(events, key=_time))
        yield Diagnosis(
            Severity.WARNING, f"namespace {namespace}", f"pods of {counted(len(jobs), 'job')} were refused: {words}",
            _class_of_workers(words)
            or f"exempt pods labelled {names.LABEL_MANAGED_BY}={names.MANAGED_BY} from what refused them, or see"
            " docs/troubleshooting.md#an-attempt-that-never-ran",
        )  # fmt: skip


def _class_of_workers(words: str) -> str:
    """What to do if these words say that the PriorityClass of worker pods is not there; empty if they do not."""
    found = NO_CLASS.search(words)
    if found is None:
        return ""
    if found[1].startswith(OF_CHART):
        return f"helm upgrade the release: it makes PriorityClass {found[1]} again, because worker.priority is set"
    return (
        f"operator.settings.pod_priority_class names PriorityClass {found[1]}: kubectl create priorityclass {found[1]}"
        " --value=1000000 --preemption-policy=Never, or name one that is there"
    )


def fix_of(cluster: SeenCluster, kind: str, namespace: str, name: str, otherwise: str) -> str:
    """How to mend that the newest pod of this object was refused. `otherwise`: the answer if its words do not tell."""
    found = NO_CLASS.search(said_of(cluster, kind, namespace, name))
    if found is None:
        return otherwise
    part = "operator" if kind == "ReplicaSet" else "agent"
    return f"{part}.priorityClassName names PriorityClass {found[1]}: make it, or name one that is there (helm upgrade)"


def said_of(cluster: SeenCluster, kind: str, namespace: str, name: str) -> str:
    """Why the newest pod of this object was refused, to be put behind a sentence; empty if none was refused lately.

    A Deployment's pods are made by ReplicaSets, whose names begin with its own.
    """
    about = [
        event
        for event in cluster.items("refusedPods")
        if event["involvedObject"].get("kind") == kind
        and event["metadata"]["namespace"] == namespace
        and f"{event['involvedObject'].get('name', '')}-".startswith(f"{name}-")
        and _is_recent(event, cluster.now)
    ]
    return f": {_words(max(about, key=_time))}" if about else ""


def _time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _is_recent(event: Mapping[str, Any], now: datetime) -> bool:
    at = _time(event)
    return bool(at) and (now - datetime.fromisoformat(at)).total_seconds() <= RECENT_S


def _words(event: Mapping[str, Any]) -> str:
    said = " ".join(str(event.get("message", "")).split())
    return said if len(said) <= WORDS_MAX else f"{said[:WORDS_MAX]} …"
