"""The mutants of a source file: where an expression can be changed, and into what.

Changes are made in the text, at the offsets of the syntax tree, so that a mutant differs from the original in one
operator, name or number and in nothing else. Annotations, decorators, docstrings and what only type checkers read are
left alone; so is `+` beside a string, which no test could miss.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
ARITHMETIC = {"+": "-", "-": "+", "*": "//", "//": "*", "/": "*", "+=": "-=", "-=": "+="}
EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}
OPERATOR = re.compile(r"is\s+not|not\s+in|\bis\b|\bin\b|\band\b|\bor\b|<=|>=|==|!=|<|>|//=|//|\+=|-=|\+|-|\*|/")


@dataclass(frozen=True)
class Mutant:
    """One change: the bytes from `start` to `end` of the file, `was` in the source, become `becomes`."""

    file: str
    start: int
    end: int
    was: str
    becomes: str
    line_number: int
    line: str
    mutated: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What the list of equivalent mutants knows it by: it stays when lines above it come or go."""
        return self.file, self.line, self.mutated

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.becomes.encode() + source[self.end :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """All mutants of one file in the order of its text."""
    offsets = _line_offsets(source)
    found = []
    for start, end, becomes in _changes(ast.parse(source), source, offsets):
        first = source.rfind(b"\n", 0, start) + 1
        last = source.find(b"\n", end) if b"\n" in source[end:] else len(source)
        line, mutated = source[first:last], source[first:start] + becomes.encode() + source[end:last]
        number = source.count(b"\n", 0, start) + 1
        was = source[start:end].decode()
        found.append(
            Mutant(file, start, end, was, becomes, number, line.decode().strip(), mutated.decode().strip()),
        )
    return sorted(found, key=lambda mutant: (mutant.start, mutant.becomes))


def _line_offsets(source: bytes) -> list[int]:
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


def _changes(tree: ast.Module, source: bytes, offsets: list[int]) -> Iterator[tuple[int, int, str]]:
    """(start, end, what the bytes between become) of each possible change."""
    text = _Text(source, offsets)
    for node in _expressions(tree):
        yield from _operators(node, text)
        yield from _values(node, text)


@dataclass(frozen=True)
class _Text:
    """The source with the offset at which each of its lines begins."""

    source: bytes
    offsets: list[int]

    def start(self, node: ast.expr) -> int:
        return self.offsets[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self.offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def operator(self, left: ast.expr, right: ast.expr) -> tuple[int, int, str]:
        """The operator between two operands, brackets and line ends beside it left out."""
        between = self.source[self.end(left) : self.start(right)].decode("latin-1")
        found = OPERATOR.search(between)
        if found is None:
            raise ValueError(f"no operator between two operands: {between!r}")
        begin = self.end(left) + found.start()
        return begin, begin + len(found.group()), " ".join(found.group().split())


def _operators(node: ast.AST, text: _Text) -> Iterator[tuple[int, int, str]]:
    match node:
        case ast.Compare():
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                begin, end, sign = text.operator(left, right)
                yield from ((begin, end, other) for other in COMPARISONS[sign])
        case ast.BoolOp():
            for left, right in zip(node.values, node.values[1:], strict=False):
                begin, end, sign = text.operator(left, right)
                yield begin, end, "or" if sign == "and" else "and"
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Div(), left=left, right=right):
            if not _is_string(left) and not _is_string(right):
                begin, end, sign = text.operator(left, right)
                yield begin, end, ARITHMETIC[sign]
        case ast.AugAssign(op=ast.Add() | ast.Sub(), target=left, value=right) if not _is_string(right):
            begin, end, sign = text.operator(left, right)
            yield begin, end, ARITHMETIC[sign]


def _values(node: ast.AST, text: _Text) -> Iterator[tuple[int, int, str]]:
    match node:
        case ast.UnaryOp(op=ast.Not()):
            yield text.start(node), text.start(node) + len(b"not "), ""
        case ast.Call(func=ast.Name(id=name) as function) if name in EXCHANGED:
            yield text.start(function), text.end(function), EXCHANGED[name]
        case ast.Constant(value=bool() as value):
            yield text.start(node), text.end(node), str(not value)
        case ast.Constant(value=int() as value):
            yield text.start(node), text.end(node), str(value + 1)
            yield text.start(node), text.end(node), str(value - 1)


def _is_string(node: ast.expr) -> bool:
    """Whether an operand is a string or an addition of strings."""
    if isinstance(node, ast.BinOp):
        return _is_string(node.left) or _is_string(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, without annotations, decorators, f-strings' formats and `if TYPE_CHECKING` blocks, and without
    the `strict` of zip: it asserts what is so in every program that is right."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    skipped: set[int] = set()
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "format_spec", "type_params"}:
            skipped |= {id(child) for child in (value if isinstance(value, list) else [value])}
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped:
            yield child
            yield from _expressions(child)
