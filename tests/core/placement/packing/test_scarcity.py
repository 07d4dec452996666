"""Value of a slot: the fewer of them the cluster still has, the higher."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.core.gpus.inventory import Inventory
from cotenant.core.placement.packing.scarcity import slot_value
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from cotenant.core.placement.shapes import Shape
from tests.support.clusters import make_node

T4 = Shape(classes=("T4",))
EIGHT = Shape(count=8)
INVENTORY = Inventory.of([make_node("n1", gpus=8), make_node("n2", gpus=1, gpu_class="T4")])


@pytest.mark.parametrize(
    ("shape", "slots", "free_milli", "value"),
    [
        pytest.param(T4, 100, 100_000, 10_000, id="a slot that is everywhere has the value of trust alone"),
        pytest.param(T4, 99, 149_000, 10_000, id="just plenty"),
        pytest.param(T4, 99, 150_000, 11_000, id="a little less than plenty"),
        pytest.param(T4, 10, 100_000, 778_000, id="ten of a hundred"),
        pytest.param(T4, 0, 100_000, 1_500_000, id="none left: the most that one shape may count"),
        pytest.param(T4, 0, 0, 10_000, id="nothing is free at all"),
        pytest.param(EIGHT, 1, 100_000, 7_856_000, id="a slot of eight GPUs is worth eight times as much"),
    ],
)
def test_a_slot_for_a_tenth_of_the_workload_is_worth(shape: Shape, slots: int, free_milli: int, value: int) -> None:
    mix = WorkloadMix.of([(T4, 10.0), (EIGHT, 10.0)], INVENTORY)
    mix = replace(mix, weight=np.full(len(mix.shapes), 100_000))

    found = slot_value(mix, np.full(len(mix.shapes), slots), free_milli)

    assert int(found[mix.shapes.index(shape)]) == value
