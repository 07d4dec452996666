"""What the checks look at, and what they find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from cotenant import names


class Severity(StrEnum):
    ERROR = "Error"
    """Severity: something does not work."""
    WARNING = "Warning"
    """Severity: it works, but not for everyone or not as safely."""
    NOTE = "Note"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    severity: Severity
    subject: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """The documents that were read, by the names of `doctor.PATHS`. Missing and unreadable ones are absent."""

    seen: Mapping[str, Any]
    refused: list[str]
    now: datetime

    def items(self, name: str) -> list[Mapping[str, Any]]:
        return list((self.seen.get(name) or {}).get("items") or ())

    def environments(self, component: str) -> Iterator[dict[str, str]]:
        """The environment of each container of the Deployments of this part of Cotenant."""
        for one in self.items("deployments"):
            pod = (one["spec"].get("template") or {}).get("spec") or {}
            for container in pod.get("containers") or () if component_of(one) == component else ():
                yield {variable["name"]: variable.get("value") or "" for variable in container.get("env") or ()}

    def may_not(self, name: str) -> bool:
        return any(one.startswith(f"{name}:") for one in self.refused)

    @property
    def is_installed(self) -> bool:
        return bool(self.items("deployments")) or any(is_ours(crd) for crd in self.items("crds"))

    @property
    def version(self) -> tuple[int, ...]:
        found = self.seen["version"]
        return int(re.sub(r"\D", "", found["major"])), int(re.sub(r"\D", "", found["minor"]))


def is_ours(crd: Mapping[str, Any]) -> bool:
    return bool(crd.get("spec", {}).get("group") == names.GROUP)


def component_of(document: Mapping[str, Any]) -> str:
    """Part of Cotenant that an object of the release belongs to: `operator`, `agent`, `mps`."""
    return str((document["metadata"].get("labels") or {}).get("app.kubernetes.io/component", ""))
