"""Fields of a schema, and values for each: at its bounds, beyond them, of other types, and none."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.support.hostile.mutations import NUMBERS, TEXTS

Schema = dict[str, Any]
NAMES: Final = ("team-a", "team-b", "nowhere", "default", "steady", "1h", "10s", "0", "0.5", "1", "16Gi", "H100")
"""Texts that have a meaning in some field."""
NEAR: Final = 0.8
"""Share of values that are not hostile. The API server refuses nearly all hostile ones."""


@dataclass(frozen=True)
class Place:
    """One field; an index of 0 is the first item of a list."""

    path: tuple[str | int, ...]
    schema: Schema

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.path)


def places(schema: Schema, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every field below `path`, the innermost first."""
    for name, inner in schema.get("properties", {}).items():
        yield from places(inner, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from places(schema["items"], (*path, 0))
    if path:
        yield Place(path, schema)


def near_values(schema: Schema, now: Any) -> list[Any]:
    """Values at the bounds of the schema and just beyond; None removes the field."""
    found: list[Any] = [None, *schema.get("enum", ())]
    match schema.get("type"):
        case "integer" | "number":
            least, most = schema.get("minimum", 0), schema.get("maximum", 2**31)
            found += [least, least - 1, least + 1, most, most + 1, most // 2]
            found += [now + 1, now - 1] if isinstance(now, int) else []
        case "boolean":
            found += [True, False]
        case "array":
            found += [[], [{}], (now or []) * 2, (now or [])[:-1]]
        case "object":
            found += [{}, {"a": "b"}]
        case _:
            found += NAMES
    return found


def changed(document: Any, place: Place, random: Random) -> Any:
    """The document with another value in that field. Missing objects and lists above it are created."""
    found = copy.deepcopy(document)
    parent = found
    for part, following in zip(place.path[:-1], place.path[1:], strict=True):
        parent = _child(parent, part, [] if isinstance(following, int) else {})
    last = place.path[-1]
    now = parent.get(last) if isinstance(parent, dict) else (parent[0] if parent else None)
    far = [*TEXTS, *filter(math.isfinite, NUMBERS)]
    value = random.choice(near_values(place.schema, now) if random.random() < NEAR else far)
    if isinstance(parent, list):
        parent[:1] = [] if value is None else [value]
    elif value is None:
        parent.pop(last, None)
    else:
        parent[last] = value
    return found


def _child(parent: Any, part: str | int, empty: Any) -> Any:
    if isinstance(parent, list):
        if not parent:
            parent.append(empty)
        return parent[0] if isinstance(parent[0], type(empty)) else parent.__setitem__(0, empty) or parent[0]
    if not isinstance(parent.get(part), type(empty)):
        parent[part] = empty
    return parent[part]
