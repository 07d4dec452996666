"""Figures of makers by the names that classes have in a cluster."""

from __future__ import annotations

import pytest

from cotenant.decision_log.sizing.gpu_figures import FIGURES, figures_of


@pytest.mark.parametrize(
    ("gpu_class", "known"),
    [
        ("H100", "H100"),
        ("h100", "H100"),
        ("A100-80GB", "A100"),
        ("A100-SXM4-80GB", "A100"),
        ("H100-SXM", "H100"),
        ("H100-PCIe", None),
        ("H100-1g.10gb", None),
        ("MI300X", None),
        ("", None),
    ],
)
def test_a_class_has_the_figures_of_its_product_and_a_part_of_a_gpu_has_none(gpu_class: str, known: str | None) -> None:
    assert figures_of(gpu_class) == (FIGURES[known] if known else None)


def test_every_class_has_a_source_and_figures_that_are_possible() -> None:
    for name, one in FIGURES.items():
        assert "datasheet" in one.source, name
        assert 16 <= one.memory_gb <= 300, name
        assert 100 <= one.bandwidth <= 10_000, name
        assert 50 <= one.tflops <= 3_000, name
