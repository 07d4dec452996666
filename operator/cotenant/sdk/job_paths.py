"""Paths of the API server, the body of a question, and the ranks of a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote

from cotenant import names

API: Final = f"/apis/{names.GROUP}/{names.VERSION}"
QUESTIONS: Final = f"/apis/{names.QUERY_GROUP}/{names.QUERY_VERSION}"


def object_path(plural: str, namespace: str = "", name: str = "") -> str:
    """Path of one object of our own kinds, or of all objects of a kind."""
    return below(API, namespace, plural, name)


def jobs_path(namespace: str, name: str = "") -> str:
    return object_path("trainingjobs", namespace, name)


def question_path(namespace: str, resource: str, name: str = "") -> str:
    return below(QUESTIONS, namespace, resource, name)


def core_path(namespace: str, resource: str, name: str = "") -> str:
    return below("/api/v1", namespace, resource, name)


def below(root: str, namespace: str, resource: str, name: str = "") -> str:
    """Path of an object below `root`, or of all objects of a resource; of all namespaces if `namespace` is empty."""
    path = f"{root}/namespaces/{quote(namespace, safe='')}/{resource}" if namespace else f"{root}/{resource}"
    return f"{path}/{quote(name, safe='')}" if name else path


def what_if(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The question about a manifest, or about a change of a job."""
    return {"apiVersion": f"{names.QUERY_GROUP}/{names.QUERY_VERSION}", "kind": "WhatIf", "spec": dict(spec)}


def pods_query(uid: str, attempt: int) -> dict[str, str]:
    return {"labelSelector": f"{names.LABEL_JOB_UID}={uid},{names.LABEL_ATTEMPT}={attempt}"}


@dataclass(frozen=True, slots=True)
class PodPaths:
    """Paths of the pods of a job and of their logs: here, or through the operator those on another cluster."""

    namespace: str
    job: str
    uid: str
    is_elsewhere: bool = False

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> Self:
        metadata, cluster = job["metadata"], (job.get("status") or {}).get("cluster") or {}
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], bool(cluster.get("attempts")))

    @staticmethod
    def attempts_of(job: Mapping[str, Any]) -> int:
        """Number of the newest attempt, where the pods are."""
        status = job.get("status") or {}
        return int((status.get("cluster") or {}).get("attempts") or status.get("attempts") or 0)

    def pods(self, attempt: int) -> tuple[str, dict[str, str]]:
        """Path and query."""
        if self.is_elsewhere:
            return f"{self._there}/pods", {"attempt": str(attempt)}
        return core_path(self.namespace, "pods"), pods_query(self.uid, attempt)

    def pod(self, name: str) -> str:
        return f"{self._there}/pods/{name}" if self.is_elsewhere else core_path(self.namespace, "pods", name)

    def log(self, pod: str) -> str:
        return f"{self._there}/log/{pod}" if self.is_elsewhere else f"{self.pod(pod)}/log"

    @property
    def _there(self) -> str:
        return question_path(self.namespace, "remotejobs", self.job)


def ranks_of(pod: Mapping[str, Any]) -> tuple[int, ...]:
    """The ranks in the operator's annotation of the pod; empty for a pod without ranks, or if it cannot be read."""
    try:
        noted = json.loads((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_PLACEMENT) or "{}")
        return tuple(sorted(int(rank) for rank in noted.get("ranks", {})))
    except (ValueError, AttributeError, TypeError):
        return ()
