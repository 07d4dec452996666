"""The tables of `advice.yaml`, read when the first document is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class WrongName:
    """Names of no field, and what to write instead."""

    names: tuple[str, ...]
    write: Mapping[str, Any]
    """Path of a field → an example of it; empty if the name has to be removed."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Tables:
    names: Mapping[str, tuple[WrongName, ...]]
    examples: Mapping[str, Mapping[str, Any]]
    words: Mapping[str, Mapping[str, Mapping[str, str]]]
    notes: Mapping[str, Mapping[str, str]]

    def wrong_name(self, model: str, name: str) -> WrongName | None:
        return next((row for row in self.names.get(model, ()) if name in row.names), None)

    def example(self, model: str, field: str) -> Any:
        return self.examples.get(model, {}).get(field)


@cache
def tables() -> Tables:
    read = yaml.safe_load(files(__package__).joinpath("advice.yaml").read_text(encoding="utf-8"))
    rows = {model: tuple(map(_row, names)) for model, names in read["names"].items()}
    return Tables(rows, read["examples"], read["words"], read["notes"])


def _row(row: Mapping[str, Any]) -> WrongName:
    return WrongName(tuple(row["names"]), row.get("write", {}), row.get("why", ""))
