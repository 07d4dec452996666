"""Reads PromQL strictly, as much of it as dashboards and alerts use: what it does not know is an error.

By the grammar of Prometheus' documentation: operators with `bool`, `on`, `ignoring` and `group_left`, aggregations,
functions, selectors with matchers, ranges and offsets. Types are checked as far as a range vector goes only into
functions that take one, and nothing else does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

TOKEN: Final = re.compile(
    r"\s*(?:(?P<duration>\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*\b)|(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<string>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^<>=(){}\[\],:]))"
)
PRECEDENCE: Final = (
    ("or",),
    ("and", "unless"),
    ("==", "!=", "<=", "<", ">=", ">"),
    ("+", "-"),
    ("*", "/", "%"),
    ("^",),
)
AGGREGATIONS: Final = {"sum": 1, "min": 1, "max": 1, "avg": 1, "count": 1, "topk": 2, "bottomk": 2, "quantile": 2}
"""→ arguments."""
OF_RANGES: Final = {
    "rate",
    "increase",
    "irate",
    "delta",
    "max_over_time",
    "min_over_time",
    "avg_over_time",
    "sum_over_time",
}
FUNCTIONS: Final = {"histogram_quantile": 2, "clamp_min": 2, "clamp_max": 2, "time": 0, "vector": 1, "absent": 1,
                    "label_replace": 5, "round": 1} | dict.fromkeys(OF_RANGES, 1)  # fmt: skip
KEYWORDS: Final = {
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "bool",
    "offset",
    "and",
    "or",
    "unless",
}


class PromqlError(ValueError):
    """What cannot be read, and where."""


@dataclass(frozen=True, slots=True)
class Selector:
    metric: str
    labels: tuple[str, ...]
    """That its matchers name."""


@dataclass
class Parser:
    text: str
    selectors: list[Selector] = field(default_factory=list)
    tokens: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    def parse(self) -> list[Selector]:
        """The selectors of one whole expression."""
        position = 0
        while self.text[position:].strip():
            found = TOKEN.match(self.text, position)
            if found is None:
                raise PromqlError(f"{self.text!r}: at {self.text[position:][:20]!r}")
            self.tokens.append((str(found.lastgroup), str(found[str(found.lastgroup)])))
            position = found.end()
        if self._operation(0):
            raise self._error("an instant vector at the end, not a range")
        if self._peek():
            raise self._error("the end")
        return self.selectors

    def _error(self, wanted: str) -> PromqlError:
        return PromqlError(f"{self.text!r}: want {wanted}, got {self._peek() or 'the end'!r}")

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _take(self, wanted: str = "", kind: str = "") -> str:
        text = self._peek()
        if (wanted and text != wanted) or (kind and self._kind() != kind) or not text:
            raise self._error(wanted or f"a {kind}")
        self.at += 1
        return text

    def _has(self, text: str) -> bool:
        if self._peek() != text or self._kind() == "string":
            return False
        self.at += 1
        return True

    def _operation(self, level: int) -> bool:
        """Whether it is a range vector."""
        if level == len(PRECEDENCE):
            self._has("-")
            return self._primary()
        is_range = self._operation(level + 1)
        while self._peek() in PRECEDENCE[level] and self._kind() in {"sign", "word"}:
            self._take()
            if self._has("bool") and level != 2:
                raise self._error("`bool` behind a comparison only")
            if self._peek() in {"on", "ignoring"}:
                self._take()
                self._names()
                if self._peek() in {"group_left", "group_right"}:
                    self._take()
                    self._names()
            if self._operation(level + 1) or is_range:
                raise self._error("no range beside an operator")
        return is_range

    def _names(self) -> None:
        self._take("(")
        while not self._has(")"):
            self._take(kind="word")
            if self._peek() != ")":
                self._take(",")

    def _primary(self) -> bool:
        if self._has("("):
            is_range = self._operation(0)
            self._take(")")
            return is_range
        if self._kind() in {"number", "string"}:
            self._take()
            return False
        name = "" if self._peek() == "{" else self._take(kind="word")
        if name in AGGREGATIONS:
            return self._aggregation(name)
        if self._peek() == "(":
            return self._function(name)
        if not name or name in KEYWORDS:
            raise self._error("the name of a metric")
        return self._selector(name)

    def _aggregation(self, name: str) -> bool:
        grouped = self._grouping()
        self._arguments(name, AGGREGATIONS[name], of_ranges=False)
        if not grouped:
            self._grouping()
        return False

    def _grouping(self) -> bool:
        if self._peek() not in {"by", "without"}:
            return False
        self._take()
        self._names()
        return True

    def _function(self, name: str) -> bool:
        if name not in FUNCTIONS:
            raise self._error(f"a function that is known, not {name}")
        self._arguments(name, FUNCTIONS[name], of_ranges=name in OF_RANGES)
        return False

    def _arguments(self, name: str, wanted: int, *, of_ranges: bool) -> None:
        self._take("(")
        found = 0
        while not self._has(")"):
            if self._operation(0) != of_ranges:
                raise self._error(f"{name} of {'a range' if of_ranges else 'no range'}")
            found += 1
            if self._peek() != ")":
                self._take(",")
        if found != wanted:
            raise self._error(f"{wanted} arguments of {name}, not {found}")

    def _selector(self, name: str) -> bool:
        labels = []
        if self._has("{"):
            while not self._has("}"):
                labels.append(self._take(kind="word"))
                if self._peek() not in {"=", "!=", "=~", "!~"}:
                    raise self._error("a matcher")
                self._take()
                self._take(kind="string")
                if self._peek() != "}":
                    self._take(",")
        self.selectors.append(Selector(name, tuple(labels)))
        is_range = self._has("[")
        if is_range:
            self._take(kind="duration")
            self._take("]")
        if self._has("offset"):
            self._take(kind="duration")
        return is_range


def selectors(expression: str) -> list[Selector]:
    """Every selector of an expression. Raises PromqlError for what Prometheus would not take."""
    return Parser(expression).parse()
