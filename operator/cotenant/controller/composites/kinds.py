"""The composite kinds of this operator."""

from __future__ import annotations

from cotenant.controller.composites.bookings.booking_kind import BookingKind
from cotenant.controller.composites.composite import Composite
from cotenant.controller.composites.quota_requests.quota_request_kind import QuotaRequestKind
from cotenant.controller.composites.sessions.session_kind import SessionKind
from cotenant.controller.composites.sweeps.sweep_kind import SweepKind
from cotenant.controller.informers.cache import ObjectCache


def kinds(cache: ObjectCache, *, labelled_only: bool = False) -> tuple[Composite, ...]:
    """One object of each kind. They read what else they need from the cache. With `labelled_only`, only labelled
    namespaces are tenants.
    """
    return QuotaRequestKind(cache, labelled_only), BookingKind(cache), SessionKind(cache), SweepKind()
