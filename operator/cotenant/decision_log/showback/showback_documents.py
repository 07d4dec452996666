"""Priced charges as statuses of `Showback` documents and back, without loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from cotenant.decision_log.codec import camel
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.report import PricedCharge

_IN_METADATA: Final = ("namespace", "name", "uid")
_IN_STATUS: Final = {camel(one.name): one.name for one in fields(UsageCharge) if one.name not in _IN_METADATA}
"""Field of a status → field of a charge."""


def showback_status(one: PricedCharge) -> dict[str, Any]:
    """Amounts in milli-GPU × seconds and micro-units, times in Unix seconds."""
    status = {name: getattr(one.charge, field) for name, field in _IN_STATUS.items()}
    return status | {"held": one.charge.held, "month": one.month, "pricePerGPUHour": one.price, "cost": one.micros}


def priced_charge(document: Mapping[str, Any]) -> PricedCharge:
    """The charge from which a document was made."""
    metadata, status = document["metadata"], document["status"]
    whose = {name: metadata[name] for name in _IN_METADATA}
    charge = UsageCharge(**whose, **{field: status[name] for name, field in _IN_STATUS.items()})
    return PricedCharge(charge=charge, month=status["month"], price=status["pricePerGPUHour"])
