"""GPUs that are not there: a named inventory, for machines without any. The agent says so wherever it says anything.

The document is `{"class": "H100", "memory": "80Gi", "count": 2}`, from the Node's annotation
`cotenant.dev/simulated-gpus` or from a file. `unhealthy`, a list of indexes, makes GPUs fall ill, for tests of faults.
UUIDs derive from the node's name and the index, so they survive every restart.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant_agent.gpus.readings import Gpu, Inventory, Sample, Signs, SourceError, Xid

MIB_PER: Final = {"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
MOST: Final = 64


@dataclass(frozen=True, slots=True)
class Wish:
    """The document, parsed."""

    gpu_class: str
    memory_mib: int
    count: int
    unhealthy: frozenset[int] = frozenset()


def parse(text: str, where: str) -> Wish:
    """Raises SourceError that names the place, the key and what is expected there."""

    def refuse(problem: str) -> SourceError:
        return SourceError(
            f'{where}: {problem}. Expected a document like {{"class": "H100", "memory": "80Gi", "count": 2}}'
        )

    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise refuse(f"not JSON ({error})") from error
    if not isinstance(document, dict):
        raise refuse("not an object")
    if unknown := sorted(document.keys() - {"class", "memory", "count", "unhealthy"}):
        raise refuse(f"unknown key {unknown[0]!r}")
    gpu_class, memory, count = document.get("class"), document.get("memory"), document.get("count", 1)
    if not isinstance(gpu_class, str) or not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", gpu_class):
        raise refuse(f"class must be a name such as H100, not {gpu_class!r}")
    amount = re.fullmatch(r"(\d+)(Mi|Gi|Ti)", memory) if isinstance(memory, str) else None
    if amount is None or int(amount[1]) == 0:
        raise refuse(f"memory must be an amount such as 80Gi (Mi, Gi or Ti), not {memory!r}")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST:
        raise refuse(f"count must be a number from 0 to {MOST}, not {count!r}")
    unhealthy = document.get("unhealthy", [])
    if not isinstance(unhealthy, list) or any(not isinstance(i, int) or not 0 <= i < count for i in unhealthy):
        raise refuse(f"unhealthy must be a list of indexes below {count}, not {unhealthy!r}")
    return Wish(gpu_class, int(amount[1]) * MIB_PER[amount[2]], count, frozenset(unhealthy))


def gpu_uuid(node: str, index: int) -> str:
    """Stable over restarts, different on every node."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node}.simulated-gpus.cotenant.dev')}"


def gpus_of(node: str, wish: Wish) -> tuple[Gpu, ...]:
    uuids = [gpu_uuid(node, index) for index in range(wish.count)]
    return tuple(
        Gpu(
            uuid=own,
            index=index,
            gpu_class=wish.gpu_class,
            memory_mib=wish.memory_mib,
            product=f"Simulated {wish.gpu_class}",
            peers=tuple(sorted(set(uuids) - {own})),
        )
        for index, own in enumerate(uuids)
    )


class SimulatedSource:
    """Reads its document again at every call, so that an edited annotation or file takes effect while it runs."""

    def __init__(self, node: str, read: Callable[[], str], where: str) -> None:
        self._node, self._read, self._where = node, read, where

    def inventory(self) -> Inventory:
        return Inventory(simulated=True, gpus=gpus_of(self._node, parse(self._read(), self._where)))

    def samples(self) -> tuple[Sample, ...]:
        wish = parse(self._read(), self._where)
        return tuple(
            Sample(uuid=gpu.uuid, used_mib=0, utilization_percent=0, signs=Signs(lost=gpu.index in wish.unhealthy))
            for gpu in gpus_of(self._node, wish)
        )

    def wait_for_xid(self, timeout_s: float) -> Xid | None:
        """Simulated GPUs raise no events."""
        time.sleep(timeout_s)
        return None
