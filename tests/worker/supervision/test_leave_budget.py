"""How much of the grace period belongs to the ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_worker.supervision.leave_budget import leave_budget_s
from tests.support.pod_sandbox import contract


@pytest.mark.parametrize(
    ("grace_s", "budget_s"),
    [
        pytest.param(120, 115.0, id="five seconds are the launcher's"),
        pytest.param(20, 15.0, id="from here down a quarter is"),
        pytest.param(8, 6.0, id="a quarter"),
        pytest.param(1, 1.0, id="never less than a second"),
        pytest.param(0, 1.0, id="not even of none"),
    ],
)
def test_the_launcher_keeps_what_it_needs_of_the_grace_period(grace_s: int, budget_s: float) -> None:
    assert leave_budget_s(replace(contract([1], command=("x",)), grace_s=grace_s)) == budget_s
