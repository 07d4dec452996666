"""The answer of rank 0's pod to `GET /progress`. The launcher writes it, but a tenant's image may have replaced the
launcher.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse
from cotenant.contract.decoding.fields import Fields, is_number, is_whole
from cotenant.contract.decoding.plain_text import is_printable_ascii
from cotenant.contract.decoding.reported_values import finite_numbers

GPUS_PER_RANK_MAX: Final = 64
WARNINGS_MAX: Final = 16
WARNING_CHARS_MAX: Final = 400
LOST_METRICS_MAX: Final = 4
LOST_METRIC_CHARS_MAX: Final = 40
"""They stand in a column of a table."""
WORD_CHARS_MAX: Final = 32
UUID_CHARS_MAX: Final = 80
RATE_MAX: Final = 1e9
MIB_MAX: Final = 1 << 40
MS_MAX: Final = 1e9
RESTARTS_MAX: Final = 100_000
UNIX_S_MAX: Final = 4_102_444_800.0
"""The year 2100."""


def progress_bounds(ranks: int) -> Bounds:
    """What the answer of a job of so many ranks may cost."""
    return Bounds(bytes_max=(64 << 10) + 512 * ranks, depth_max=4, values_max=2000 + 100 * ranks)


@dataclass(frozen=True, slots=True)
class Progress:
    """What rank 0's pod answers at `GET /progress`."""

    state: str
    """`starting`, `staging`, `rendezvous`, `training`, `saving`, `done`."""
    step: int = 0
    of: int = 0
    """Total steps; 0 when the program has not said."""
    rate: float = 0.0
    """Steps per second, over the last reports."""
    metrics: dict[str, float] = field(default_factory=dict)
    lost_metrics: tuple[str, ...] = ()
    """Metrics that are no finite number on some rank, as texts: `loss is NaN`."""
    last_checkpoint_step: int | None = None
    last_checkpoint_at: float | None = None
    """Unix seconds."""
    collective: str = ""
    """What was chosen: `nccl` or `gloo`."""
    warnings: tuple[str, ...] = ()
    observed_gpus: dict[str, list[str]] = field(default_factory=dict)
    """rank of the placement (as text) → the UUIDs that this rank's process really sees."""
    memory_peak_mib: dict[str, int] = field(default_factory=dict)
    slow_ranks: dict[str, tuple[float, float]] = field(default_factory=dict)
    """rank of the placement (as text) → milliseconds of its own work in the check before step 0, and of the usual
    rank: far slower."""
    checked_on: str = ""
    """What that check used: `cuda` or `cpu`."""
    restarts: int = 0
    """Times that the ranks of this attempt were started again in their pods."""
    staged_bytes: int = 0
    """Of the job's data that its pods have, all together."""
    staging_bytes: int = 0
    """Of all of that data, as far as it is known; 0: the job has none."""
    staging_s: float = 0.0
    """Seconds that this has taken so far; with the last byte it stands still."""
    busy: bool | None = None
    """Of an interactive program: it computes now; None where no program has said."""
    active_at: float | None = None
    """Unix seconds at which that was last used, as it tells."""
    updated_at: float = 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the last step at the present rate; None while the end or the rate is not known."""
        return max(0, self.of - self.step) / self.rate if self.of > 0 and self.rate > 0 else None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, data: str | bytes, ranks: int = 1) -> Self | Malformed:
        """Progress of a job of so many ranks. A field that does not fit is left out, and a warning names it."""
        raw = parse(data, progress_bounds(ranks))
        if not isinstance(raw, dict):
            return raw if isinstance(raw, Malformed) else Malformed("is not an object")
        fields = Fields(raw, "progress")
        metrics, notes = finite_numbers(dict(fields.entries("metrics")), "progress.metrics")
        found: dict[str, Any] = {
            "state": fields.word("state", "", WORD_CHARS_MAX),
            "step": fields.whole("step", 0),
            "of": fields.whole("of", 0),
            "rate": fields.number("rate", RATE_MAX),
            "metrics": metrics,
            "last_checkpoint_step": fields.whole_or_none("last_checkpoint_step"),
            "last_checkpoint_at": fields.number_or_none("last_checkpoint_at", UNIX_S_MAX),
            "collective": fields.word("collective", "", WORD_CHARS_MAX),
            "observed_gpus": dict(_by_rank(fields, "observed_gpus", _is_gpus, "a list of UUIDs")),
            "memory_peak_mib": dict(_by_rank(fields, "memory_peak_mib", _is_mib, "a whole number of MiB")),
            "slow_ranks": {
                rank: (float(own), float(usual))
                for rank, (own, usual) in _by_rank(fields, "slow_ranks", _is_times, "two times in milliseconds")
            },
            "checked_on": fields.word("checked_on", "", WORD_CHARS_MAX),
            "restarts": fields.whole("restarts", 0, RESTARTS_MAX),
            "staged_bytes": fields.whole("staged_bytes", 0),
            "staging_bytes": fields.whole("staging_bytes", 0),
            "staging_s": fields.number("staging_s", MS_MAX),
            "busy": fields.flag_or_none("busy"),
            "active_at": fields.number_or_none("active_at", UNIX_S_MAX),
            "updated_at": fields.number("updated_at", UNIX_S_MAX),
        }
        found["lost_metrics"] = fields.texts("lost_metrics", LOST_METRICS_MAX, LOST_METRIC_CHARS_MAX)
        warnings = fields.texts("warnings", WARNINGS_MAX, WARNING_CHARS_MAX)
        fields.remarks(notes)
        return cls(**found, warnings=(*warnings, *fields.notes))


def _by_rank(fields: Fields, name: str, fits: Any, wanted: str) -> Iterator[tuple[str, Any]]:
    """Entries whose key is the number of a rank, and whose value fits."""
    for rank, value in fields.entries(name):
        if not (rank.isascii() and rank.isdecimal() and len(rank) <= 5):
            fields.note(name, rank, "the number of a rank")
        elif not fits(value):
            fields.note(f"{name}.{rank}", value, wanted)
        else:
            yield rank, value


def _is_gpus(value: Any) -> bool:
    few = isinstance(value, list) and len(value) <= GPUS_PER_RANK_MAX
    return few and all(isinstance(each, str) and is_printable_ascii(each, UUID_CHARS_MAX) for each in value)


def _is_mib(value: Any) -> bool:
    return is_whole(value, 0, MIB_MAX)


def _is_times(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(is_number(each, 0, MS_MAX) for each in value)
