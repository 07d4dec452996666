"""The status of one Booking, from its document, what the last decision kept for it, and the time. Pure.

Pending → Active → Ended. A Booking is Overbooked if less was granted than is booked, or if granted GPUs are missing:
jobs hold them that will not end in time, or that nobody may evict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cotenant.api.conversion import conditions
from cotenant.api.conversion.booking_terms import terms_of
from cotenant.api.resources.bookings import Booking, BookingStatus
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.controller.composites.composite import Writes
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.core.model.formatting import format_gpus, format_instant
from cotenant.core.model.objects import WHOLE
from cotenant.core.model.plan import BookedGpus
from cotenant.core.quota.bookings import BookingStanding

LOOK_S: Final = 5.0
"""The plan may change without an event, so the status is computed again after this time."""
MOST_NODES: Final = 64
_EVENTS: Final = {
    "Pending": "BookingPending",
    "Active": "BookingActive",
    "Ended": "BookingEnded",
    "Overbooked": "BookingOverbooked",
}
"""Phase → reason of the Event when a Booking enters it."""


@dataclass(frozen=True, slots=True)
class LastDecision:
    """What the last decision did for one Booking."""

    standing: BookingStanding
    gpus: BookedGpus


def next_step(booking: Booking, last: LastDecision | None, now: float) -> Writes:
    """`last` was decided with these very terms; None if no decision has used them yet."""
    terms, before = terms_of(booking), booking.status
    phase = "Ended" if now >= terms.ends_at else "Active" if now >= terms.starts_at else "Pending"
    since, until = format_instant(terms.starts_at), format_instant(terms.ends_at)
    span = {
        "Pending": f"from {since} until {until}",
        "Active": f"until {until}",
        "Ended": f"until {until}, which is over",
    }[phase]
    message = f"{terms.what} for queue {terms.queue} {span}"
    problem, kept, used, nodes, granted = "", 0, 0, tuple[str, ...](), 0
    if last is not None and phase != "Ended":
        granted, kept, used = last.standing.gpus, len(last.gpus.kept), last.gpus.used
        nodes = tuple(dict.fromkeys(node for node, _ in last.gpus.kept))[:MOST_NODES]
        problem = last.standing.why or _missing(granted * WHOLE - kept * WHOLE - used, is_active=phase == "Active")
        message += f": {format_gpus(used)} in use by it, {kept} kept for it"
    if problem:
        message += f". But {problem}"
    known = last is not None or phase == "Ended"
    status = BookingStatus(
        phase="Overbooked" if problem else phase,
        message=message,
        booked=terms.what,
        granted=granted,
        kept=kept,
        used=format_gpus(used),
        nodes=nodes,
        conditions=(_condition(booking, problem, known=known, now=now),),
        observed_generation=booking.metadata.generation,
    )
    event = EventToRecord(reason=_EVENTS[status.phase], message=message, warning=bool(problem))
    return Writes(
        status=status.to_document(),
        events=(event,) if status.phase != before.phase else (),
        look_again_at=None if phase == "Ended" else now + LOOK_S,
    )


def _missing(milli: int, *, is_active: bool) -> str:
    """Text about granted GPUs that are neither kept free nor used; `milli` is how many."""
    gpus = -(-milli // WHOLE)
    if gpus <= 0:
        return ""
    what = "1 GPU of it is" if gpus == 1 else f"{gpus} GPUs of it are"
    if is_active:
        return f"{what} held by jobs that nobody may evict for it: they are free when these end"
    return f"{what} held by jobs that may run beyond its start: with a maxRuntime that ends before they would not"


def _condition(booking: Booking, problem: str, *, known: bool, now: float) -> Condition:
    value = "Unknown" if not known else "False" if problem else "True"
    reason = {"Unknown": "NotDecided", "False": "Overbooked", "True": "Kept"}[value]
    message = problem or ("no decision has used it yet" if not known else "all that is booked is there")
    before, generation = booking.status.conditions, booking.metadata.generation
    return conditions.renewed(before, "Fulfilled", value, reason, message, at=now, generation=generation)
