"""Amounts that the quotas of a namespace count: a pod has to name each of them, or the API server refuses it.

A worker pod has no CPU limit by itself: idle cores of its node are its own. If a ResourceQuota counts limits of CPU, or
a LimitRange would fill one in below the request, the pod's limit is its request. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

_MUST_NAME: Final = re.compile(r"must specify (.*)")
_AMOUNT: Final = re.compile(r"(?:requests|limits)\.(?:cpu|memory|ephemeral-storage)")
_BELOW: Final = re.compile(r"must be less than or equal to (cpu|memory|ephemeral-storage) limit")


def demanded_by(refusal: str) -> frozenset[str]:
    """Amounts that a refusal asks for, such as `limits.cpu`; empty if it is about something else.

    >>> sorted(demanded_by("exceeded quota: team, must specify limits.cpu for: worker; requests.cpu for: worker"))
    ['limits.cpu', 'requests.cpu']
    """
    named = _MUST_NAME.search(refusal)
    found = set(_AMOUNT.findall(named[1])) if named else set()
    return frozenset(found | {f"limits.{name}" for name in _BELOW.findall(refusal)})


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
