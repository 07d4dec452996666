"""Draws `docs/house.svg`: the rooms of each package in storeys, from the import graph.

A room is a folder or a file of a package; its box lists the files in it. It stands one storey above the highest room
that it imports from, so that every arrow points down. An arrow that follows from others is left out: where a room
imports from a second and that from a third, none is drawn from the first to the third.

    python docs/design/draw_house.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import grimp
from house_sheets import LEFT, RIGHT, ROOT, TREES, Sheet, sheet_of

TARGET = ROOT / "docs" / "house.svg"
WIDTH, EDGE = 452, 12
"""Of a column, and of the space beside its boxes, in the units of the drawing."""
TITLE, LINE, STOREY = 17, 13, 22
"""Heights: of a room's name, of a line of files, of the space between storeys."""
LANE = 7
"""The width that an arrow takes beside the boxes."""
CHARACTER = 5.4
"""The width of one character in a list of files; rounded up, since fonts differ."""

STYLE = """
  svg { --paper: #ffffff; --sheet: #f6f8fa; --room: #ffffff; --edge: #afb8c1 }
  svg { --ink: #1f2328; --pale: #59636e; --arrow: #0969da }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --sheet: #151b23; --room: #212830; --edge: #59636e }
    svg { --ink: #f0f6fc; --pale: #9da7b3; --arrow: #58a6ff }
  }
  .paper { fill: var(--paper) } .sheet { fill: var(--sheet); stroke: var(--edge); stroke-width: .6 }
  .room { fill: var(--room); stroke: var(--edge) } .head { fill: var(--arrow) }
  .arrow { fill: none; stroke: var(--arrow); stroke-width: 1.2; opacity: .8 }
  text { font-family: -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: var(--ink) }
  .name { font-size: 12px; font-weight: 600 } .files { font-size: 10.5px; fill: var(--pale) }
  .package { font-size: 15px; font-weight: 700 } .door { font-size: 11px; fill: var(--pale) }
"""


@dataclass(frozen=True)
class Box:
    """A room with its place on the sheet."""

    room: str
    lines: list[str]
    x: float
    y: float
    width: float
    height: float


def wrapped(text: str, width: float) -> list[str]:
    """Lines of at most `width`; a no-break space holds what is beside it together."""
    lines = [""]
    for word in filter(None, text.split(" ")):
        longer = f"{lines[-1]} {word}".strip(" ")
        lines = [*lines[:-1], longer] if len(longer) <= width / CHARACTER else [*lines, word]
    return [line for line in lines if line]


def place(sheet: Sheet, top: float) -> tuple[dict[str, Box], float]:
    """The boxes of a sheet, and where it ends. A storey is as wide as the sheet, and shared by need."""
    boxes: dict[str, Box] = {}
    y = top
    gutter = LANE * len(sheet.skipping) + (2 if sheet.skipping else 0)
    for storey in sheet.storeys:
        least = {
            room: max(7.2 * len(sheet.titles[room]), CHARACTER * max(map(len, sheet.files[room] or [""]))) + 14
            for room in storey
        }
        need = {room: len("   ".join(sheet.files[room])) + 1 for room in storey}
        free = WIDTH - 2 * EDGE - gutter - 10 * (len(storey) - 1) - sum(least.values())
        x, tallest = float(EDGE), 0.0
        for room in storey:
            width = least[room] + free * need[room] / sum(need.values())
            listed = "\u00a0· ".join(sheet.files[room])
            lines = wrapped(listed, width - 14)
            boxes[room] = Box(room, lines, x, y, width, TITLE + LINE * len(lines) + 6)
            tallest = max(tallest, boxes[room].height)
            x += width + 10
        boxes |= {room: Box(room, boxes[room].lines, boxes[room].x, y, boxes[room].width, tallest) for room in storey}
        y += tallest + STOREY
    return boxes, y - STOREY + EDGE


