"""The page of one node: whether it takes work, who holds which part of each GPU, what isolation it can enforce."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cotenant.api.scalars.quantities import show_mib
from cotenant.controller.client.kube import Document
from cotenant.dashboard.reading.rows import GpuNodeRow, JobRow, gpu_node_row
from cotenant.dashboard.views.tenants import Palette
from cotenant.dashboard.views.wall import Brick, wall_view
from cotenant.dashboard.views.wish import Wish


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLine:
    brick: Brick
    memory: str
    """Memory in use by all processes, and the GPU's memory: `41Gi of 80Gi`."""
    sensors: str
    """Temperature and power: `61 °C, 412 W`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    row: GpuNodeRow
    figures: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    """Why it does not take all the work that it could, one sentence each."""
    gpus: tuple[GpuLine, ...]
    paths: tuple[tuple[str, str], ...]
    """(way to give a GPU to a pod, why the node cannot use it; empty if it can)."""


def node_view(
    document: Document | None, jobs: Iterable[JobRow], name: str, palette: Palette, now: float
) -> NodeView | None:
    """The page. Without the GPUNode document, which the caller may not read, it shows what readable jobs hold there."""
    row = gpu_node_row(document).at(now) if document else None
    here = [one for one in jobs if any(share.node == name for share in one.shares)]
    if row is None and not here:
        return None
    status: Mapping[str, Any] = (document or {}).get("status") or {}
    shown = [replace(one, shares=tuple(share for share in one.shares if share.node == name)) for one in here]
    wall = wall_view([row] if row else [], shown, Wish(), palette)
    bricks = [brick for node in wall.nodes.items for brick in node.bricks]
    listed = {str(one.get("uuid")): one for one in status.get("gpus") or ()}
    return NodeView(
        row=row or GpuNodeRow(name=name),
        figures=tuple(_figures(row, status)),
        reasons=tuple(_reasons(row, status)),
        gpus=tuple(_gpu_line(brick, listed.get(brick.uuid) or {}) for brick in bricks),
        paths=tuple(
            (str(one.get("path")), "" if one.get("available") else str(one.get("reason") or "not available"))
            for one in (status.get("capabilities") or {}).get("paths") or ()
        ),
    )


def _figures(row: GpuNodeRow | None, status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if row is None:
        return
    yield "State", row.state or "not known"
    yield "GPUs", str(status.get("summary") or len(row.gpus))
    yield "Isolation", row.isolation or "not known"
    for words, field in (("Driver", "driverVersion"), ("Container toolkit", "toolkitVersion")):
        if status.get(field):
            yield words, str(status[field])


def _reasons(row: GpuNodeRow | None, status: Mapping[str, Any]) -> Iterator[str]:
    if row is None:
        return
    if row.state not in ("", "Ready"):
        yield f"The node is {row.state}: it gets no new jobs."
    ill = sum(not gpu.healthy for gpu in row.gpus)
    if ill:
        yield f"{ill} of {len(row.gpus)} GPUs {'is' if ill == 1 else 'are'} not handed out."
    if row.strangers:
        yield f"Somebody without a grant uses {len(row.strangers)} of its GPUs."
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True":
            yield f"{condition.get('type')}: {condition.get('message') or ''}"


def _gpu_line(brick: Brick, gpu: Mapping[str, Any]) -> GpuLine:
    used = gpu.get("used") or {}
    memory = show_mib(int(gpu.get("memoryMiB") or 0)) if gpu else ""
    if used.get("memoryMiB") is not None:
        memory = f"{show_mib(int(used['memoryMiB']))} of {memory}"
    sensors = ((used.get("temperatureCelsius"), "°C"), (used.get("powerWatts"), "W"))
    return GpuLine(
        brick=brick,
        memory=memory,
        sensors=", ".join(f"{amount} {unit}" for amount, unit in sensors if amount is not None),
    )
