"""Paths of the API server, the body of a question, and the ranks of a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from cotenant import names

API: Final = f"/apis/{names.GROUP}/{names.VERSION}"
QUESTIONS: Final = f"/apis/{names.QUERY_GROUP}/{names.QUERY_VERSION}"


def object_path(plural: str, namespace: str, name: str = "") -> str:
    """Path of one object of our own kinds, or of all objects of a kind."""
    return _below(API, namespace, plural, name)


def jobs_path(namespace: str, name: str = "") -> str:
    return object_path("trainingjobs", namespace, name)


def question_path(namespace: str, resource: str, name: str = "") -> str:
    return _below(QUESTIONS, namespace, resource, name)


def core_path(namespace: str, resource: str, name: str = "", subresource: str = "") -> str:
    path = _below("/api/v1", namespace, resource, name)
    return f"{path}/{subresource}" if subresource else path


def what_if(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The question about a manifest, or about a change of a job."""
    return {"apiVersion": f"{names.QUERY_GROUP}/{names.QUERY_VERSION}", "kind": "WhatIf", "spec": dict(spec)}


def pods_query(uid: str, attempt: int) -> dict[str, str]:
    return {"labelSelector": f"{names.LABEL_JOB_UID}={uid},{names.LABEL_ATTEMPT}={attempt}"}


def ranks_of(pod: Mapping[str, Any]) -> tuple[int, ...]:
    """Ranks by what the operator noted at the pod; empty: of a pod without ranks, or nothing that can be read."""
    try:
        noted = json.loads((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_PLACEMENT) or "{}")
        return tuple(sorted(int(rank) for rank in noted.get("ranks", {})))
    except (ValueError, AttributeError, TypeError):
        return ()


def _below(root: str, namespace: str, resource: str, name: str) -> str:
    path = f"{root}/namespaces/{quote(namespace, safe='')}/{resource}" if namespace else f"{root}/{resource}"
    return f"{path}/{quote(name, safe='')}" if name else path
