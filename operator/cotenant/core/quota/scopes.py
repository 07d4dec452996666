"""Scopes of quotas: a class of GPUs and a zone, of which either may be any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Scope: TypeAlias = tuple[str | None, str | None]
"""(GPU class, zone); None: any."""


def covers(wide: Scope, narrow: Scope) -> bool:
    """Every GPU of the one lies in the other. A bucket (class, zone) is a scope as well."""
    return wide[0] in (None, narrow[0]) and wide[1] in (None, narrow[1])


def meet(one: Scope, other: Scope) -> bool:
    """Some GPU lies in both."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def amount_in(amounts: Mapping[tuple[str, str], int], scope: Scope) -> int:
    """What lies in the scope. `amounts`: by (class, zone)."""
    return sum(amount for bucket, amount in amounts.items() if covers(scope, bucket))


def scope_text(scope: Scope) -> str:
    return f"class {scope[0] or 'any'}, zone {scope[1] or 'any'}"
