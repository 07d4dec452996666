"""Queues with what is booked for them, followed as bookings, queues and nodes change and time passes."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.core.model.objects import Node, TenantQueue
from cotenant.core.quota.bookings import BookingStanding, BookingTerms, capacity_of, with_bookings


class BookedQueues:
    """All bookings, and the queues with the quotas that bookings add. Without bookings it does no work."""

    def __init__(self) -> None:
        self._bookings: dict[str, BookingTerms] = {}
        self.queues: Mapping[str, TenantQueue] = {}
        """By name, as of the last update."""
        self.standings: tuple[BookingStanding, ...] = ()
        """Of bookings that were not over then."""

    def put(self, booking: BookingTerms) -> bool:
        """Take a booking in; true when it differs from what was known of it."""
        before = self._bookings.get(booking.name)
        self._bookings[booking.name] = booking
        return booking != before

    def drop(self, name: str) -> bool:
        return self._bookings.pop(name, None) is not None

    def update(self, queues: Mapping[str, TenantQueue], nodes: Mapping[str, Node], now: float) -> bool:
        """True if bookings give queues something else than at the last update."""
        if not self._bookings and not self.standings:
            self.queues = queues
            return False
        added = {name: queue for name, queue in self.queues.items() if queue != queues.get(name)}
        self.queues, self.standings = with_bookings(
            queues, self._bookings.values(), capacity_of(nodes.values()), now
        )  # fmt: skip
        return added != {name: queue for name, queue in self.queues.items() if queue != queues.get(name)}
