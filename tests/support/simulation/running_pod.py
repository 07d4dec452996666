"""One pod whose processes run on a node, and how its program behaves."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant import contract


@dataclass(slots=True, kw_only=True)
class RunningPod:
    """Processes of one pod."""

    uid: str
    key: str
    """`namespace/name` of the pod."""
    grant: contract.Contract
    grace_s: float
    ends_at: float = float("inf")
    code: int = 0
    trains: bool = False
    """Its gang was whole once."""
    asked_to_end: bool = False
    was_cut_off: bool = False
    """Its machine could not be reached while it ran."""

    @property
    def attempt(self) -> tuple[str, int]:
        """Uid of the job, and number."""
        return self.grant.uid, self.grant.attempt

    def shares(self) -> dict[str, tuple[int, int]]:
        """UUID → MiB and milli-GPU."""
        found: dict[str, tuple[int, int]] = {}
        for rank in self.grant.pods[self.grant.node_rank].ranks:
            for gpu in rank.gpus:
                memory, compute = found.get(gpu.uuid, (0, 0))
                found[gpu.uuid] = (memory + gpu.memory_mib, compute + gpu.compute_milli)
        return found


@dataclass(frozen=True, slots=True)
class Program:
    """How the program of a job behaves."""

    runs_s: float
    code: int = 0
    ends_after_s: float = 1.0
    """Time that it takes to save and end when it is asked to; bounded by its grace period, unless it hangs."""
    hangs: bool = False
    """Not even SIGKILL ends it, until its node is started anew."""
