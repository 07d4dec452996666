"""GPUs of the nodes as arrays: rows by name, columns by index, and what a change of a node moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.core.gpus.inventory import GpuKind, Inventory
from cotenant.core.model.objects import Node
from tests.support.clusters import make_node


def test_rows_are_nodes_by_name_and_columns_gpus_by_index_padded_to_the_widest() -> None:
    first = make_node("n1", gpus=2, gpu_class="A100", memory_mib=40_960, cpu_milli=8_000, host_mib=1_024, zone="east")
    second = make_node("n2", gpus=3, cpu_milli=9_000, host_mib=2_048, zone="west", rack="r", shared_by_queues=True)
    turned = replace(second, gpus=tuple(reversed(second.gpus)))
    inventory = Inventory.of([turned, first])

    assert [node.name for node in inventory.nodes] == ["n1", "n2"]
    assert inventory.row_of == {"n1": 0, "n2": 1}
    assert inventory.uuids == (("GPU-n1-0", "GPU-n1-1"), ("GPU-n2-0", "GPU-n2-1", "GPU-n2-2"))
    assert inventory.slot_of == {
        (f"n{row + 1}", uuid): (row, column)
        for row, uuids in enumerate(inventory.uuids)
        for column, uuid in enumerate(uuids)
    }
    assert inventory.kinds == (GpuKind("A100", 40_960), GpuKind("H100", 81_920))
    assert inventory.kind.tolist() == [[0, 0, -1], [1, 1, 1]]
    assert inventory.memory_mib.tolist() == [[40_960, 40_960, 0], [81_920, 81_920, 81_920]]
    assert inventory.usable.tolist() == [[True, True, False], [True, True, True]]
    assert inventory.ready.tolist() == [True, True]
    assert inventory.shared.tolist() == [False, True]
    assert (inventory.zones, inventory.zone.tolist()) == (("east", "west"), [0, 1])
    assert inventory.cpu_milli.tolist() == [8_000, 9_000]
    assert inventory.host_mib.tolist() == [1_024, 2_048]


def test_no_nodes_make_arrays_without_rows() -> None:
    inventory = Inventory.of([])

    assert inventory.kind.shape == (0, 0)
    assert (inventory.kinds, inventory.zones, inventory.racks) == ((), (), ())


def test_a_gpu_is_usable_if_it_is_healthy_and_its_node_takes_new_work() -> None:
    sick = make_node("n1")
    sick = replace(sick, gpus=(replace(sick.gpus[0], healthy=False), sick.gpus[1]))
    inventory = Inventory.of([sick, make_node("n2", ready=False)])

    assert inventory.usable.tolist() == [[False, True], [False, False]]
    assert inventory.ready.tolist() == [True, False]


def test_a_rack_lies_in_one_zone_and_a_node_without_the_label_is_a_rack_of_its_own() -> None:
    inventory = Inventory.of(
        [
            make_node("a1", zone="east", rack="r"),
            make_node("a2", zone="east", rack="r"),
            make_node("b1", zone="west", rack="r"),
            make_node("c1", zone="west"),
            make_node("c2", zone="west"),
        ]
    )

    assert [inventory.racks[number] for number in inventory.rack.tolist()] == [
        ("east", "r"),
        ("east", "r"),
        ("west", "r"),
        ("west", "(node c1)"),
        ("west", "(node c2)"),
    ]


@pytest.mark.parametrize(
    ("peers", "groups"),
    [
        pytest.param((), [0, 1, 2, 3], id="without a link every GPU is a group of its own"),
        pytest.param(((0, 2), (1, 3)), [0, 1, 0, 1], id="linked GPUs are one group"),
        pytest.param(((0, 1, 2, 3),), [0, 0, 0, 0], id="all linked are one group"),
        pytest.param(((2, 3),), [0, 1, 2, 2], id="a group has the number of its first GPU"),
    ],
)
def test_gpus_that_reach_each_other_by_nvlink_share_a_group(
    peers: tuple[tuple[int, ...], ...], groups: list[int]
) -> None:
    assert Inventory.of([make_node("n1", gpus=4, peers=peers)]).nvlink_group.tolist() == [groups]


def test_gpus_that_reach_each_other_through_others_share_a_group() -> None:
    """A chain 0 → 1 → 2, each link named on one side only, and a peer of another node, which is none."""
    node = make_node("n1", gpus=4)
    links = {0: "GPU-n1-1", 1: "GPU-n1-2", 3: "GPU-n2-0"}
    chained = replace(
        node,
        gpus=tuple(
            replace(gpu, peers=frozenset({links[gpu.index]}) if gpu.index in links else frozenset())
            for gpu in node.gpus
        ),
    )

    assert Inventory.of([chained]).nvlink_group.tolist() == [[0, 0, 0, 3]]


def sick(node: Node) -> Node:
    return replace(node, gpus=(replace(node.gpus[0], healthy=False), *node.gpus[1:]))


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        pytest.param(make_node("n2"), True, id="only the name"),
        pytest.param(make_node("n2", zone="west", rack="r"), True, id="only the place"),
        pytest.param(make_node("n2", cpu_milli=1, host_mib=1), True, id="only CPU and memory, which the ledger has"),
        pytest.param(make_node("n2", gpus=1), False, id="number of GPUs"),
        pytest.param(make_node("n2", gpu_class="A100"), False, id="class"),
        pytest.param(make_node("n2", memory_mib=40_960), False, id="memory of a GPU"),
        pytest.param(make_node("n2", peers=((0, 1),)), False, id="NVLink"),
        pytest.param(make_node("n2", ready=False), False, id="readiness"),
        pytest.param(make_node("n2", shared_by_queues=True), False, id="sharing"),
        pytest.param(sick(make_node("n2")), False, id="health of a GPU"),
    ],
)
def test_nodes_are_equivalent_if_they_differ_only_in(other: Node, alike: bool) -> None:
    assert Inventory.of([make_node("n1"), other]).equivalence.tolist() == [0, 0 if alike else 1]


def arrays(inventory: Inventory) -> dict[str, object]:
    found = {name: getattr(inventory, name) for name in Inventory.__slots__}
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()}


def suspect(node: Node, *columns: int) -> Node:
    return replace(node, gpus=tuple(replace(gpu, suspect=gpu.index in columns) for gpu in node.gpus))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(make_node("n2", cpu_milli=1_000, host_mib=2_000), id="free CPU and memory"),
        pytest.param(make_node("n2", ready=False), id="readiness"),
        pytest.param(make_node("n2", shared_by_queues=True), id="sharing"),
        pytest.param(sick(make_node("n2")), id="health"),
        pytest.param(suspect(make_node("n2"), 1), id="another suspect"),
        pytest.param(make_node("n2"), id="no suspect any more"),
    ],
)
def test_a_patched_inventory_is_the_inventory_of_the_changed_nodes(changed: Node) -> None:
    before = Inventory.of([suspect(make_node("n1"), 1), suspect(make_node("n2"), 0), make_node("n3")])
    kept = arrays(before)

    patched = before.patched([changed])

    assert arrays(patched) == arrays(Inventory.of([suspect(make_node("n1"), 1), changed, make_node("n3")]))
    assert arrays(before) == kept


A100, H100 = make_node("a", gpus=1, gpu_class="A100"), make_node("h", gpus=1)


def of_both(first: Node, second: Node) -> Node:
    """A node with one GPU of each kind, in this order."""
    gpus = (replace(first.gpus[0], index=0), replace(second.gpus[0], index=1))
    return replace(first, name="both", gpus=gpus)


@pytest.mark.parametrize(
    ("nodes", "mixed"),
    [
        pytest.param([A100, H100], False, id="each node of one class"),
        pytest.param([A100, make_node("wide", gpus=3)], False, id="nodes of different widths"),
        pytest.param([H100, of_both(A100, H100)], True, id="a node of two classes"),
        pytest.param([A100, of_both(H100, A100)], True, id="a node of two classes, in the other order"),
        pytest.param([], False, id="no nodes"),
    ],
)
def test_gpus_are_mixed_if_a_node_has_more_than_one_class(nodes: list[Node], mixed: bool) -> None:
    assert Inventory.of(nodes).mixed is mixed


def test_rows_of_the_same_zones_are_one_array() -> None:
    inventory = Inventory.of([make_node("n1", zone="east"), make_node("n2", zone="west"), make_node("n3", zone="east")])
    east = inventory.rows_serving(("east",))
    assert isinstance(east, np.ndarray)
    assert east.tolist() == [0, 2]
    assert inventory.rows_serving(("east",)) is east
    assert np.arange(3)[inventory.rows_serving(())].tolist() == []
    assert inventory.rows_serving(("east", "west")) == slice(None)
