"""The price list: what it says of a class at a time, and what it refuses at the door."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.decision_log.showback.prices import NO_PRICES, PriceError, parse_prices, price_list_of

H100 = {"gpuClass": "H100", "perGPUHour": "2.50"}


def prices(*entries: Any) -> dict[str, Any]:
    return {"currency": "EUR", "classes": list(entries)}


def test_a_price_holds_from_its_beginning_until_just_before_its_end() -> None:
    until = {**H100, "until": "1970-01-01T00:01:40Z"}
    found = parse_prices(prices(until, {"gpuClass": "H100", "perGPUHour": 3, "from": "1970-01-01T00:03:20Z"}))
    assert [found.at("H100", at) for at in (0, 99, 100, 199, 200)] == [2_500_000, 2_500_000, None, None, 3_000_000]
    assert list(found.parts(50, 300)) == [(50, 100), (100, 200), (200, 300)]


def test_a_class_without_a_price_of_its_own_costs_what_every_other_does() -> None:
    found = parse_prices(prices(H100, {"gpuClass": "*", "perGPUHour": "0.000001"}))
    assert (found.at("H100", 0), found.at("T4", 0), found.at("", 0), found.highest(0)) == (2_500_000, 1, 1, 2_500_000)


def test_no_prices_are_a_list_that_prices_nothing() -> None:
    assert (price_list_of(""), price_list_of("{}"), bool(NO_PRICES)) == (NO_PRICES, NO_PRICES, False)
    assert (NO_PRICES.at("H100", 0), list(NO_PRICES.parts(1, 2))) == (None, [(1, 2)])


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"currency": "eur", "classes": [H100]}, "prices.currency must be three capital letters of ISO 4217"),
        ({"currency": "EUR"}, "prices.classes must be a list of 1 to 1000 prices"),
        ({"curency": "EUR"}, "prices.curency is no field; there are classes, currency"),
        (prices({"gpuClass": "H100"}), "prices.classes[0].perGPUHour must be an amount of money in quotes"),
        (prices({**H100, "perGPUHour": 2.5}), "prices.classes[0].perGPUHour must be"),
        (prices({**H100, "perGPUHour": True}), "prices.classes[0].perGPUHour must be"),
        (prices({**H100, "perGPUHour": "-1"}), "prices.classes[0].perGPUHour must be"),
        (prices({**H100, "perGPUHour": "0.0000001"}), "prices.classes[0].perGPUHour must be"),
        (prices({"perGPUHour": "1"}), "prices.classes[0].gpuClass must be the name of a class, or *"),
        (prices({**H100, "from": "2026-01-01"}), "prices.classes[0].from must be a moment with its zone"),
        (prices({**H100, "from": 5}), "prices.classes[0].from must be a moment with its zone"),
        (prices({**H100, "from": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}),
         "prices.classes[0].until must be after prices.classes[0].from"),
        (prices({**H100, "price": "1"}), "prices.classes[0].price is no field"),
        (prices(H100, H100), "prices.classes[1] holds at the same time as prices.classes[0], for H100"),
        (prices("H100"), "prices.classes[0] must be an object"),
    ],
)  # fmt: skip
def test_an_error_names_the_field_and_what_it_takes(document: dict[str, Any], says: str) -> None:
    with pytest.raises(PriceError) as refused:
        parse_prices(document)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(("text", "says"), [("{", "prices: not JSON"), ("[]", "prices must be an object")])
def test_a_text_that_is_no_object_is_refused(text: str, says: str) -> None:
    with pytest.raises(PriceError, match=says):
        price_list_of(text)


def test_prices_that_follow_each_other_are_taken() -> None:
    edge = "2026-01-01T00:00:00Z"
    assert len(parse_prices(prices({**H100, "until": edge}, {**H100, "from": edge})).prices) == 2
