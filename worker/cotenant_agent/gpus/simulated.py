"""Simulated GPUs: a named inventory, for machines without any. Status, metrics and log mark them as simulated.

The document is `{"class": "H100", "memory": "80Gi", "count": 2}`, from the Node's annotation
`cotenant.dev/simulated-gpus`. `unhealthy`, a list of indexes, makes GPUs unhealthy for tests. `nvlink`, a list of such
lists, says which GPUs NVLink joins: `[[0, 1], [2, 3]]`; without it all form one domain. UUIDs follow from the node's
name and the index, so they survive every restart.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant_agent.gpus.readings import Gpu, GpuInventory, GpuSample, GpuSource, GpuSourceError, HealthSigns

MIB_PER: Final = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
MAX_GPUS: Final = 64


@dataclass(frozen=True, slots=True)
class SimulatedSpec:
    """The document, parsed."""

    gpu_class: str
    memory_mib: int
    count: int
    unhealthy: frozenset[int] = frozenset()
    nvlink: tuple[frozenset[int], ...] | None = None
    """Domains; None means one domain of all GPUs."""


def parse(text: str, where: str) -> SimulatedSpec:
    """Raises SourceError that names the place, the key and what is expected there."""

    def refuse(problem: str) -> GpuSourceError:
        return GpuSourceError(
            f'{where}: {problem}. Expected a document like {{"class": "H100", "memory": "80Gi", "count": 2}}'
        )

    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise refuse(f"not JSON ({error})") from error
    if not isinstance(document, dict):
        raise refuse("not an object")
    if unknown := sorted(document.keys() - {"class", "memory", "count", "unhealthy", "nvlink"}):
        raise refuse(f"unknown key {unknown[0]!r}")
    gpu_class, memory, count = document.get("class"), document.get("memory"), document.get("count", 1)
    if not isinstance(gpu_class, str) or not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", gpu_class):
        raise refuse(f"class must be a name such as H100, not {gpu_class!r}")
    amount = re.fullmatch(r"(\d+)(Mi|Gi|Ti)", memory) if isinstance(memory, str) else None
    if amount is None or int(amount[1]) == 0:
        raise refuse(f"memory must be an amount such as 80Gi (Mi, Gi or Ti), not {memory!r}")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_GPUS:
        raise refuse(f"count must be a number from 0 to {MAX_GPUS}, not {count!r}")
    unhealthy = document.get("unhealthy", [])
    if not isinstance(unhealthy, list) or any(not isinstance(i, int) or not 0 <= i < count for i in unhealthy):
        raise refuse(f"unhealthy must be a list of indexes below {count}, not {unhealthy!r}")
    domains = document.get("nvlink")
    if domains is not None and not _are_domains(domains, count):
        raise refuse(f"nvlink must be lists of indexes below {count}, each index in one at most, not {domains!r}")
    joined = None if domains is None else tuple(frozenset(domain) for domain in domains)
    return SimulatedSpec(gpu_class, int(amount[1]) * MIB_PER[amount[2]], count, frozenset(unhealthy), joined)


def _are_domains(value: object, count: int) -> bool:
    if not isinstance(value, list) or not all(isinstance(domain, list) for domain in value):
        return False
    indexes = [index for domain in value for index in domain]
    are_whole = all(isinstance(index, int) and not isinstance(index, bool) for index in indexes)
    return are_whole and len(set(indexes)) == len(indexes) and all(0 <= index < count for index in indexes)


def gpu_uuid(node: str, index: int) -> str:
    """A UUID that survives restarts and differs between nodes."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node}.simulated-gpus.cotenant.dev')}"


def gpus_of(node: str, spec: SimulatedSpec) -> tuple[Gpu, ...]:
    uuids = [gpu_uuid(node, index) for index in range(spec.count)]
    domains = (frozenset(range(spec.count)),) if spec.nvlink is None else spec.nvlink
    joined = {index: domain - {index} for domain in domains for index in domain}
    return tuple(
        Gpu(
            uuid=own,
            index=index,
            gpu_class=spec.gpu_class,
            memory_mib=spec.memory_mib,
            product=f"Simulated {spec.gpu_class}",
            peers=tuple(sorted(uuids[peer] for peer in joined.get(index, ()))),
        )
        for index, own in enumerate(uuids)
    )


class SimulatedSource(GpuSource):
    """Reads its document at every call, so an edited annotation takes effect at once."""

    def __init__(self, node: str, read: Callable[[], str], where: str) -> None:
        self._node, self._read, self._where = node, read, where

    def inventory(self) -> GpuInventory:
        return GpuInventory(simulated=True, gpus=gpus_of(self._node, parse(self._read(), self._where)))

    def samples(self) -> tuple[GpuSample, ...]:
        spec = parse(self._read(), self._where)
        return tuple(
            GpuSample(
                uuid=gpu.uuid, used_mib=0, utilization_percent=0, signs=HealthSigns(lost=gpu.index in spec.unhealthy)
            )
            for gpu in gpus_of(self._node, spec)
        )

    def reset(self, uuid: str) -> str:
        """Does nothing: a simulated GPU is as its document says."""
        return ""
