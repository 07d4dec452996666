"""What each node could take of a gang, before anything is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Node
from cotenant.core.placement.bestfit import BestFit
from cotenant.core.placement.fit_cache import FitCache
from cotenant.core.placement.fitting import Tenancy
from cotenant.core.placement.gang_request import PlacementRequest, cap_by_zone, capacity_per_node, domains_of
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node

ONE, PAIR, CPU = Shape(), Shape(count=2), Shape(count=0, cpu_milli=1_000)
HALF = Shape(whole=False, memory_milli=500)
EIGHT = [make_node(f"n{number}", gpus=gpus) for number, gpus in enumerate((8, 8, 5, 3))]
ZONED = [
    make_node("n0", gpus=2, zone="a", rack="x"),
    make_node("n1", gpus=4, zone="a", rack="x"),
    make_node("n2", gpus=3, zone="b", rack="x"),
    make_node("n3", gpus=3, zone="b"),
]


def asks(nodes: list[Node], shape: Shape, **changes: Any) -> PlacementRequest:
    return PlacementRequest(
        shape, Tenancy(1), np.array(changes.pop("rows", range(len(nodes))), dtype=np.int64), **changes
    )


@pytest.mark.parametrize(
    ("nodes", "shape", "changes", "capacity"),
    [
        pytest.param(EIGHT, ONE, {}, [8, 8, 5, 3], id="one per GPU"),
        pytest.param(EIGHT, PAIR, {}, [4, 4, 2, 1], id="as many as there are pairs"),
        pytest.param(EIGHT, ONE, {"rows": [0, 2]}, [8, 0, 5, 0], id="none on rows that may not"),
        pytest.param(
            EIGHT, PAIR, {"excluded": frozenset({(0, 0), (2, 1), (2, 2)})}, [3, 4, 1, 1], id="not on excluded GPUs"
        ),
        pytest.param(EIGHT[3:], HALF, {"distinct": False}, [6], id="two halves on a GPU"),
        pytest.param(EIGHT[3:], HALF, {"distinct": False, "excluded": frozenset({(0, 1)})}, [4], id="of those left"),
        pytest.param(EIGHT[3:], HALF, {"excluded": frozenset({(0, 1)})}, [2], id="one of them, where they differ"),
        pytest.param(EIGHT[3:], CPU, {"excluded": frozenset({(0, 1)})}, [2], id="who needs no GPU, by what is left"),
    ],
)  # fmt: skip
def test_a_node_takes(nodes: list[Node], shape: Shape, changes: dict[str, Any], capacity: list[int]) -> None:
    found = capacity_per_node(FitCache(Ledger.of(nodes), BestFit()), asks(nodes, shape, **changes))
    assert found.tolist() == capacity


def test_a_zone_quota_is_filled_by_the_rows_of_most_capacity_first() -> None:
    fits = FitCache(Ledger.of(ZONED), BestFit())
    ask = asks(ZONED, ONE, zone_workers={"a": 5})
    assert cap_by_zone(fits, ask, capacity_per_node(fits, ask)).tolist() == [1, 4, 3, 3]


@pytest.mark.parametrize(("level", "numbers"), [("node", [0, 1, 2, 3]), ("rack", [0, 0, 2, 1]), ("zone", [0, 0, 1, 1])])
def test_racks_belong_to_one_zone_and_a_node_without_a_rack_is_its_own(level: str, numbers: list[int]) -> None:
    assert domains_of(Inventory.of(ZONED), level).tolist() == numbers
