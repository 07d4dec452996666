"""Cotenant's packing policy on an openb run: the ledger, the filter, the choice and the scorer that `schedule` uses.

Each pod is one worker of one job. The mix is learned from the pods that have arrived so far, placed or not, as a
scheduler sees them in its queue and among what runs; nothing is known of the list. openb has one amount per share,
so a share takes the same milli of memory (of a GPU with 1000 MiB) and of compute.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bench.parts.packing.openb import WHOLE, Machines
from bench.parts.packing.openb import PodShape as Pod
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.model.objects import Gpu, Node
from cotenant.core.placement import Packing, Shape
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang import place_gang
from cotenant.core.placement.gang_request import PlacementRequest
from cotenant.core.placement.scoring import LOWEST

_TENANCY = Tenancy(1)


def as_nodes(machines: Machines) -> list[Node]:
    return [
        Node(
            name=f"node-{row:05}",
            gpus=tuple(
                Gpu(uuid=f"{row:05}-{slot}", gpu_class=machines.models[model], memory_mib=WHOLE, index=slot)
                for slot in range(int((free > 0).sum()))
            ),
            cpu_milli=int(machines.cpu[row]),
            memory_mib=int(machines.memory[row]),
        )
        for row, (free, model) in enumerate(zip(machines.free, machines.model, strict=True))
    ]


class CotenantPolicy:
    """One run. A new cycle, with the mix learned until then, begins every CYCLE arrivals, sooner at the start."""

    CYCLE = 400

    def __init__(self, machines: Machines, random_ties: np.random.Generator | None = None) -> None:
        self._ledger = Ledger.of(as_nodes(machines))
        self._ties = random_ties
        self._seen: Counter[Shape] = Counter()
        self._shapes: dict[Pod, Shape] = {}
        self._arrived = 0
        self._begin_cycle()

    def _begin_cycle(self) -> None:
        demands = [(shape, float(self._seen[shape])) for shape in sorted(self._seen)]
        self._fits = FitCache(self._ledger, Packing().prepare(self._ledger, demands))

    def place(self, pod: Pod) -> bool:
        shape = self._shapes.get(pod)
        if shape is None:
            shape = self._shapes[pod] = as_shape(pod)
        self._seen[shape] += 1
        self._arrived += 1
        if self._arrived % self.CYCLE == 0 or self._arrived in {25, 50, 100, 200}:
            self._begin_cycle()
        found = place_gang(self._fits, self._request(shape), 1)
        if found is None:
            return False
        ((row, (columns,)),) = found
        milli = (pod.milli,) * len(columns)
        self._ledger.allocate(NodeAllocation(row, columns, milli, milli, pod.cpu, pod.memory, _TENANCY.tenant))
        return True

    def _request(self, shape: Shape) -> PlacementRequest:
        inventory = self._ledger.inventory
        rows = inventory.rows_serving(inventory.zones, shape.classes if shape.count else ())
        if self._ties is not None:
            score = np.full(len(inventory.nodes), LOWEST)
            score[rows] = self._fits.shape_fit(shape, _TENANCY).node_scores[rows]
            rows = self._ties.choice(np.flatnonzero(score == score.max()), 1)
        return PlacementRequest(shape=shape, tenancy=_TENANCY, rows=rows)

    def sound(self) -> bool:
        return self._ledger.sound()


def as_shape(pod: Pod) -> Shape:
    return Shape(
        count=pod.count,
        whole=not pod.is_share,
        compute_milli=pod.milli if pod.is_share else 0,
        cpu_milli=pod.cpu,
        host_mib=pod.memory,
        classes=pod.models,
    )
