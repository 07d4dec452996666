"""Amounts that quotas of a namespace count, or policies of the cluster want: a pod that does not name them is refused.

A worker pod has no CPU limit by default, so that it may use idle cores of its node. Its limit becomes its request in
three cases: a ResourceQuota counts CPU limits; a LimitRange demands one, or would fill in one below the request; a
policy refuses pods without one. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

_MUST_NAME: Final = re.compile(r"must specify (.*)")
_AMOUNT: Final = re.compile(r"(?:requests|limits)\.(?:cpu|memory|ephemeral-storage)")
_BELOW: Final = re.compile(r"must be less than or equal to (cpu|memory|ephemeral-storage) limit")
_UNNAMED: Final = re.compile(
    r"(cpu|memory|ephemeral-storage) (?:usage|max limit to request ratio) per (?:Pod|Container) is \S+\s+"
    r"(?:but )?no (limit|request) is specified",
    re.IGNORECASE,
)
"""Of a LimitRange. One of `type: Pod` bounds the sum of the containers and fills nothing in."""
_DENIED: Final = re.compile(r"\bdenied (?:the )?request\b(.*\blimits?\b.*)", re.DOTALL | re.IGNORECASE)
"""Of a webhook or a ValidatingAdmissionPolicy. The words after it are its author's: Gatekeeper's library says "has no
cpu limit", a policy of Kyverno "CPU and memory resource limits are required".
"""
_WANTED: Final = re.compile(r"\b(cpu|memory)\b", re.IGNORECASE)


def demanded_by(refusal: str) -> frozenset[str]:
    """Amounts that a refusal asks for, such as `limits.cpu`; empty if it is about something else.

    >>> sorted(demanded_by("exceeded quota: team, must specify limits.cpu for: worker; requests.cpu for: worker"))
    ['limits.cpu', 'requests.cpu']
    """
    named = _MUST_NAME.search(refusal)
    found = set(_AMOUNT.findall(named[1])) if named else set()
    denied = _DENIED.search(refusal)
    wanted = _WANTED.findall(denied[1]) if denied else []
    found |= {f"{kind.lower()}s.{name}" for name, kind in _UNNAMED.findall(refusal)}
    return frozenset(found | {f"limits.{name.lower()}" for name in (*_BELOW.findall(refusal), *wanted)})


def with_amounts(
    resources: Mapping[str, Any], demanded: Collection[str], scratch_mib: int = 0
) -> dict[str, dict[str, str]]:
    """Resources of a container with these amounts, as far as the job names them: a limit is the request."""
    made = {kind: dict(amounts) for kind, amounts in resources.items()}
    for amount in sorted(demanded, reverse=True):  # requests before the limits that follow from them
        kind, _, name = amount.partition(".")
        requests = made.setdefault("requests", {})
        if name == "ephemeral-storage" and scratch_mib:
            requests.setdefault(name, f"{scratch_mib}Mi")
        if kind == "limits" and name in requests:
            made.setdefault("limits", {}).setdefault(name, requests[name])
    return made
