"""The GPU wall: a brick for each GPU, with a part for each tenant, as wide as its share of the memory.

The parts come from the placements of jobs that the caller may read, and from what nodes report of their pods
(`GPUNode.status.holders`) if the caller may read that. Without GPUNodes the wall shows the GPUs of the caller's own
jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cotenant.api.scalars.quantities import show_mib
from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import WHOLE
from cotenant.dashboard.reading.rows import GpuHold, GpuNodeRow, JobRow, WallGpu
from cotenant.dashboard.views.tenants import Palette
from cotenant.dashboard.views.wish import Paged, Wish, paged

NODES: Final = 48
"""Nodes per page: with eight GPUs each, some four hundred bricks."""
WIDE: Final = 100
"""Width of a brick in its drawing."""
UNREPORTED: Final = "GPUs of jobs that you may read"
PARTS_MAX: Final = 24
"""At most this many parts of one brick are drawn. A GPU has at most some tens of shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrickPart:
    namespace: str
    job: str
    x: float
    width: float
    colour: str
    says: str
    """The part in words: `team-a/train: 40Gi and 0.5 of its compute`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brick:
    uuid: str
    name: str
    """Index and class: `0 · H100`."""
    state: str
    """fine, slow, ill, drained or stranger."""
    health: str
    parts: tuple[BrickPart, ...]
    busy: int | None
    """Utilisation in percent."""
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WallNode:
    name: str
    state: str
    isolation: str
    is_simulated: bool
    is_known: bool
    """True if a GPUNode with this name exists."""
    bricks: tuple[Brick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSum:
    gpu_class: str
    gpus: int
    idle: int
    """Healthy GPUs of which no job holds a part."""
    ill: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WallView:
    classes: tuple[ClassSum, ...]
    nodes: Paged[WallNode]
    tenants: tuple[tuple[str, str, int], ...]
    """(namespace, colour, number of GPUs that it is on), over all nodes. The largest come first."""
    show: str


def wall_view(
    nodes: Iterable[GpuNodeRow], jobs: Iterable[JobRow], wish: Wish, palette: Palette, *, most: int = NODES
) -> WallView:
    """The page. `most`: nodes per page."""
    show = wish.show if wish.show in ("ill", "idle") else ""
    holds = _holds(nodes := sorted(nodes, key=lambda node: node.name), jobs)
    known = {gpu.uuid for node in nodes for gpu in node.gpus}
    nodes = [*nodes, *_unreported(holds, known)]
    tenants = Counter(namespace for held in holds.values() for namespace in {one.namespace for one in held})
    for namespace in sorted(tenants):
        palette.colour(namespace)  # by name, not by who comes first on the page
    shown = [node for node in nodes if _is_wanted(node, holds, wish.text, show)]
    page = paged(shown, wish.page, most)
    return WallView(
        classes=_sums(nodes, holds),
        nodes=page.showing([_wall_node(node, holds, palette) for node in page.items]),
        tenants=tuple((name, palette.colour(name), number) for name, number in tenants.most_common(24)),
        show=show,
    )


def _holds(nodes: Sequence[GpuNodeRow], jobs: Iterable[JobRow]) -> Mapping[str, list[GpuHold]]:
    """GPU → the jobs that hold parts of it. Each job counts once: by its placement, otherwise by the node's report."""
    found: dict[str, dict[tuple[str, str], GpuHold]] = defaultdict(dict)
    for node in nodes:
        for hold in node.holds:
            found[hold.uuid][hold.namespace, hold.job] = hold
    for job in jobs:
        placed: dict[str, GpuHold] = {}
        for one in job.shares:
            before = placed.get(one.uuid)
            memory, milli = (before.memory_mib, before.milli) if before else (0, 0)
            placed[one.uuid] = GpuHold(uuid=one.uuid, namespace=job.namespace, job=job.name,
                                       memory_mib=memory + one.memory_mib, milli=milli + one.milli)  # fmt: skip
        for uuid, hold in placed.items():
            found[uuid][job.namespace, job.name] = hold
    return {uuid: [held[key] for key in sorted(held)] for uuid, held in found.items()}


