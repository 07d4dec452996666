"""The largest gang that fits, and its place: two answers that agree, whatever the topology and the quotas of zones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Job, Node, TenantQueue, Topology, TopologyMode
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang import PlacementRequest, max_workers, place_gang
from cotenant.core.placement.shapes import worker_shape
from tests.core.test_properties import ZONES, clusters

TOPOLOGIES = [None, *(Topology(level, mode) for level in ("node", "rack", "zone") for mode in TopologyMode)]


@given(clusters(), st.data())
def test_the_largest_gang_that_fits_is_placed_and_no_larger_one(
    world: tuple[list[Node], list[TenantQueue], list[Job]], data: st.DataObject
) -> None:
    nodes, _, jobs = world
    ledger = Ledger.of(nodes)
    zone_room = data.draw(st.dictionaries(st.sampled_from(ZONES), st.integers(0, 6)))
    for job in jobs:
        ask = PlacementRequest(
            worker_shape(job),
            Tenancy(1),
            np.ones(len(nodes), dtype=np.bool_),
            distinct=job.distinct_gpus,
            topology=data.draw(st.sampled_from(TOPOLOGIES)),
            zone_workers=zone_room,
        )
        room = FitCache(ledger, BestFit())
        fits = max_workers(room, ask)
        for workers in range(1, fits + 2):
            picks = place_gang(room, ask, workers)
            assert (picks is not None) == (workers <= fits)
            if picks is not None:
                per_zone = dict.fromkeys(ZONES, 0)
                for row, columns in picks:
                    per_zone[ledger.inventory.nodes[row].zone] += len(columns)
                assert sum(per_zone.values()) == workers
                assert all(per_zone[zone] <= room_there for zone, room_there in zone_room.items())
