"""Charges of a time, cut where months and prices change, added up and priced: reckoned by hand."""

from __future__ import annotations

from datetime import UTC, datetime

from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.prices import NO_PRICES, Price, PriceList
from cotenant.decision_log.showback.report import added_up, priced, total
from cotenant.decision_log.showback.showback_documents import priced_charge, showback_status


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NEW_YEAR = moment("2027-01-01T00:00")
HOUR = 3_600_000
PRICES = PriceList(
    "EUR",
    (
        Price(gpu_class="H100", micros=2_000_000, until=NEW_YEAR + 3600),
        Price(gpu_class="H100", micros=3_000_000, since=NEW_YEAR + 3600),
    ),
)
OVER_NEW_YEAR = UsageCharge(
    namespace="red", name="train", uid="u", queue="research", user="ann", gpu_class="H100",
    since=NEW_YEAR - 3600, until=NEW_YEAR + 7200, used=2 * HOUR, lost_to_faults=HOUR,
)  # fmt: skip
UNPRICED = UsageCharge(namespace="blue", name="eval", uid="v", queue="research", gpu_class="T4", since=NEW_YEAR,
                  until=NEW_YEAR + 60, idle=60_000)  # fmt: skip


def test_a_charge_is_priced_in_each_month_and_at_each_price() -> None:
    found = list(priced([OVER_NEW_YEAR], NEW_YEAR - 86_400, NEW_YEAR + 86_400, PRICES))
    assert [(one.month, one.charge.held, one.price, one.micros) for one in found] == [
        (moment("2026-12-01T00:00"), HOUR, 2_000_000, 2_000_000),
        (NEW_YEAR, HOUR, 2_000_000, 2_000_000),
        (NEW_YEAR, HOUR, 3_000_000, 3_000_000),
    ]


def test_only_what_lies_in_the_time_is_charged() -> None:
    (one,) = priced([OVER_NEW_YEAR, UNPRICED], NEW_YEAR + 3600, NEW_YEAR + 86_400, PRICES)
    assert (one.charge.since, one.charge.until, one.charge.used) == (NEW_YEAR + 3600, NEW_YEAR + 7200, 2 * HOUR // 3)


def test_lines_come_to_their_total_whoever_they_are_added_up_by() -> None:
    parts = list(priced([OVER_NEW_YEAR, UNPRICED], 0, NEW_YEAR + 86_400, PRICES))
    whole = total(parts)
    assert (whole.held, whole.micros, whole.unpriced, whole.idle) == (3 * HOUR + 60_000, 7_000_000, 60_000, 60_000)
    named = {by: [(line.name, line.held, line.micros) for line in added_up(parts, by)]
             for by in ("job", "user", "queue", "namespace", "class")}  # fmt: skip
    assert named == {
        "job": [("red/train", 3 * HOUR, 7_000_000), ("blue/eval", 60_000, 0)],
        "user": [("ann", 3 * HOUR, 7_000_000), ("(unknown)", 60_000, 0)],
        "queue": [("research", 3 * HOUR + 60_000, 7_000_000)],
        "namespace": [("red", 3 * HOUR, 7_000_000), ("blue", 60_000, 0)],
        "class": [("H100", 3 * HOUR, 7_000_000), ("T4", 60_000, 0)],
    }


def test_an_attempt_that_lasted_less_than_a_second_is_charged() -> None:
    point = UsageCharge(namespace="red", name="t", uid="u", queue="q", since=NEW_YEAR, until=NEW_YEAR, used=5)
    assert [one.charge.held for one in priced([point], NEW_YEAR, NEW_YEAR + 1, NO_PRICES)] == [5]
    assert list(priced([point], NEW_YEAR + 1, NEW_YEAR + 2, NO_PRICES)) == []


def test_nothing_is_lost_on_the_way_to_a_document_and_back() -> None:
    for one in priced([OVER_NEW_YEAR, UNPRICED], 0, NEW_YEAR + 86_400, PRICES):
        metadata = {"namespace": one.charge.namespace, "name": one.charge.name, "uid": one.charge.uid}
        assert priced_charge({"metadata": metadata, "status": showback_status(one)}) == one
