"""The rooms of a package and the arrows between them, from the import graph: what `draw_house.py` draws."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
TREES = {"cotenant": "operator", "cotenant_worker": "worker", "cotenant_agent": "worker", "cotenant_local": "local"}
"""Root package -> the folder that it stands in."""
LEFT = ("", "cotenant.core", "cotenant.api", "cotenant_local.runtime")
RIGHT = ("cotenant.controller", "cotenant_worker", "cotenant_agent", "cotenant_local")
"""The packages that have a drawing of their own, in two columns; "" is the whole."""


@dataclass(frozen=True)
class Sheet:
    """The rooms of one package with the arrows between them: name of a room -> names of those it imports from.

    `titles` has the name as it is written, `files` what is listed below it.
    """

    package: str
    door: str
    titles: dict[str, str]
    files: dict[str, list[str]]
    imports: dict[str, set[str]]

    @cached_property
    def reached(self) -> dict[str, set[str]]:
        """Room -> all rooms below that it needs, directly or not."""
        found: dict[str, set[str]] = {}

        def visit(room: str) -> set[str]:
            if room not in found:
                found[room] = set().union(*({below} | visit(below) for below in self.imports[room]))
            return found[room]

        for room in self.files:
            visit(room)
        return found

    @cached_property
    def arrows(self) -> list[tuple[str, str]]:
        """The imports that do not follow from others."""
        return [
            (room, below)
            for room in self.files
            for below in sorted(self.imports[room])
            if not any(below in self.reached[other] for other in self.imports[room] - {below})
        ]

    @cached_property
    def skipping(self) -> list[tuple[str, str]]:
        """The arrows that pass a storey: they run beside the boxes."""
        height = {room: level for level, storey in enumerate(self.storeys) for room in storey}
        return [(room, below) for room, below in self.arrows if height[below] - height[room] > 1]

    @cached_property
    def storeys(self) -> list[list[str]]:
        """The rooms by height, the top first; within a storey, each near those above it."""
        height: dict[str, int] = {}
        for room in sorted(self.files, key=lambda room: len(self.reached[room])):
            height[room] = 1 + max((height[below] for below in self.imports[room]), default=0)
        place: dict[str, float] = {}
        storeys = []
        for level in range(max(height.values()), 0, -1):
            above: dict[str, list[float]] = defaultdict(list)
            for room, below in self.arrows:
                above[below] += [place[room]] if room in place else []
            here = sorted(
                (room for room in self.files if height[room] == level),
                key=lambda room: (sum(above[room]) / len(above[room]) if above[room] else 0.5, room),
            )
            place |= {room: (at + 0.5) / len(here) for at, room in enumerate(here)}
            storeys.append(here)
        return storeys


def sheet_of(graph: grimp.ImportGraph, package: str) -> Sheet:
    """The children of a package, or, for "", the packages of the operator beside the other trees."""
    if package:
        rooms = {child.rpartition(".")[2]: child for child in graph.find_children(package)}
    else:
        rooms = {child.rpartition(".")[2]: child for child in graph.find_children("cotenant")}
        rooms |= {tree: tree for tree in TREES if tree != "cotenant"}
    rooms = {name: module for name, module in sorted(rooms.items()) if name != "__main__"}
    imports = {
        name: {
            other
            for other, below in rooms.items()
            if other != name and graph.direct_import_exists(importer=module, imported=below, as_packages=True)
        }
        for name, module in rooms.items()
    }
    files = {name: files_of(graph, at) if at not in (*LEFT, *RIGHT) else [] for name, at in rooms.items()}
    titles = {name: name if graph.find_children(at) else f"{name}.py" for name, at in rooms.items()}
    return Sheet(package, door_of(package), titles, files, imports)


def files_of(graph: grimp.ImportGraph, room: str) -> list[str]:
    """The modules and packages in a room, `__main__` left out; none for a module."""
    return sorted({child.rpartition(".")[2] for child in graph.find_children(room)} - {"__main__"})


def door_of(package: str) -> str:
    """The first sentence of a package's docstring."""
    if not package:
        return "An arrow points from a room to one that it imports from; what follows from other arrows is left out."
    source = ROOT / TREES[package.partition(".")[0]] / package.replace(".", "/") / "__init__.py"
    text = " ".join((ast.get_docstring(ast.parse(source.read_text())) or "").split())
    return text.partition(". ")[0].rstrip(".") + "."