def draw(sheet: Sheet, left: float, top: float) -> tuple[list[str], float]:
    """The sheet as SVG, and its height."""
    door = wrapped(sheet.door, WIDTH - 2 * EDGE)
    boxes, end = place(sheet, 34 + LINE * len(door) + 6)
    title = sheet.package or "The house"
    parts = [
        f'<g transform="translate({left:g} {top:g})">',
        f'<rect class="sheet" width="{WIDTH}" height="{end:g}" rx="8"/>',
        f'<text class="package" x="{EDGE}" y="24">{escape(title)}</text>',
        *(f'<text class="door" x="{EDGE}" y="{41 + LINE * at}">{escape(text)}</text>' for at, text in enumerate(door)),
        *arrows(sheet, boxes),
    ]
    for box in boxes.values():
        parts.append(
            f'<rect class="room" x="{box.x:.1f}" y="{box.y:g}" width="{box.width:.1f}" height="{box.height:g}" rx="5"/>'
        )
        parts.append(
            f'<text class="name" x="{box.x + 8:.1f}" y="{box.y + 16:g}">{escape(sheet.titles[box.room])}</text>'
        )
        parts += [
            f'<text class="files" x="{box.x + 8:.1f}" y="{box.y + 16 + LINE * at:g}">{escape(text)}</text>'
            for at, text in enumerate(box.lines, 1)
        ]
    return [*parts, "</g>"], end


def arrows(sheet: Sheet, boxes: dict[str, Box]) -> Iterator[str]:
    """Curves from the foot of a room to the head of another, spread over both so that none covers another."""
    out: dict[str, list[str]] = defaultdict(list)
    into: dict[str, list[str]] = defaultdict(list)
    for room, below in sheet.arrows:
        out[room].append(below)
        into[below].append(room)
    for room, below in sheet.arrows:
        start, end = boxes[room], boxes[below]
        first = port(start, sorted(out[room], key=lambda other: boxes[other].x), below)
        last = port(end, sorted(into[below], key=lambda other: boxes[other].x), room)
        foot, head = start.y + start.height, end.y - 5
        bend = STOREY * 0.6
        curve = f"M{first:.1f} {foot:g}C{first:.1f} {foot + bend:g} {last:.1f} {head - bend:g} {last:.1f} {head:g}"
        if (room, below) in sheet.skipping:
            lane = WIDTH - EDGE - LANE * sheet.skipping.index((room, below)) - 2
            gap, turn = foot + 6 + 2 * sheet.skipping.index((room, below)), head - 7
            curve = f"M{first:.1f} {foot:g}Q{first:.1f} {gap:g} {first + 6:.1f} {gap:g}H{lane - 5:g}"
            curve += f"Q{lane:g} {gap:g} {lane:g} {gap + 5:g}V{turn - 5:g}Q{lane:g} {turn:g} {lane - 5:g} {turn:g}"
            curve += f"H{last + 5:.1f}Q{last:.1f} {turn:g} {last:.1f} {head:g}"
        yield f'<path class="arrow" d="{curve}"/>'
        yield f'<path class="head" d="M{last:.1f} {end.y:g}l-3.5-6h7z"/>'


def port(box: Box, others: list[str], other: str) -> float:
    return box.x + box.width * (others.index(other) + 1) / (len(others) + 1)


def house() -> str:
    """The whole drawing."""
    sys.path[:0] = [str(ROOT / tree) for tree in set(TREES.values())]
    graph = grimp.build_graph(*TREES, cache_dir=None)
    parts: list[str] = []
    ends = []
    for column, packages in enumerate((LEFT, RIGHT)):
        y = 10.0
        for package in packages:
            drawn, height = draw(sheet_of(graph, package), 10 + column * (WIDTH + 10), y)
            parts += drawn
            y += height + 10
        ends.append(y)
    width, height = 2 * WIDTH + 30, max(ends)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}">'
    )
    note = "<!-- Drawn by docs/design/draw_house.py from the import graph: make map. -->"
    paper = f'<rect class="paper" width="{width}" height="{height:g}"/>'
    return "\n".join([head, note, f"<style>{STYLE}</style>", paper, *parts, "</svg>", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where the drawing is stale")
    given = parser.parse_args()
    drawing = house()
    if given.check:
        if not TARGET.exists() or TARGET.read_text() != drawing:
            print(f"{TARGET.relative_to(ROOT)} is stale: make map", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(drawing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
