"""Placements as values: made from node assignments, and joined or cut while a job changes size. Ranks are contiguous
from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.model.objects import GrantedGpu, NodePlacement, Placement, RankPlacement
from cotenant.core.placement.gang_request import NodeAssignment
from cotenant.core.placement.shapes import Shape


def placement_of(
    assignments: Sequence[NodeAssignment], shape: Shape, inventory: Inventory, *, first_rank: int = 0
) -> Placement:
    """The placement whose ranks follow the order of the nodes."""
    rank = first_rank
    nodes = []
    amounts: dict[int, tuple[int, int]] = {}
    """Kind of GPU → (MiB, milli) that the shape takes of one."""
    for row, workers in assignments:
        uuids = inventory.uuids[row]
        ranks = []
        for columns in workers:
            grants = []
            for column in columns:
                kind = int(inventory.kind[row, column])
                if kind not in amounts:
                    amounts[kind] = shape.per_gpu(inventory.kinds[kind])
                memory, compute = amounts[kind]
                grants.append(GrantedGpu(uuid=uuids[column], memory_mib=memory, compute_milli=compute))
            ranks.append(RankPlacement(rank=rank, gpus=tuple(grants)))
            rank += 1
        nodes.append(NodePlacement(node=inventory.nodes[row].name, ranks=tuple(ranks)))
    return Placement(nodes=tuple(nodes))


def without_ranks(placement: Placement, ranks: Collection[int]) -> Placement:
    """Leave some ranks out; the others move up."""
    return renumber(
        [(node.node, [rank.gpus for rank in node.ranks if rank.rank not in ranks]) for node in placement.nodes]
    )


def cut(placement: Placement, stretches: Iterable[range]) -> list[Placement]:
    """Keep each stretch of workers alone, under the ranks that they have."""
    workers = {worker.rank: (part.node, worker) for part in placement.nodes for worker in part.ranks}
    found = []
    for stretch in stretches:
        nodes: dict[str, list[RankPlacement]] = {}
        for rank in stretch:
            node, worker = workers[rank]
            nodes.setdefault(node, []).append(worker)
        parts = (NodePlacement(node=node, ranks=tuple(ranks)) for node, ranks in nodes.items())
        found.append(Placement(nodes=tuple(parts)))
    return found


def with_more(placement: Placement, more: Placement) -> Placement:
    """Add workers: first on nodes that the placement has, then on new nodes."""
    nodes: dict[str, list[tuple[GrantedGpu, ...]]] = {}
    for part in (*placement.nodes, *more.nodes):
        nodes.setdefault(part.node, []).extend(rank.gpus for rank in part.ranks)
    return renumber(list(nodes.items()))


def renumber(nodes: Sequence[tuple[str, Sequence[tuple[GrantedGpu, ...]]]]) -> Placement:
    rank = 0
    parts = []
    for node, workers in nodes:
        if not workers:
            continue
        ranks = tuple(RankPlacement(rank=rank + index, gpus=gpus) for index, gpus in enumerate(workers))
        rank += len(ranks)
        parts.append(NodePlacement(node=node, ranks=ranks))
    return Placement(nodes=tuple(parts))


def union_during_resize(placement: Placement, leaving: Placement | None) -> Placement:
    """Everything that is held while a resize is under way: per node and GPU the larger of before and after. Ranks are
    counted anew; if rank 0 has been on two nodes, as after the loss of one, both hold one.
    """
    if leaving is None or leaving == placement:
        return placement
    before = Counter((part.node, rank.gpus) for part in leaving.nodes for rank in part.ranks)
    after = Counter((part.node, rank.gpus) for part in placement.nodes for rank in part.ranks)
    heads = [part.node for one in (placement, leaving) for part in one.nodes if part.ranks and not part.ranks[0].rank]
    nodes: dict[str, list[tuple[GrantedGpu, ...]]] = {node: [] for node in heads}
    for node, gpus in sorted((before | after).elements(), key=str):
        nodes.setdefault(node, []).append(gpus)
    parts = renumber(list(nodes.items())).nodes
    return Placement(nodes=tuple(_with_rank_0(part) if part.node in heads else part for part in parts))


def _with_rank_0(part: NodePlacement) -> NodePlacement:
    return replace(part, ranks=(replace(part.ranks[0], rank=0), *part.ranks[1:]))
