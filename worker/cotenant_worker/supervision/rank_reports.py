"""Reports of a rank, which rank 0's pod keeps on its `ProgressBoard`. They decide nothing. The shim sends them.

Times `…_unix_s` are seconds since 1970.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, TypeAlias

from cotenant_worker.messaging.records import record

REPORTED: Final = "reported: "
"""Prefix of the keys of warnings about values that the program reported."""


@record
class StepReport:
    """Progress of a rank, with the metrics of that step."""

    rank: int
    step: int
    of: int = 0
    """Steps of the whole run; 0 if unknown."""
    metrics: dict[str, float] = field(default_factory=dict)
    counted: bool = False
    """True if the shim counted the step. A step that the program reports takes precedence."""
    at_monotonic_s: float | None = None
    """On the clock of its pod that nobody sets; None if it has not said."""


@record
class ResultsReport:
    """Final values for `status.results`."""

    rank: int
    values: dict[str, float | int | str | bool]


@record
class CheckpointStarted:
    rank: int
    step: int


@record
class CheckpointSaved:
    rank: int
    step: int


@record
class PreflightTimes:
    """The check before step 0: times of one all-reduce, and of the same work alone."""

    rank: int
    all_reduce_ms: float
    all_reduce_bytes: int
    own_ms: float
    device: str = ""
    """`cuda` or `cpu`."""


@record
class CollectiveBackend:
    """Backend of the program's process group: `nccl` or `gloo`."""

    rank: int
    name: str


@record
class VisibleGpus:
    """The GPUs that a rank's process sees."""

    rank: int
    uuids: tuple[str, ...]
    grant: int | None = None
    """The rank in the contract to which they were granted, which differs once a group has shrunk; None means `rank`."""


@record
class MemoryPeak:
    rank: int
    peak_mib: int


@record
class ProgressWarning:
    """A warning in the job's progress, one per `key`. An empty text withdraws it."""

    key: str
    text: str
    rank: int = -1


@record
class ProgramActivity:
    """Use of an interactive program: whether it computes, and when it was last used."""

    rank: int
    busy: bool
    active_at_unix_s: float | None = None
    """None if the program has not said."""


RankReport: TypeAlias = (
    StepReport
    | ResultsReport
    | CheckpointStarted
    | CheckpointSaved
    | PreflightTimes
    | CollectiveBackend
    | VisibleGpus
    | MemoryPeak
    | ProgramActivity
    | ProgressWarning
)
"""Reports that the `ProgressBoard` of rank 0's pod keeps."""
