"""A TrainingJob, decoded."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_job
from cotenant.controller.informers.job_record import format_gpu_request
from tests.controller.builders import job_document


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"workers": 2, "gpu": {"memoryFraction": "0.4"}}, "2 × 0.4"),
        ({"workers": 1, "gpu": {"count": 4}}, "4"),
        ({"workers": 8, "gpu": {"count": 2}}, "8 × 2"),
        ({"workers": 3, "gpu": {"memory": "16Gi"}}, "3 × 16Gi"),
    ],
    ids=str,
)
def test_what_a_job_asks_for_in_short(spec: dict[str, Any], text: str) -> None:
    assert format_gpu_request(parse_job(job_document(**spec)).spec) == text
