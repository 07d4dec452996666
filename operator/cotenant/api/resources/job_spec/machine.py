"""The machine of a worker: its GPUs, or its share of one, and how close together or far apart the workers run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cotenant.api.scalars.amounts import DeviceMemory, Fraction
from cotenant.api.scalars.fields import NOT_FILLED_IN, Bool, Int, LabelValue, whole
from cotenant.api.validation.rules import Model, Rule
from cotenant.core.model.objects import Sharing, TopologyMode

MAX_RANKS = 2048
"""Ranks of one job. Its placement names each rank with its GPUs, a fifth of a KiB if each has its own node, and has to
fit into an object of etcd (1.5 MiB) beside the largest spec and its metadata.
"""
MAX_GPUS_PER_RANK = 64
MAX_GPUS_PER_WORKER = MAX_GPUS_PER_RANK


class GpuSpec(Model):
    """GPUs of one worker: whole ones by `count`, or shares of `count` GPUs by `memory` or `memoryFraction`."""

    count: Annotated[Int, Field(ge=1)] | None = None
    """GPUs per worker, all different and on one node: whole ones, or, with `memory` or `memoryFraction`, a share of
    each. Default: with a share, one.
    """
    memory: DeviceMemory | None = None
    """A share of each GPU, by memory."""
    memory_fraction: Fraction | None = None
    """A share of each GPU, as a part of its memory."""
    compute_fraction: Fraction | None = None
    """Compute of the share, of each GPU. Default: in proportion to its memory."""
    auto_size: Annotated[Bool, NOT_FILLED_IN] = False
    """True: once the job's peak is measured, its next attempt, and later jobs of the same name apart from a number at
    its end, take the peak and a quarter more, and never more than `memory`. The suggestion is in `status.suggestion`.
    """
    classes: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = ()
    """GPU classes that are acceptable, best first. All workers get GPUs of one of them. Default: any."""
    zones: Annotated[tuple[LabelValue, ...], Field(max_length=16)] = ()
    """Zones that are acceptable. Default: any."""
    sharing: Sharing = Sharing.QUEUE
    """Who else may have a share of the same GPUs: nobody, jobs of the same queue, or, on nodes where the administrator
    allows it, jobs of any queue that say Any as well."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "has(self.memory) != has(self.memoryFraction) || has(self.count) && !has(self.memory)",
            "gpu takes count, or one of memory and memoryFraction, or one of these with count; for whole GPUs write"
            ' `spec.gpu: {count: 1}`, for a share `spec.gpu: {memoryFraction: "0.5"}` or `spec.gpu: {memory: "16Gi"}`,'
            ' for shares of two GPUs `spec.gpu: {count: 2, memoryFraction: "0.5"}`',
            lambda it: (
                (it.memory is None) != (it.memory_fraction is None) or (it.count is not None and it.memory is None)
            ),
        ),
        Rule(
            "count",
            f"self <= {MAX_GPUS_PER_WORKER}",
            f"count is per worker, and a worker is on one node: at most {MAX_GPUS_PER_WORKER}; for more add workers",
            lambda it: it.count is None or it.count <= MAX_GPUS_PER_WORKER,
            about_field=True,
        ),
        Rule(
            "computeFraction",
            "!has(self.computeFraction) || !has(self.count) || has(self.memory) || has(self.memoryFraction)",
            "computeFraction belongs to a share by memory or memoryFraction; a whole GPU has all of its compute: leave"
            " it out, or write memoryFraction beside it",
            lambda it: it.compute_fraction is None or it.count is None or it.is_share,
        ),
        Rule(
            "autoSize",
            "!(has(self.autoSize) && self.autoSize) || has(self.memory) && has(self.computeFraction)",
            "autoSize makes `memory` smaller and nothing else, so it takes both: write for example `spec.gpu: {memory:"
            ' "16Gi", computeFraction: "0.2", autoSize: true}`',
            lambda it: not it.auto_size or (it.memory is not None and it.compute_fraction is not None),
        ),
        Rule(
            "classes",
            "self.all(a, self.exists_one(b, a == b))",
            "a class appears twice; leave one of the two out",
            lambda it: len(set(it.classes)) == len(it.classes),
            about_field=True,
        ),
        Rule(
            "zones",
            "self.all(a, self.exists_one(b, a == b))",
            "a zone appears twice; leave one of the two out",
            lambda it: len(set(it.zones)) == len(it.zones),
            about_field=True,
        ),
    )

    @property
    def is_share(self) -> bool:
        """True for less than whole GPUs."""
        return self.memory is not None or self.memory_fraction is not None


class TopologySpec(Model):
    """Keep all workers inside one node, rack or zone."""

    level: Literal["node", "rack", "zone"]
    """Where all workers stay together."""
    mode: TopologyMode = TopologyMode.PREFERRED
    """Required: wait rather than spread."""


class SpreadSpec(Model):
    """Place workers on different nodes, racks or zones, as evenly as there is room."""

    level: Literal["node", "rack", "zone"]
    """What to spread over. If `topology` is given too, a level below it: for instance inside one zone, on different
    nodes.
    """
    mode: TopologyMode = TopologyMode.PREFERRED
    """Required: wait rather than have more than `maxWorkers` workers in one of them."""
    max_workers: Annotated[int, *whole(1, MAX_RANKS)] | None = None
    """The most workers in one of them, if the mode is Required. Default: 1."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "maxWorkers",
            "!has(self.maxWorkers) || self.?mode.orValue('Preferred') == 'Required'",
            "maxWorkers bounds a spread that is Required, and this one is Preferred: it is as even as there is room;"
            " make its mode Required, or leave it out",
            lambda it: it.max_workers is None or it.mode is TopologyMode.REQUIRED,
        ),
    )


LEVELS = ("node", "rack", "zone")
"""Lowest first."""

SPREAD_BELOW_TOPOLOGY = Rule(
    "spread",
    "!has(self.spread) || !has(self.topology) || self.topology.level == 'zone' && self.spread.level != 'zone'"
    " || self.topology.level == 'rack' && self.spread.level == 'node'",
    "workers cannot be spread over what topology keeps them inside one of; spread.level is below topology.level: node"
    " inside a rack, node or rack inside a zone",
    lambda it: (
        it.spread is None or it.topology is None or LEVELS.index(it.spread.level) < LEVELS.index(it.topology.level)
    ),
)
"""Rule for every spec with both fields."""
