"""Charges as a FOCUS Cost and Usage data set, version 1.3.

FinOps Open Cost and Usage Specification, ratified in December 2025, https://focus.finops.org/focus-specification/v1-3.
There is one row for each part of a charge: a job, a class, a month, a price, and whether it was used, idle or lost (the
last column but two). The columns are those that 1.3 calls mandatory, the conditional ones that apply, and our own,
which begin with x_. There are no discounts, so billed, effective, contracted and list cost are equal. A class without a
price costs 0, and its price columns are empty. Numbers are exact decimals: micro-units of the currency, millionths of a
GPU-hour rounded down.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cotenant.core.model.formatting import format_instant
from cotenant.core.model.objects import Period
from cotenant.decision_log.showback.charges import PARTS
from cotenant.decision_log.showback.periods import end_of
from cotenant.decision_log.showback.prices import HOUR
from cotenant.decision_log.showback.report import PricedCharge

VERSION: Final = "1.3"
_NULL: Final = ""
_PART_NAMES: Final = {
    "used": "Used", "idle": "Idle", "lost_to_preemption": "LostToPreemption", "lost_to_faults": "LostToFaults",
}  # fmt: skip
COLUMNS: Final = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd",
    "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost",
    "HostProviderName", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity",
    "PricingUnit", "ProviderName", "PublisherName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory",
    "ServiceName", "ServiceProviderName", "ServiceSubcategory", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags", "x_MilliGPUSeconds", "x_Part", "x_Queue", "x_User",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    cluster: str
    """Who bills: the administrators' name of the cluster."""
    currency: str


def rows(parts: Iterable[PricedCharge], issuer: Issuer) -> Iterator[dict[str, str]]:
    """Rows by column, in the order of the charges."""
    for one in parts:
        amounts = [(name, getattr(one.charge, name)) for name in PARTS]
        so_far = 0
        for name, amount in amounts:
            if amount:
                # The costs of the parts add up to that of the charge: each is the difference of two rounded sums.
                cost = ((so_far + amount) * (one.price or 0) // HOUR) - (so_far * (one.price or 0) // HOUR)
                yield _row(one, name, amount, cost, issuer)
            so_far += amount


def to_csv(parts: Iterable[PricedCharge], issuer: Issuer) -> str:
    """The data set as CSV (RFC 4180) with a header. A null is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows(parts, issuer))
    return text.getvalue()


def _row(one: PricedCharge, part: str, amount: int, cost: int, issuer: Issuer) -> dict[str, str]:
    charge, money, hours = one.charge, _decimal(cost), _decimal(amount * 1_000_000 // HOUR)
    price = _NULL if one.price is None else _decimal(one.price)
    gpu = charge.gpu_class or "GPU"
    priced = one.price is not None
    words = _PART_NAMES[part]
    return {
        "BilledCost": money,
        "BillingAccountId": issuer.cluster,
        "BillingAccountName": issuer.cluster,
        "BillingAccountType": "Cluster",
        "BillingCurrency": issuer.currency,
        "BillingPeriodEnd": format_instant(end_of(Period.MONTH, one.month)),
        "BillingPeriodStart": format_instant(one.month),
        "ChargeCategory": "Usage",
        "ChargeClass": _NULL,
        "ChargeDescription": f"{gpu} held by TrainingJob {charge.namespace}/{charge.name}: {words}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": format_instant(max(charge.until, charge.since + 1)),
        "ChargePeriodStart": format_instant(charge.since),
        "ConsumedQuantity": hours if priced else _NULL,
        "ConsumedUnit": "GPU-Hours" if priced else _NULL,
        "ContractedCost": money,
        "ContractedUnitPrice": price,
        "EffectiveCost": money,
        "HostProviderName": issuer.cluster,
        "InvoiceIssuerName": issuer.cluster,
        "ListCost": money,
        "ListUnitPrice": price,
        "PricingCategory": "Standard" if priced else _NULL,
        "PricingQuantity": hours if priced else _NULL,
        "PricingUnit": "GPU-Hours" if priced else _NULL,
        "ProviderName": issuer.cluster,
        "PublisherName": issuer.cluster,
        "ResourceId": charge.uid,
        "ResourceName": f"{charge.namespace}/{charge.name}",
        "ResourceType": "TrainingJob",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": "Cotenant",
        "ServiceProviderName": issuer.cluster,
        "ServiceSubcategory": "AI Platforms",
        "SkuId": gpu if priced else _NULL,
        "SkuPriceId": f"{gpu}@{price}" if priced else _NULL,
        "SubAccountId": charge.namespace,
        "SubAccountName": charge.namespace,
        "SubAccountType": "Namespace",
        "Tags": json.dumps({"queue": charge.queue, "user": charge.user}, ensure_ascii=False),
        "x_MilliGPUSeconds": str(amount),
        "x_Part": words,
        "x_Queue": charge.queue,
        "x_User": charge.user,
    }


def _decimal(micros: int) -> str:
    """Micro-units as a decimal, always with a point."""
    whole, rest = divmod(micros, 1_000_000)
    return f"{whole}.{rest:06d}".rstrip("0").ljust(len(f"{whole}.0"), "0")
