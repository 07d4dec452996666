"""GPUs, CPU, memory and scratch space of nodes as arrays: the fixed half of the ledger, built once per set of nodes.

Row = node, in order of name; column = GPU slot, in order of index. Nodes with fewer GPUs than the widest are padded
with kind -1. Never written after it is built, except for a memo of the rows that serve a kind of request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.core.model.objects import Gpu, Node

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = IntArray | slice
"""Rows of the inventory; a slice reads them without a copy."""
_SERVING = 256
"""Sets of rows that are cached."""
_Label = TypeVar("_Label", str, tuple[str, str])


@dataclass(frozen=True, slots=True, order=True)
class GpuKind:
    """GPUs that are the same to a request: of one class, with equal memory, handed out in the same way."""

    gpu_class: str
    memory_mib: int
    whole_only: bool = False
    resource: str = ""
    """Kind of device (see `Gpu.resource`). A program for one kind does not run on another."""

    @classmethod
    def of(cls, gpu: Gpu) -> GpuKind:
        return cls(gpu.gpu_class, gpu.memory_mib, gpu.whole_only, gpu.resource)


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    nodes: tuple[Node, ...]
    row_of: Mapping[str, int]
    """Node name → row."""
    slot_of: Mapping[tuple[str, str], tuple[int, int]]
    """(node name, GPU UUID) → (row, column): two nodes may list one UUID, and each counts what is held there."""
    uuids: tuple[tuple[str, ...], ...]
    """Row → UUIDs by column."""
    kinds: tuple[GpuKind, ...]
    kind: IntArray
    """[N, G] index into `kinds`; -1 where there is no GPU."""
    memory_mib: IntArray
    """[N, G] MiB that each GPU has; 0 where there is none."""
    usable: BoolArray
    """[N, G] the GPU is healthy and its node takes new work."""
    suspects: frozenset[tuple[int, int]]
    """(row, column) of GPUs that are handed out last."""
    ready: BoolArray
    """[N] the node takes new work."""
    shared: BoolArray
    """[N] the administrator lets queues share GPUs here."""
    zones: tuple[str, ...]
    zone: IntArray
    """[N] index into `zones`."""
    racks: tuple[tuple[str, str], ...]
    """(zone, rack): two zones may use the same rack name, and a node without the label is a rack of its own."""
    rack: IntArray
    nvlink_group: IntArray
    """[N, G] NVLink group on the node; GPUs that reach each other share it."""
    linked: bool
    """Some GPUs reach each other by NVLink."""
    equivalence: IntArray
    """[N] equal numbers for nodes that differ in nothing but their name and place."""
    cpu_milli: IntArray
    host_mib: IntArray
    pods: IntArray
    """[N] pods that the node takes."""
    scratch_mib: IntArray
    mixed: bool
    """Some node has GPUs of several kinds."""
    _serving: dict[tuple[object, ...], Rows] = field(default_factory=dict, repr=False)
    """Filled on demand; the same for the same frame."""

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Inventory:
        ordered = tuple(sorted(nodes, key=lambda node: node.name))
        height, width = len(ordered), max((len(node.gpus) for node in ordered), default=0)
        kinds = tuple(sorted({GpuKind.of(gpu) for node in ordered for gpu in node.gpus}))
        kind_of = {kind: number for number, kind in enumerate(kinds)}
        zones, zone = _numbered([node.zone for node in ordered])
        racks, rack = _numbered([(node.zone, node.rack or f"(node {node.name})") for node in ordered])
        kind = np.full((height, width), -1, dtype=np.int64)
        memory = np.zeros((height, width), dtype=np.int64)
        usable = np.zeros((height, width), dtype=np.bool_)
        peers = np.zeros((height, width), dtype=np.int64)
        slot_of: dict[tuple[str, str], tuple[int, int]] = {}
        for row, node in enumerate(ordered):
            for column, gpu in enumerate(_by_index(node)):
                kind[row, column] = kind_of[GpuKind.of(gpu)]
                memory[row, column] = gpu.memory_mib
                usable[row, column] = gpu.healthy and node.ready
                slot_of[node.name, gpu.uuid] = (row, column)
            peers[row, : len(node.gpus)] = _nvlink_groups(_by_index(node))
        shared = np.array([node.shared_by_queues for node in ordered], dtype=np.bool_)
        ready = np.array([node.ready for node in ordered], dtype=np.bool_)
        return cls(
            nodes=ordered,
            row_of={node.name: row for row, node in enumerate(ordered)},
            slot_of=slot_of,
            uuids=tuple(tuple(gpu.uuid for gpu in _by_index(node)) for node in ordered),
            kinds=kinds,
            kind=kind,
            memory_mib=memory,
            usable=usable,
            suspects=frozenset(place for row, node in enumerate(ordered) for place in _suspects(row, node)),
            ready=ready,
            shared=shared,
            zones=zones,
            zone=zone,
            racks=racks,
            rack=rack,
            nvlink_group=peers,
            linked=any(
                len(set(groups[: len(node.gpus)])) < len(node.gpus)
                for groups, node in zip(peers.tolist(), ordered, strict=True)
            ),
            equivalence=_equivalence(np.hstack([kind, usable, peers, ready[:, None], shared[:, None]])),
            cpu_milli=np.array([node.cpu_milli for node in ordered], dtype=np.int64),
            host_mib=np.array([node.memory_mib for node in ordered], dtype=np.int64),
            pods=np.array([node.pods for node in ordered], dtype=np.int64),
            scratch_mib=np.array([node.scratch_mib for node in ordered], dtype=np.int64),
            mixed=not ((kind == kind[:, :1]) | (kind < 0)).all(),
        )

    def rows_serving(self, zones: tuple[str, ...], classes: tuple[str, ...] = (), only_class: str = "") -> Rows:
        """Rows in one of these zones, with a GPU of one of the classes, if there are any, and of the only class, if it
        is given. Read-only: equal questions share one array."""
        key = (zones, classes, only_class)
        found = self._serving.get(key)
        if found is None:
            serves = np.isin(self.zone, [number for number, zone in enumerate(self.zones) if zone in zones])
            if classes or only_class:
                kinds = [
                    number
                    for number, kind in enumerate(self.kinds)
                    if (not classes or kind.gpu_class in classes) and only_class in ("", kind.gpu_class)
                ]
                serves &= np.isin(self.kind, kinds).any(axis=1)
            if len(self._serving) >= _SERVING:
                self._serving.clear()
            found = self._serving[key] = slice(None) if serves.all() else np.flatnonzero(serves)
        return found

    @property
    def resources(self) -> tuple[str, ...]:
        """Kinds of devices that are here, GPUs of CUDA first."""
        return tuple(sorted({kind.resource for kind in self.kinds}))

    @property
    def default_resource(self) -> str | None:
        """Kind of device for requests that name no class: CUDA GPUs if there are any, else the only kind of the
        cluster. None if there are several kinds, and none is CUDA.
        """
        resources = self.resources
        return resources[0] if "" in resources or len(resources) == 1 else None

    def has_frame_of(self, other: Inventory) -> bool:
        """True if one was `patched` from the other: same nodes, zones and GPU kinds; amounts, health, readiness and
        sharing may differ. May be False for two that are equal.
        """
        return self.kind is other.kind and self.zone is other.zone and self.row_of is other.row_of

    def patched(self, nodes: Iterable[Node]) -> Inventory:
        """The same GPUs with other free amounts, health, readiness or sharing."""
        ordered, usable = list(self.nodes), self.usable.copy()
        ready, shared = self.ready.copy(), self.shared.copy()
        cpu, host, pods, scratch = (
            array.copy() for array in (self.cpu_milli, self.host_mib, self.pods, self.scratch_mib)
        )
        suspects = set(self.suspects)
        for node in nodes:
            row = self.row_of[node.name]
            suspects.difference_update(_suspects(row, ordered[row]))
            suspects.update(_suspects(row, node))
            ordered[row] = node
            for column, gpu in enumerate(_by_index(node)):
                usable[row, column] = gpu.healthy and node.ready
            ready[row], shared[row] = node.ready, node.shared_by_queues
            cpu[row], host[row], pods[row], scratch[row] = node.cpu_milli, node.memory_mib, node.pods, node.scratch_mib
        return replace(
            self,
            nodes=tuple(ordered),
            usable=usable,
            suspects=frozenset(suspects),
            ready=ready,
            shared=shared,
            equivalence=self.equivalence
            if _are_equal((usable, self.usable), (ready, self.ready), (shared, self.shared))
            else _equivalence(np.hstack([self.kind, usable, self.nvlink_group, ready[:, None], shared[:, None]])),
            cpu_milli=cpu,
            host_mib=host,
            pods=pods,
            scratch_mib=scratch,
        )


def _by_index(node: Node) -> list[Gpu]:
    return sorted(node.gpus, key=lambda gpu: (gpu.index, gpu.uuid))


def _suspects(row: int, node: Node) -> list[tuple[int, int]]:
    return [(row, column) for column, gpu in enumerate(_by_index(node)) if gpu.suspect]


def _equivalence(fixed: IntArray) -> IntArray:
    """A number per row, equal for equal rows, in order of first appearance."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in fixed], dtype=np.int64)


def _are_equal(*pairs: tuple[BoolArray, BoolArray]) -> bool:
    return all(np.array_equal(one, other) for one, other in pairs)


def _nvlink_groups(gpus: Sequence[Gpu]) -> list[int]:
    """A number per GPU, equal for those that are connected by NVLink, directly or through others."""
    group = list(range(len(gpus)))
    place = {gpu.uuid: index for index, gpu in enumerate(gpus)}
    for index, gpu in enumerate(gpus):
        for peer in gpu.peers:
            if peer in place and group[place[peer]] != group[index]:
                old, new = sorted((group[index], group[place[peer]]), reverse=True)
                group = [new if number == old else number for number in group]
    return group


def _numbered(values: Sequence[_Label]) -> tuple[tuple[_Label, ...], IntArray]:
    labels = tuple(sorted(set(values)))
    number = {label: index for index, label in enumerate(labels)}
    return labels, np.array([number[value] for value in values], dtype=np.int64)
