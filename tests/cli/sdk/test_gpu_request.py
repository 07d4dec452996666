"""GPUs as people type them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.to_core import to_gpu_request
from cotenant.api.resources.job_spec.machine import GpuSpec
from cotenant.sdk.gpu_request import gpu_spec


@pytest.mark.parametrize(
    ("asked", "spec"),
    [
        (2, {"count": 2}),
        ("2", {"count": 2}),
        (0.5, {"memoryFraction": "0.5"}),
        ("1/2", {"memoryFraction": "0.5"}),
        ("1/3", {"memoryFraction": "0.333"}),
        ("2/2", {"count": 1}),
        ("16Gi", {"memory": "16Gi"}),
        ("16GiB", {"memory": "16Gi"}),
        ("H100", {"count": 1, "classes": ["H100"]}),
        ("H100:8", {"count": 8, "classes": ["H100"]}),
        ("H100-1g.10gb:1", {"count": 1, "classes": ["H100-1g.10gb"]}),
        ("A100:1/4", {"memoryFraction": "0.25", "classes": ["A100"]}),
        (["H100:2", "A100:2"], {"count": 2, "classes": ["H100", "A100"]}),
    ],
)
def test_an_amount_is_read_as_it_is_meant(asked: Any, spec: dict[str, Any]) -> None:
    assert gpu_spec(asked) == spec
    GpuSpec.model_validate(spec)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (True, "give a number of GPUs"),
        (1.5, "more than one GPU is a whole number"),
        ("3/2", "at most one GPU"),
        ("0/2", "more than nothing"),
        (0, "a share lies between 0 and 1"),
        (0.0001, "the smallest share is 0.001"),
        ("1/2000", "the smallest share is 0.001"),
        (0.4567, "gpu: '0.4567': a share has at most three decimals: write 0.456, or a ratio such as 1/3"),
        ("H100:0.33333", "gpu: 'H100:0.33333': a share has at most three decimals: write 0.333"),
        ("half a GPU", "give a number of GPUs (2), a share"),
        (":2", "CLASS:AMOUNT"),
        ([], "an empty list asks for nothing"),
        (["H100:2", "A100:1"], "the same amount"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(asked: Any, says: str) -> None:
    with pytest.raises(ValueError, match="gpu") as refused:
        gpu_spec(asked)
    assert says in str(refused.value)


@given(st.integers(1, 999))
def test_a_share_never_grows_on_its_way(milli: int) -> None:
    spec = GpuSpec.model_validate(gpu_spec(f"{milli}/1000"))
    assert to_gpu_request(spec).memory_milli == milli
