"""Finds fields that the CustomResourceDefinitions of a cluster lack for this release. Pure.

The API server drops a field that its definition does not have, and refuses an unknown word of an enum. Helm never
changes a definition, so an upgrade may leave those of an older release. Definitions of a newer release have all fields
of this one: a version of the API loses none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant import names

SHOWN_MAX: Final = 3


def lacking(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> str:
    """What `served` lacks of `wanted`, both CustomResourceDefinitions, as a phrase; empty if it lacks nothing."""
    there = _schema(served)
    if there is None:
        return f"it does not serve {names.VERSION}"
    found = list(_missing(_schema(wanted) or {}, there, ""))
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return f"it lacks {', '.join(found[:SHOWN_MAX])}{more}" if found else ""


def _schema(definition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for version in definition["spec"]["versions"]:
        if version["name"] == names.VERSION and version.get("served"):
            return dict((version.get("schema") or {}).get("openAPIV3Schema") or {})
    return None


def _missing(wanted: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    """Fields and words of enums, by path: `status.placement.zone`, `status.phase: Paused`."""
    if "enum" in served:
        for word in wanted.get("enum") or ():
            if word not in served["enum"]:
                yield f"{path}: {word}"
    there = served.get("properties") or {}
    for name, field in (wanted.get("properties") or {}).items():
        below = f"{path}.{name}" if path else name
        if name in there:
            yield from _missing(field, there[name], below)
        elif not served.get("x-kubernetes-preserve-unknown-fields"):
            yield below
    for part, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(wanted.get(part), Mapping) and isinstance(served.get(part), Mapping):
            yield from _missing(wanted[part], served[part], f"{path}{mark}")
