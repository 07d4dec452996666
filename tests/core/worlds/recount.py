"""Holdings recounted from placements, without the scheduler's own accounts."""

from __future__ import annotations

from collections import defaultdict

from cotenant.core.allocation.placements import union_during_resize
from cotenant.core.model.objects import Job, Node, Sharing, TenantQueue


def check_nothing_is_overcommitted(nodes: list[Node], queues: list[TenantQueue], jobs: list[Job]) -> None:
    """Recounted from the placements, not from the scheduler's own accounts."""
    gpu = {gpu.uuid: gpu for node in nodes for gpu in node.gpus}
    node_of = {gpu.uuid: node for node in nodes for gpu in node.gpus}
    memory: dict[str, int] = defaultdict(int)
    compute: dict[str, int] = defaultdict(int)
    cpu: dict[str, int] = defaultdict(int)
    host: dict[str, int] = defaultdict(int)
    scratch: dict[str, int] = defaultdict(int)
    holders: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.placement is None:
            continue
        taken = union_during_resize(job.placement, job.resizing_from)
        ranks = [rank for part in taken.nodes for rank in part.ranks]
        assert [rank.rank for rank in ranks] == list(range(len(ranks)))
        uuids = [grant.uuid for rank in ranks for grant in rank.gpus]
        assert len(uuids) == len(set(uuids)) or not job.distinct_gpus, "two ranks of one job on one GPU"
        for part in taken.nodes:
            cpu[part.node] += job.cpu_milli * len(part.ranks)
            host[part.node] += job.memory_mib * len(part.ranks)
            scratch[part.node] += job.scratch_mib * len(part.ranks)
            for rank in part.ranks:
                for grant in rank.gpus:
                    assert node_of[grant.uuid].name == part.node
                    memory[grant.uuid] += grant.memory_mib
                    compute[grant.uuid] += grant.compute_milli
                    holders[grant.uuid].append(job)
        head = job.placement.nodes[0].node
        cpu[head] += 0 if job.chief_cpu_milli is None else job.chief_cpu_milli - job.cpu_milli
        host[head] += 0 if job.chief_memory_mib is None else job.chief_memory_mib - job.memory_mib
        scratch[head] += 0 if job.chief_scratch_mib is None else job.chief_scratch_mib - job.scratch_mib
    for uuid, amount in memory.items():
        assert amount <= gpu[uuid].memory_mib
        assert compute[uuid] <= 1000
    for node in nodes:
        assert cpu[node.name] <= node.cpu_milli
        assert host[node.name] <= node.memory_mib
        assert scratch[node.name] <= node.scratch_mib
    for uuid, sharers in holders.items():
        check_sharing(node_of[uuid], sharers)


def check_sharing(node: Node, sharers: list[Job]) -> None:
    keys, tenants = {job.key for job in sharers}, {job.queue for job in sharers}
    modes = {job.gpu.sharing for job in sharers}
    if len(keys) > 1:
        assert Sharing.NEVER not in modes
    if len(tenants) > 1:
        assert node.shared_by_queues
        assert modes == {Sharing.ANY}


def check_limits(nodes: list[Node], queues: list[TenantQueue], jobs: list[Job]) -> None:
    where = {gpu.uuid: (gpu, node) for node in nodes for gpu in node.gpus}
    parent = {queue.name: queue.parent for queue in queues}
    used: dict[tuple[str, int], int] = defaultdict(int)
    for job in jobs:
        if job.placement is None:
            continue
        path: list[str] = []
        at: str | None = job.queue
        while at is not None:
            path.append(at)
            at = parent[at]
        for queue in queues:
            if queue.name not in path:
                continue
            for number, quota in enumerate(queue.quotas):
                for part in union_during_resize(job.placement, job.resizing_from).nodes:
                    for rank in part.ranks:
                        for grant in rank.gpus:
                            gpu, node = where[grant.uuid]
                            if quota.gpu_class in (None, gpu.gpu_class) and quota.zone in (None, node.zone):
                                used[queue.name, number] += max(
                                    grant.compute_milli, -(-grant.memory_mib * 1000 // gpu.memory_mib)
                                )
    for queue in queues:
        for number, quota in enumerate(queue.quotas):
            assert quota.limit is None or used[queue.name, number] <= quota.limit
