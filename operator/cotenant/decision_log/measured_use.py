"""How much of its GPUs a job was seen to use: sums of samples that the agents of its nodes take.

It is unknown whose kernels ran on a GPU that several jobs share, so its figure counts fully for each of them, and
`shared` says so. Memory is that of the job's own processes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from cotenant.api.resources.gpunodes import GPUNodeStatus, GpuStatus

IDLE_PERCENT: Final = 5
"""A GPU that is less busy counts as idle."""
JOBS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUse:
    """A sample is one look at one GPU that the job held."""

    samples: int = 0
    busy_samples: int = 0
    """Samples in which the driver showed how busy the GPU was."""
    busy_percent_sum: int = 0
    idle_samples: int = 0
    memory_mib_sum: int = 0
    memory_peak_mib: int = 0
    """Peak of the job's processes on one GPU."""
    held_mib: int = 0
    """The most that it held of one GPU."""
    shared: bool = False
    simulated: bool = False
    """One of the GPUs was simulated. Nothing computes on such a GPU, so how busy it is was not measured."""

    def plus(self, other: MeasuredUse) -> MeasuredUse:
        return MeasuredUse(
            samples=self.samples + other.samples,
            busy_samples=self.busy_samples + other.busy_samples,
            busy_percent_sum=self.busy_percent_sum + other.busy_percent_sum,
            idle_samples=self.idle_samples + other.idle_samples,
            memory_mib_sum=self.memory_mib_sum + other.memory_mib_sum,
            memory_peak_mib=max(self.memory_peak_mib, other.memory_peak_mib),
            held_mib=max(self.held_mib, other.held_mib),
            shared=self.shared or other.shared,
            simulated=self.simulated or other.simulated,
        )

    @property
    def busy_percent(self) -> int | None:
        """Mean over the samples; None if nothing was measured."""
        return self.busy_percent_sum // self.busy_samples if self.busy_samples else None

    @property
    def idle_percent(self) -> int | None:
        return 100 * self.idle_samples // self.busy_samples if self.busy_samples else None

    @property
    def memory_percent(self) -> int | None:
        """Peak as a percentage of what was held."""
        return 100 * self.memory_peak_mib // self.held_mib if self.samples and self.held_mib else None


NOTHING_MEASURED: Final = MeasuredUse()


class UseByJob:
    """Use by uid of the job. The job that was not seen for the longest is forgotten first."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, MeasuredUse] = OrderedDict()

    def __getitem__(self, uid: str) -> MeasuredUse:
        return self._of.get(uid, NOTHING_MEASURED)

    def sample(self, nodes: Iterable[GPUNodeStatus]) -> None:
        for node in nodes:
            for uid, use in use_on(node):
                self._of[uid] = self._of.pop(uid, NOTHING_MEASURED).plus(use)
        while len(self._of) > JOBS_MAX:
            self._of.popitem(last=False)

    def pop(self, uid: str) -> MeasuredUse:
        return self._of.pop(uid, NOTHING_MEASURED)

    def clear(self) -> None:
        self._of.clear()


def use_on(node: GPUNodeStatus) -> Iterator[tuple[str, MeasuredUse]]:
    """One look at each GPU of a node: uid of a job that holds it → its use."""
    holders = node.holders or ()
    job_of_pod = {one.pod_uid: one.job_uid for one in holders}
    for gpu in node.gpus:
        held: Counter[str] = Counter()
        for holder in holders:
            for part in holder.gpus:
                if part.uuid == gpu.uuid:
                    held[holder.job_uid] += part.memory_mib
        used: Counter[str] = Counter()
        for process in gpu.processes:
            used[job_of_pod.get(process.pod_uid, "")] += process.memory_mib
        for uid, held_mib in held.items():
            one = MeasuredUse(samples=1, memory_mib_sum=used[uid], memory_peak_mib=used[uid], held_mib=held_mib)
            shown = replace(one, shared=len(held) > 1, simulated=node.simulated)
            yield uid, shown if node.simulated else _with_busy(shown, gpu)


def _with_busy(use: MeasuredUse, gpu: GpuStatus) -> MeasuredUse:
    busy = gpu.used.utilization_percent if gpu.used else None
    if busy is None:
        return use
    return replace(use, busy_samples=1, busy_percent_sum=busy, idle_samples=int(busy < IDLE_PERCENT))
