"""The FOCUS data set: its columns, exact amounts, and what comes to the same as the ledger."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.focus import COLUMNS, Issuer, to_csv
from cotenant.decision_log.showback.prices import Price, PriceList
from cotenant.decision_log.showback.report import priced, total

NOON = 1_795_262_400
ISSUER = Issuer(cluster="gpu-cluster", currency="EUR")
PRICES = PriceList("EUR", (Price(gpu_class="H100", micros=2_500_001),))
CHARGES = [
    UsageCharge(
        namespace="red",
        name='tr,"ain',
        uid="u1",
        queue="research",
        user="ann",
        gpu_class="H100",
        since=NOON,
        until=NOON + 3600,
        used=1_800_001,
        idle=899_999,
        lost_to_preemption=600_000,
        lost_to_faults=300_007,
    ),
    UsageCharge(
        namespace="blue", name="eval", uid="u2", queue="ops", gpu_class="T4", since=NOON, until=NOON, used=1_000
    ),
]
MANDATORY = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart",
    "ContractedCost", "EffectiveCost", "HostProviderName", "InvoiceIssuerName", "ListCost", "PricingQuantity",
    "PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "ServiceProviderName",
}  # fmt: skip
"""Of the Cost and Usage data set of FOCUS 1.3."""


def read() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(priced(CHARGES, 0, NOON * 2, PRICES), ISSUER))))


def test_the_mandatory_columns_are_there_and_ours_begin_with_x() -> None:
    assert set(COLUMNS) >= MANDATORY
    assert all(name[0].isupper() or name.startswith("x_") for name in COLUMNS)
    assert all(row.keys() == set(COLUMNS) for row in read())


def test_rows_come_to_what_the_ledger_has_to_the_micro_unit() -> None:
    rows, whole = read(), total(priced(CHARGES, 0, NOON * 2, PRICES))
    assert [row["x_Part"] for row in rows] == ["Used", "Idle", "LostToPreemption", "LostToFaults", "Used"]
    assert sum(Decimal(row["BilledCost"]) for row in rows) * 1_000_000 == whole.micros == 2_500_005
    assert sum(int(row["x_MilliGPUSeconds"]) for row in rows) == whole.held


def test_a_row_says_who_held_what_and_when() -> None:
    first = read()[0]
    told = {name: first[name] for name in (
        "BilledCost", "ListUnitPrice", "PricingQuantity", "PricingUnit", "ResourceName", "SubAccountId", "Tags",
        "BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd", "ChargeCategory",
    )}  # fmt: skip
    assert told == {
        "BilledCost": "1.250001",
        "ListUnitPrice": "2.500001",
        "PricingQuantity": "0.5",
        "PricingUnit": "GPU-Hours",
        "ResourceName": 'red/tr,"ain',
        "SubAccountId": "red",
        "Tags": '{"queue": "research", "user": "ann"}',
        "BillingPeriodStart": "2026-11-01T00:00:00Z",
        "BillingPeriodEnd": "2026-12-01T00:00:00Z",
        "ChargePeriodStart": "2026-11-21T12:00:00Z",
        "ChargePeriodEnd": "2026-11-21T13:00:00Z",
        "ChargeCategory": "Usage",
    }


def test_a_class_without_a_price_costs_nothing_and_has_no_quantity_that_was_priced() -> None:
    last = read()[-1]
    assert (last["BilledCost"], last["ListUnitPrice"], last["PricingQuantity"], last["SkuPriceId"]) == (
        "0.0",
        "",
        "",
        "",
    )
