"""Profiles of MIG instances."""

import pytest

from cotenant_agent.gpus.mig import profile_of


@pytest.mark.parametrize(
    ("product", "memory_mib", "slices", "profile"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9856, 1, "1g.10gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", 9856, 1, "1g.10gb.me"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 19968, 3, "1c.3g.20gb"),
        ("NVIDIA H100 80GB HBM3", 10240, 2, "2g.10gb"),
        ("", 5120, None, "1g.5gb"),
    ],
)
def test_a_profile_is_a_part_of_a_class_name(product: str, memory_mib: int, slices: int | None, profile: str) -> None:
    assert profile_of(product, memory_mib, slices) == profile
