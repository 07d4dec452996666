"""The object of Cotenant that controls another one, so that Kubernetes deletes that with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cotenant import names


def owner_reference(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def owner_of(references: Iterable[Mapping[str, Any]], kind: str) -> tuple[str, str] | None:
    """(name, uid) of the object of this kind that controls the one with these references."""
    for reference in references:
        is_ours = reference.get("apiVersion") in names.API_VERSIONS and reference.get("kind") == kind
        if is_ours and reference.get("controller"):
            return str(reference.get("name")), str(reference.get("uid"))
    return None
