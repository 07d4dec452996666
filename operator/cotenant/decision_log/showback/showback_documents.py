"""Priced charges as statuses of `Showback` documents and back, without loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.report import PricedCharge


def showback_status(one: PricedCharge) -> dict[str, Any]:
    """Amounts in milli-GPU × seconds and micro-units, times in Unix seconds."""
    charge = one.charge
    return {
        "queue": charge.queue,
        "user": charge.user,
        "gpuClass": charge.gpu_class,
        "since": charge.since,
        "until": charge.until,
        "month": one.month,
        "held": charge.held,
        "used": charge.used,
        "idle": charge.idle,
        "lostToPreemption": charge.lost_to_preemption,
        "lostToFaults": charge.lost_to_faults,
        "pricePerGPUHour": one.price,
        "cost": one.micros,
    }


def priced_charge(document: Mapping[str, Any]) -> PricedCharge:
    """The charge from which a document was made."""
    metadata, status = document["metadata"], document["status"]
    charge = UsageCharge(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        queue=status["queue"],
        user=status["user"],
        gpu_class=status["gpuClass"],
        since=status["since"],
        until=status["until"],
        used=status["used"],
        idle=status["idle"],
        lost_to_preemption=status["lostToPreemption"],
        lost_to_faults=status["lostToFaults"],
    )
    return PricedCharge(charge=charge, month=status["month"], price=status["pricePerGPUHour"])
