"""Other clusters and other mixes of the same kind, for judging a policy on what it was not written with.

`packing.py --shift NAME` bends cluster and list before the protocol runs, differently for each seed and in the same way
for every policy of that seed. Each shift changes one thing, `mixed` everything at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from bench.parts.packing.openb import WHOLE, Machines, PodShape

Workload: TypeAlias = tuple[Machines, list[PodShape]]
Shift: TypeAlias = Callable[[Machines, list[PodShape], np.random.Generator], Workload]


def nodes(machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Workload:
    """70 % of the nodes, drawn with a random weight per model: other shares of models, of CPU per GPU, of sizes."""
    weight = rng.lognormal(0.0, 0.7, len(machines.models))[machines.model]
    rows = rng.choice(len(weight), size=int(0.7 * len(weight)), replace=False, p=weight / weight.sum())
    return machines.take(np.sort(rows)), pods


def mixed(machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Workload:
    """`nodes`; shapes drawn from the list with a random log-normal weight each (so common shapes become rare and the
    reverse), every CPU request and share scaled by up to ±15 %."""
    cluster, _ = nodes(machines, pods, rng)
    counts = Counter(pods)
    shapes = list(counts)
    odds = np.array([counts[shape] for shape in shapes]) * rng.lognormal(0.0, 0.8, len(shapes))
    bent = [_bend(shape, rng) for shape in shapes]
    drawn = rng.choice(len(shapes), size=int(0.7 * len(pods)), p=odds / odds.sum())
    return cluster, [bent[i] for i in drawn]


def _bend(shape: PodShape, rng: np.random.Generator) -> PodShape:
    cpu = int(shape.cpu * rng.uniform(0.85, 1.15))
    milli = min(int(shape.milli * rng.uniform(0.85, 1.15)), 990) if shape.is_share else shape.milli
    return replace(shape, cpu=cpu, milli=milli)


def shares(machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Workload:
    """Every size of share becomes another one, 50 to 950 milli, and its CPU keeps to the size."""
    sizes = sorted({pod.milli for pod in pods if pod.is_share})
    other = dict(zip(sizes, (10 * rng.integers(5, 96, len(sizes))).tolist(), strict=True))

    def changed(pod: PodShape) -> PodShape:
        return replace(pod, milli=other[pod.milli], cpu=pod.cpu * other[pod.milli] // pod.milli)

    return machines, [changed(pod) if pod.is_share else pod for pod in pods]


def cpu(machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Workload:
    """Half to twice as many pods without a GPU, and CPU requests of the others scaled by 0.8 to 1.3 together."""
    guests = [pod for pod in pods if not pod.count]
    factor = float(rng.uniform(0.8, 1.3))
    number = int(len(guests) * rng.uniform(0.5, 2.0))
    drawn = [guests[i] for i in rng.integers(len(guests), size=number)] if guests else []
    return machines, [replace(pod, cpu=int(pod.cpu * factor)) for pod in pods if pod.count] + drawn


def classes(machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Workload:
    """Bind a tenth to a third of the GPU pods to one model, drawn by how many GPUs there are of it, to a random
    power between none and one: up to as many for a scarce model as for a common one."""
    gpus = np.array([machines.free[machines.model == number].sum() for number in range(len(machines.models))])
    odds = np.where(gpus > 0, np.maximum(gpus, 1).astype(float) ** rng.uniform(0.5, 1.0), 0.0)
    largest = [
        int((machines.free[machines.model == number] == WHOLE).sum(axis=1).max(initial=0))
        for number in range(len(gpus))
    ]
    part = float(rng.uniform(0.1, 0.33))

    def bound(pod: PodShape) -> PodShape:
        if not pod.count or rng.random() >= part:
            return pod
        able = odds * np.array([pod.count <= most for most in largest])
        number = int(rng.choice(len(able), p=able / able.sum())) if able.sum() else 0
        return replace(pod, models=(machines.models[number],)) if able.sum() else pod

    return machines, [bound(pod) for pod in pods]


def gangs(machines: Machines, pods: list[PodShape], rng: np.random.Generator) -> Workload:
    """One to five in a hundred of the pods with one whole GPU become pods of 2, 4 or 8, with CPU in proportion up to
    what the largest node has beside so many."""
    part = float(rng.uniform(0.01, 0.05))
    most = int(machines.cpu.max())

    def grown(pod: PodShape) -> PodShape:
        if pod.count != 1 or pod.is_share or rng.random() >= part:
            return pod
        count = int(rng.choice((2, 4, 8)))
        return replace(pod, count=count, cpu=min(pod.cpu * count, most * count // 8))

    return machines, [grown(pod) for pod in pods]


SHIFTS: Mapping[str, Shift] = {
    "mixed": mixed,
    "nodes": nodes,
    "shares": shares,
    "cpu": cpu,
    "classes": classes,
    "gangs": gangs,
}
