"""Amounts of memory as cluster files write them."""

import pytest

from cotenant_local.cluster import quantities


@pytest.mark.parametrize(
    ("text", "amount"), [("1", 1), ("2k", 2000), ("512Mi", 2**29), ("80Gi", 80 * 2**30), ("1T", 10**12)]
)
def test_amounts_are_whole_bytes(text: str, amount: int) -> None:
    assert quantities.to_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "-1", "1.5Gi", "1 Gi", "Gi", "1Gib"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory"):
        quantities.to_bytes(text)