def _unreported(holds: Mapping[str, list[GpuHold]], known: set[str]) -> Iterator[GpuNodeRow]:
    """GPUs of jobs that are on no listed node, as one group. A tenant without the right to read nodes sees only
    these.
    """
    gpus = [
        WallGpu(uuid=uuid, index=number, gpu_class="", memory_mib=0, healthy=True, health="", is_drained=False,
                parent="", utilization=None)
        for number, uuid in enumerate(sorted(holds.keys() - known))
    ]  # fmt: skip
    if gpus:
        yield GpuNodeRow(name=UNREPORTED, gpus=tuple(gpus))


def _is_wanted(node: GpuNodeRow, holds: Mapping[str, list[GpuHold]], text: str, show: str) -> bool:
    if show == "ill" and all(_state(node, gpu) == "fine" for gpu in node.gpus) and node.state in ("Ready", ""):
        return False
    if show == "idle" and not any(gpu.healthy and gpu.uuid not in holds for gpu in node.gpus):
        return False
    if not text or text in node.name.lower():
        return True
    held = (one for gpu in node.gpus for one in holds.get(gpu.uuid, ()))
    named = any(text in gpu.gpu_class.lower() or text in gpu.uuid.lower() for gpu in node.gpus)
    return named or any(text in f"{one.namespace}/{one.job}".lower() for one in held)


def _wall_node(node: GpuNodeRow, holds: Mapping[str, list[GpuHold]], palette: Palette) -> WallNode:
    bricks = tuple(_brick(node, gpu, holds.get(gpu.uuid, []), palette) for gpu in node.gpus)
    return WallNode(name=node.name, state=node.state, isolation=node.isolation, is_simulated=node.is_simulated,
                    is_known=node.name != UNREPORTED, bricks=bricks)  # fmt: skip


def _brick(node: GpuNodeRow, gpu: WallGpu, held: Sequence[GpuHold], palette: Palette) -> Brick:
    parts: list[BrickPart] = []
    x = 0.0
    for hold in held[:PARTS_MAX]:
        part = hold.memory_mib / gpu.memory_mib if gpu.memory_mib and hold.memory_mib else hold.milli / WHOLE or 1.0
        width = min(part * WIDE, WIDE - x)
        says = f"{hold.namespace}/{hold.job}: {_amount(hold, gpu)}"
        parts.append(BrickPart(namespace=hold.namespace, job=hold.job, x=round(x, 2), width=round(width, 2),
                               colour=palette.colour(hold.namespace), says=says))  # fmt: skip
        x += width
    state = _state(node, gpu)
    name = f"{gpu.index} · {gpu.gpu_class}" if gpu.gpu_class else gpu.uuid[:12]
    words = [f"GPU {name}", *(part.says for part in parts), *([] if parts else ["idle"]), gpu.health]
    return Brick(uuid=gpu.uuid, name=name, state=state, health=gpu.health or state, parts=tuple(parts),
                 busy=gpu.utilization, says="; ".join(filter(None, words)))  # fmt: skip


def _amount(hold: GpuHold, gpu: WallGpu) -> str:
    if hold.milli >= WHOLE and (not gpu.memory_mib or hold.memory_mib >= gpu.memory_mib):
        return "the whole GPU"
    compute = f", {format_gpus(hold.milli)} of its compute" if hold.milli else ""
    return f"{show_mib(hold.memory_mib)} of its memory{compute}"


def _state(node: GpuNodeRow, gpu: WallGpu) -> str:
    if gpu.uuid in node.strangers:
        return "stranger"
    if gpu.is_drained:
        return "drained"
    if not gpu.healthy:
        return "ill"
    return "slow" if gpu.health else "fine"


def _sums(nodes: Sequence[GpuNodeRow], holds: Mapping[str, list[GpuHold]]) -> tuple[ClassSum, ...]:
    gpus, idle, ill = Counter[str](), Counter[str](), Counter[str]()
    for node in nodes:
        for gpu in node.gpus:
            gpus[gpu.gpu_class] += 1
            ill[gpu.gpu_class] += not gpu.healthy
            idle[gpu.gpu_class] += gpu.healthy and gpu.uuid not in holds
    return tuple(
        ClassSum(gpu_class=name, gpus=number, idle=idle[name], ill=ill[name]) for name, number in sorted(gpus.items())
    )
