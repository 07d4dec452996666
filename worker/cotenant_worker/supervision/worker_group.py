"""All ranks of one start of a job: where each runs, and where they meet. Values."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.contract import Contract
from cotenant_worker.messaging.records import record


@record
class RankAssignment:
    """One rank of a group: where it runs, and which grant of the contract it holds."""

    rank: int
    pod: int
    ip: str
    local_rank: int
    grant: int
    """The rank in the contract. It differs from `rank` once an elastic group has shrunk."""


@record
class WorkerGroup:
    """All ranks of one start. Every (re)start has a new generation and a new port."""

    generation: int
    ranks: tuple[RankAssignment, ...]
    master_addr: str
    master_port: int
    coordinator_port: int
    reduce_port: int = 0
    """Port for `cotenant_worker.all_reduce` in programs without torch.distributed."""
    restart_count: int = 0
    resume_from: str = ""
    resume_step: int | None = None

    @property
    def size(self) -> int:
        return len(self.ranks)

    def of_pod(self, pod: int) -> tuple[RankAssignment, ...]:
        return tuple(assignment for assignment in self.ranks if assignment.pod == pod)


def assign_ranks(contract: Contract, addresses: Mapping[int, str]) -> tuple[RankAssignment, ...]:
    """Assign ranks to the present pods, in pod order, numbered without gaps.

    A Ray Train program is one process in rank 0's pod: Ray Train starts its workers itself.
    """
    if contract.mode == "rayTrain":
        return (RankAssignment(rank=0, pod=0, ip=addresses[0], local_rank=0, grant=contract.pods[0].ranks[0].rank),)
    found = [
        (pod, local, grant.rank)
        for pod, granted in enumerate(contract.pods)
        if pod in addresses
        for local, grant in enumerate(granted.ranks)
    ]
    return tuple(
        RankAssignment(rank=rank, pod=pod, ip=addresses[pod], local_rank=local, grant=grant)
        for rank, (pod, local, grant) in enumerate(found)
    )
