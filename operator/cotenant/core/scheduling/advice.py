"""Advice for jobs that wait: with each verdict, the smallest change that would start the job at once.

Last in a cycle, when all that it gives out is given out. Equal jobs behind the same kept places share one search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from cotenant.core.actions.backfill import Reservation
from cotenant.core.allocation.request import RequestKey, request_key
from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.explain.smallest_change import ChangeSearch, KeptFor
from cotenant.core.explain.spec_change import SpecChange
from cotenant.core.model.objects import GpuRequest, Job
from cotenant.core.model.plan import Refusal
from cotenant.core.queueing.line import Line
from cotenant.core.queueing.order import order_in_queue
from cotenant.core.quota.bookings import BookingTerms

_NODES = 1_000_000
"""Nodes that all trials of one cycle look at together."""

_Kind: TypeAlias = tuple[RequestKey, int, int | None, int | None, Refusal, int]
"""What advice depends on: the request, width and run times, the reason, and how many places are kept ahead."""


def advise(
    cycle: Cycle,
    requests: RequestResolver,
    lines: Mapping[str, Line],
    waiting: Sequence[Entry],
    reservations: Sequence[Reservation],
    *,
    booked: Sequence[KeptFor] = (),
) -> None:
    """Add to every reason to wait the change that helps, as far as `Policy.advice` goes. `lines`: of queues that have
    bounds; `waiting`: entries that had a turn and wait, in the order of their turns; `reservations`: those that were
    made for them; `booked`: what is kept for bookings."""
    search = ChangeSearch(
        cycle.accounts.current,
        requests.resolve,
        lambda changed: changed.queue not in lines or lines[changed.queue].takes(changed),
        moment=cycle.moment,
        trials=min(cycle.policy.advice, _NODES // max(1, len(cycle.inventory.nodes))),
    )
    known: dict[_Kind, SpecChange | None] = {}
    for entry, ahead in behind_kept_places(cycle, waiting, reservations, booked):
        job, reason = entry.job, entry.reason
        if entry.outcome is EntryOutcome.NOMINATED or reason is None or job.queue not in cycle.tree.index:
            continue
        kind = (
            request_key(job), job.workers_max, job.expected_runtime_s, job.max_runtime_s, reason, len(ahead),
        )  # fmt: skip
        if kind not in known:
            known[kind] = search.smallest_change(job, reason, ahead)
        if (change := known[kind]) is not None:
            entry.reason = replace(reason, would_start_if=change.words, change=change.fields)
            entry.advised_end = change.ends_by
    search.close()


def kept_for_bookings(booked: BookedPlaces) -> list[KeptFor]:
    """What was kept for bookings, as if for a job of the queue that starts with the booking."""
    return [
        KeptFor(_stand_in(place.booking), place.booking.starts_at, place.allocation, is_collected=True)
        for place in booked.places
        if place.allocation.nodes
    ]


def _stand_in(booking: BookingTerms) -> Job:
    return Job(
        key=booking.name,
        uid="",
        namespace="",
        queue=booking.queue,
        workers_min=1,
        workers_max=1,
        gpu=GpuRequest(classes=(booking.gpu_class,)),
        submitted_at=booking.since,
    )


def behind_kept_places(
    cycle: Cycle, waiting: Sequence[Entry], reservations: Sequence[Reservation], booked: Sequence[KeptFor] = ()
) -> Iterator[tuple[Entry, Sequence[KeptFor]]]:
    """Waiting entries, each with the places that had been kept when its turn came; then those that can never start as
    written, which take no turn, with all that may come before them."""
    kept = {reservation.job: reservation for reservation in reservations}
    ahead: tuple[KeptFor, ...] = tuple(booked)
    for entry in waiting:
        yield entry, ahead
        if (reservation := kept.get(entry.job.key)) is not None:
            ahead = (
                *ahead,
                KeptFor(entry.job, reservation.starts_at, reservation.allocation, reservation.is_collected),
            )
    for entry in cycle.entries:
        if entry.outcome is EntryOutcome.INADMISSIBLE:
            yield entry, [kept for kept in ahead if kept.is_collected or not _comes_before(entry.job, kept.job)]


def _comes_before(job: Job, other: Job) -> bool:
    """Surely: both are of one queue. Of two queues it depends on more."""
    return job.queue == other.queue and order_in_queue(job) < order_in_queue(other)
