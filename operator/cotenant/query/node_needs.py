"""How many more nodes of each kind would start the jobs that wait, by the operator's own `place`.

A kind is what nodes have in common: their GPUs and their zone. Each kind is tried alone, so the rows are alternatives
for a job that takes several classes. Nodes are added until adding more starts nothing more, then the fewest that start
the same jobs are searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

from cotenant.core.cycle.gallop import first_true
from cotenant.core.model.objects import JobKey, Node
from cotenant.core.model.plan import Admit, Plan, Reason
from cotenant.core.scheduling.scheduler import place
from cotenant.query.cluster_change import with_copies
from cotenant.query.situation import Situation

NODES_MAX: Final = 1_000
"""Nodes that are added at most."""
KINDS_MAX: Final = 16
_Kind: TypeAlias = tuple[tuple[tuple[str, int], ...], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNeed:
    """What more nodes of one kind would start."""

    like: str
    """A node of this kind: the one on which pods of others take least CPU."""
    gpus: tuple[tuple[str, int], ...]
    """(class, number) of one node."""
    zone: str
    nodes: int
    """The fewest more nodes with which `starts` jobs start; 0 if none starts."""
    starts: int
    is_least: bool
    """False if the time was over before fewer nodes were tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNeeds:
    waiting: int
    """Jobs that wait, without those for which others are leaving."""
    kinds: tuple[NodeNeed, ...]
    """Kinds that start something, those that start the most jobs first."""
    unhelped: tuple[tuple[str, int], ...]
    """Reason → jobs that more nodes of no kind would start."""
    untried: int = 0
    """Kinds of nodes for which there was no time."""


def node_needs(situation: Situation, goes_on: Callable[[], bool]) -> NodeNeeds:
    """The need of each kind of node that is there. `goes_on` is asked between decisions; the first kind is always
    tried.
    """
    before = place(situation.snapshot, situation.policy)
    waiting = before.verdicts.keys() - before.nominations.keys()
    kinds = _kinds(situation.snapshot.nodes) if waiting else []
    found: list[NodeNeed] = []
    reasons = {key: before.verdicts[key].reason for key in waiting}
    for like in kinds[:KINDS_MAX]:
        if found and not goes_on():
            break
        need, plan = _need(situation, like, waiting, goes_on)
        found.append(need)
        reasons = {key: _newer(before, plan, key, reason) for key, reason in reasons.items() if key in plan.verdicts}
    unhelped = Counter(reason.value for reason in reasons.values())
    return NodeNeeds(
        waiting=len(waiting),
        kinds=tuple(sorted((one for one in found if one.starts), key=lambda one: (-one.starts, one.nodes, one.like))),
        unhelped=tuple(sorted(unhelped.items(), key=lambda item: (-item[1], item[0]))),
        untried=len(kinds) - len(found),
    )


def _newer(before: Plan, plan: Plan, key: JobKey, reason: Reason) -> Reason:
    """Why the job waits even with more nodes: what the plan says, if it is not what was said without them."""
    with_nodes = plan.verdicts[key].reason
    return reason if with_nodes is before.verdicts[key].reason else with_nodes


def _need(situation: Situation, like: Node, waiting: Set[JobKey], goes_on: Callable[[], bool]) -> tuple[NodeNeed, Plan]:
    """The need of this kind, and the plan with all the nodes that could help."""

    def plan_with(nodes: int) -> Plan:
        return place(with_copies(situation.snapshot, like, nodes), situation.policy)

    most = min(NODES_MAX, sum(situation.jobs[key].workers_min for key in waiting))
    plan = plan_with(most)
    started = _started(plan, waiting)
    is_least = True

    def enough(nodes: int) -> bool:
        nonlocal is_least
        is_least = is_least and goes_on()
        return is_least and started <= _started(plan_with(nodes), waiting)

    least = 0
    if started:
        there = {node.name for node in situation.snapshot.nodes}
        used = len(_nodes_of(plan, started) - there) or most
        least = first_true(0, used if used < most and enough(used) else most, enough)
    gpus, zone = _kind(like)
    return NodeNeed(
        like=like.name, gpus=gpus, zone=zone, nodes=least, starts=len(started), is_least=is_least
    ), plan  # fmt: skip


def _started(plan: Plan, waiting: Set[JobKey]) -> frozenset[JobKey]:
    return frozenset(one.job for one in plan.actions if isinstance(one, Admit) and one.job in waiting)


def _nodes_of(plan: Plan, jobs: Set[JobKey]) -> frozenset[str]:
    admitted = (one for one in plan.actions if isinstance(one, Admit) and one.job in jobs)
    return frozenset(part.node for one in admitted for part in one.placement.nodes)


def _kinds(nodes: Iterable[Node]) -> list[Node]:
    """One node of each kind, the most frequent kind first."""
    of_kind: dict[_Kind, list[Node]] = {}
    for node in nodes:
        if node.gpus and not node.deleted:
            of_kind.setdefault(_kind(node), []).append(node)
    frequent = sorted(of_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    return [min(alike, key=lambda node: (-node.cpu_milli, -node.memory_mib, node.name)) for _, alike in frequent]


def _kind(node: Node) -> _Kind:
    return tuple(sorted(Counter(gpu.gpu_class for gpu in node.gpus).items())), node.zone
