"""Requests on one node that no placement covers, kept up to date as pods come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cotenant.contract import Role
from cotenant.controller.informers.pods.pod_record import PodRecord


@dataclass(slots=True)
class NodeLoad:
    """Requests of pods of others, of parameter servers and of evaluators, and what was added to pods with ranks."""

    cpu_milli: int = 0
    memory_mib: int = 0
    scratch_mib: int = 0
    pods: int = 0
    devices: Counter[str] = field(default_factory=Counter)
    """Extended resource → requested."""

    def add(self, pod: PodRecord, sign: int) -> None:
        uncovered = pod.added if pod.role is Role.WORKER else pod.requests
        self.cpu_milli += sign * uncovered.cpu_milli
        self.memory_mib += sign * uncovered.memory_mib
        self.scratch_mib += sign * uncovered.scratch_mib
        if pod.role is Role.WORKER:
            return
        self.pods += sign
        for name, number in pod.devices.items():
            self.devices[name] += sign * number
