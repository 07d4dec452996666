"""Selectors of a PromQL expression, as `promql-parser` reads it: what a dashboard or an alert asks Prometheus for."""

from __future__ import annotations

from dataclasses import dataclass

import promql_parser


@dataclass(frozen=True, slots=True)
class Selector:
    metric: str
    labels: tuple[str, ...]
    """That its matchers name."""


def selectors(expression: str) -> list[Selector]:
    """Every selector of an expression. Raises ValueError for what Prometheus would not take."""
    found: list[Selector] = []

    def note(one: promql_parser.Expr) -> None:
        if isinstance(one, promql_parser.VectorSelector):
            found.append(Selector(one.name or "", tuple(each.name for each in one.matchers.matchers)))

    promql_parser.walk(promql_parser.parse(expression), note)
    return found
