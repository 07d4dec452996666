"""Values of nodes as they are: worked out once, and again for nodes that were written."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.core.gpus.inventory import FloatArray, IntArray
from cotenant.core.gpus.ledger import Ledger, NodeAllocation
from cotenant.core.placement.packing.node_values import NodeValues
from cotenant.core.placement.packing.value_tables import ValueTables
from cotenant.core.placement.packing.workload_mix import WorkloadMix
from tests.support.clusters import make_node

NODES = [make_node(f"n{number}", gpus=3, memory_mib=1000 + number // 2) for number in range(4)]


class Worth:
    """A value that tells the state of the node; notes of how many nodes it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, held: FloatArray, cpu: IntArray, host: IntArray) -> FloatArray:
        self.asked.append(len(held))
        return held[:, 0] + cpu + host


def values_of(ledger: Ledger) -> tuple[NodeValues, Worth]:
    worth = Worth()
    mib = np.array([kind.memory_mib for kind in ledger.inventory.kinds])
    tables = ValueTables(WorkloadMix.of([], ledger.inventory), ledger.inventory, np.array([0.0, 100.0]))
    return NodeValues(ledger, mib, tables, worth), worth


def content(values: NodeValues) -> list[list[object]]:
    arrays = (values.memory, values.compute, values.first, values.cpu, values.held, values.value, values.little)
    return [array.tolist() for array in arrays]


def put(ledger: Ledger, row: int, column: int, milli: int) -> None:
    ledger.allocate(
        NodeAllocation(
            row=row, columns=(column,), memory_mib=(milli,), compute_milli=(milli,), cpu_milli=10, host_mib=5, tenant=1
        )
    )


def test_a_nodes_value_is_computed_when_asked_for_and_again_only_after_a_write() -> None:
    ledger = Ledger.of(NODES)
    values, worth = values_of(ledger)
    values.refresh(np.array([1, 2]))
    values.refresh(np.array([0, 1, 2]))
    put(ledger, 2, 0, 400)
    put(ledger, 3, 0, 400)
    values.refresh(np.array([0, 1, 2]))

    assert worth.asked == [2, 1, 1]
    assert values.compute.tolist() == [[1000] * 3, [1000] * 3, [600, 1000, 1000], [0] * 3]


def test_gpus_in_the_same_state_share_the_first_ones_score() -> None:
    ledger = Ledger.of(NODES)
    put(ledger, 0, 0, 400)
    put(ledger, 0, 1, 400)
    values, _ = values_of(ledger)
    values.refresh(np.array([0, 1]))

    assert values.first[:2].tolist() == [[0, 0, 2], [0, 0, 0]]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=3), st.sets(st.integers(0, 3)))
    )
)
def test_values_after_writes_equal_those_of_the_present_ledger(
    steps: list[tuple[list[tuple[int, int]], set[int]]],
) -> None:
    ledger = Ledger.of(NODES)
    values, _ = values_of(ledger)
    for written, asked in steps:
        for row, column in written:
            put(ledger, row, column, 50)
        values.refresh(np.array(sorted(asked), dtype=np.int64))
    fresh, _ = values_of(ledger)
    for one in (values, fresh):
        one.refresh(np.arange(len(NODES)))

    assert content(values) == content(fresh)
