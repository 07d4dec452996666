"""A condition keeps the time of its last change for as long as its status stays."""

import pytest

from cotenant.api.conversion.conditions import find, renewed
from cotenant.api.resources.trainingjob_status import Condition
from cotenant.api.scalars.fields import moment

KNOWN = Condition(type="Ready", status="True", reason="Ready", last_transition_time=moment(60))


@pytest.mark.parametrize(
    ("kind", "status", "since"),
    [
        pytest.param("Ready", "True", 60, id="the same status: it has not changed since"),
        pytest.param("Ready", "False", 90, id="another status: it changed now"),
        pytest.param("Finished", "True", 90, id="of another kind: it is new"),
    ],
)
def test_a_condition_changes_when_its_status_does(kind: str, status: str, since: int) -> None:
    made = renewed([KNOWN], kind, status, "Other", "in other words", at=90.0, generation=3)
    assert made.last_transition_time == moment(since)
    assert (made.type, made.status, made.reason, made.observed_generation) == (kind, status, "Other", 3)


def test_a_condition_is_found_by_its_kind() -> None:
    assert find([KNOWN], "Ready") is KNOWN
    assert find([KNOWN], "Finished") is None
