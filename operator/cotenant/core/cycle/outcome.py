"""Decisions of a cycle about running jobs; together with the entries of waiting jobs they make the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cotenant.core.cycle.entry import Entry
from cotenant.core.model.objects import JobKey, Placement
from cotenant.core.model.plan import Admit, Evict, Plan, Resize


@dataclass(frozen=True, slots=True, eq=False)
class Departures:
    """Evictions, and shrinking of elastic jobs, that make space for one job."""

    evictions: tuple[Evict, ...]
    resizes: tuple[Resize, ...] = ()
    shrunk: Mapping[JobKey, frozenset[int]] = field(default_factory=dict)
    """Elastic job → ranks that leave."""


@dataclass(slots=True, eq=False)
class CycleOutcome:
    evictions: dict[JobKey, Evict] = field(default_factory=dict)
    resizes: dict[JobKey, Resize] = field(default_factory=dict)
    shrunk: dict[JobKey, frozenset[int]] = field(default_factory=dict)
    """Elastic job → ranks that leave."""
    moves: dict[JobKey, Placement] = field(default_factory=dict)
    """Running job that leaves → the place that is held for it."""

    @property
    def departures(self) -> int:
        """Jobs that leave, whole or in part."""
        return len(self.evictions) + len(self.shrunk)

    def touches(self, key: JobKey) -> bool:
        """The running job is evicted or resized by this cycle."""
        return key in self.evictions or key in self.resizes

    def add(self, departures: Departures) -> None:
        """A later resize of a job replaces an earlier one; an eviction cancels its resize."""
        self.shrunk.update(departures.shrunk)
        self.resizes.update((resize.job, resize) for resize in departures.resizes)
        for eviction in departures.evictions:
            self.evictions[eviction.job] = eviction
            self.resizes.pop(eviction.job, None)

    def plan(self, entries: Iterable[Entry]) -> Plan:
        """Evictions, resizes and admissions, a verdict for every entry that is not admitted; all in order of key."""
        ordered = sorted(entries, key=lambda entry: entry.job.key)
        nominations = self.moves | {
            entry.job.key: place for entry in ordered if (place := entry.nominated_to) is not None
        }
        admissions = (
            Admit(job=entry.job.key, placement=place, backfilled_until=entry.backfilled_until)
            for entry in ordered
            if (place := entry.admitted_to) is not None
        )
        return Plan(
            actions=(
                *(self.evictions[key] for key in sorted(self.evictions)),
                *(self.resizes[key] for key in sorted(self.resizes)),
                *admissions,
            ),
            verdicts={
                entry.job.key: entry.reason.verdict(entry.job.key)
                for entry in ordered
                if entry.admitted_to is None and entry.reason is not None
            },
            nominations={key: nominations[key] for key in sorted(nominations)},
        )
