"""What a pod requests of a GPU: names that Kubernetes takes, amounts that refuse nothing that fits."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion import device_shares
from cotenant.api.conversion.device_shares import WHOLE

NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""Of an extended resource behind the slash, as Kubernetes checks qualified names."""


@given(st.text(min_size=1, max_size=64))
def test_every_uuid_is_a_resource_of_its_own_that_kubernetes_takes(uuid: str) -> None:
    names = {device_shares.share_resource(uuid, dimension) for dimension in ("memory", "compute")}
    assert len(names) == 2
    for name in names:
        group, _, rest = name.partition("/")
        assert group == "gpu.cotenant.dev"
        assert NAME.fullmatch(rest)


def test_uuids_of_the_greatest_length_are_told_apart() -> None:
    long = ["GPU-" + "a" * 59 + end for end in "bc"]
    assert len({device_shares.share_resource(uuid, "compute") for uuid in long}) == 2


@st.composite
def placements(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A GPU's MiB, and what pods hold of it: together no more than there is, none less than a thousandth."""
    total = draw(st.integers(WHOLE, 300_000))
    held, left = [], total
    while left > total // WHOLE and draw(st.booleans()):
        held.append(draw(st.integers(-(-total // WHOLE), left)))
        left -= held[-1]
    return total, held


@given(placements())
def test_what_fits_into_a_gpu_fits_into_its_shares(of: tuple[int, list[int]]) -> None:
    total, held = of
    assert sum(device_shares.memory_shares(mib, total) for mib in held) <= WHOLE


@given(placements(), st.integers(1, 300_000))
def test_what_does_not_fit_is_refused_but_for_less_than_a_share_of_each_pod(
    of: tuple[int, list[int]], more: int
) -> None:
    total, held = of
    pods = [*held, more]
    if sum(pods) >= total + len(pods) * -(-total // WHOLE):
        assert sum(device_shares.memory_shares(mib, total) for mib in pods) > WHOLE


@pytest.mark.parametrize(
    ("mib", "total", "shares"),
    [(81_920, 81_920, 1000), (90_000, 81_920, 1098), (40_960, 81_920, 500), (27_306, 81_920, 333), (1, 81_920, 1)],
)
def test_memory_in_thousandths(mib: int, total: int, shares: int) -> None:
    assert device_shares.memory_shares(mib, total) == shares


@pytest.mark.parametrize(("milli", "shares"), [(1000, 1000), (400, 400), (0, 1), (2000, 2000)])
def test_compute_in_thousandths(milli: int, shares: int) -> None:
    assert device_shares.compute_shares(milli) == shares
