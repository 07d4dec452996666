"""Kinds that this operator makes of other objects."""

from __future__ import annotations

from cotenant.controller.composites.bookings.kind import BookingKind
from cotenant.controller.composites.composite import Composite
from cotenant.controller.composites.quota_requests.kind import QuotaRequestKind
from cotenant.controller.composites.sessions.composite import SessionComposite
from cotenant.controller.composites.sweeps.sweep_kind import SweepKind
from cotenant.controller.informers.cache import ObjectCache


def kinds(cache: ObjectCache, *, labelled_only: bool = False) -> tuple[Composite, ...]:
    """One of each. What else a decision depends on is read from the cache; `labelled_only`: the namespaces of tenants
    are those that are labelled so.
    """
    return QuotaRequestKind(cache, labelled_only), BookingKind(cache), SessionComposite(cache), SweepKind()
