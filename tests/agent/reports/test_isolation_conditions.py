"""A level that falls is a condition with the level from which it fell and why, until as much is held again."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_agent.gpus.capabilities import NOT_ATTRIBUTING, Capabilities
from cotenant_agent.reports import isolation_conditions, node_status
from cotenant_agent.reports.node_view import NodeObserver
from tests.agent.reports.observed import NOW, PODS, busy, make_observer
from tests.agent.reports.test_published_limits import DISAGREES, GOOD, NONE, able_node, status_after

AT = "2023-11-14T22:13:20Z"
LATER = "2023-11-14T22:14:20Z"


def conditions(
    before: list[dict[str, Any]], earlier: str, observer: NodeObserver, now: float = NOW
) -> list[dict[str, Any]]:
    view = observer.observe(busy(), PODS, now)
    levels = {"memory": earlier, "compute": "None"}
    return isolation_conditions.reconciled(before, levels, view, node_status.build(view))


def lowered(was: str, now: str, why: str, since: str = AT) -> dict[str, Any]:
    return {
        "type": "MemoryIsolationLowered",
        "status": "True",
        "reason": f"Was{was}",
        "message": f"{was} before, now {now}: {why}",
        "lastTransitionTime": since,
    }


def held(level: str, since: str) -> dict[str, Any]:
    return {"type": "MemoryIsolationLowered", "status": "False", "reason": "AsBefore", "message": level,
            "lastTransitionTime": since}  # fmt: skip


def disagreeing() -> NodeObserver:
    observer = able_node()
    status_after(observer, GOOD, NONE, NONE)
    return observer


def no_longer_able() -> NodeObserver:
    observer = able_node()
    observer.inventory = replace(observer.inventory, driver_version="595.10")
    return observer


def without_runtime() -> NodeObserver:
    observer = make_observer()
    observer.capabilities = Capabilities()
    return observer


@pytest.mark.parametrize(
    ("observer", "now", "why"),
    [
        pytest.param(disagreeing(), "Watched", DISAGREES.removeprefix("ReadBack: "), id="a read-back that disagrees"),
        pytest.param(no_longer_able(), "Watched", "the driver is 595.10, it must be 615 or later", id="another driver"),
        pytest.param(able_node(), "Watched", "no limit has been read back since", id="a reboot"),
        pytest.param(
            make_observer(attributing=False), "Cooperative",
            NOT_ATTRIBUTING, id="no /proc",
        ),
        pytest.param(
            without_runtime(), "None", "there is no RuntimeClass for NVIDIA's container runtime", id="no runtime"
        ),
        pytest.param(make_observer(simulated=True), "None", "the GPUs are simulated", id="simulated"),
    ],
)  # fmt: skip
def test_a_fall_is_named_with_its_reason(observer: NodeObserver, now: str, why: str) -> None:
    assert conditions([], "Hard", observer) == [lowered("Hard", now, why)]


def test_a_level_that_never_fell_has_no_condition() -> None:
    assert conditions([], "Watched", make_observer()) == []
    assert conditions([], "None", make_observer()) == []


def test_the_condition_lasts_from_the_fall_until_as_much_is_held_again() -> None:
    """It may fall further or rise in part meanwhile: the level from which it fell first counts."""
    fallen = conditions([], "Watched", make_observer(attributing=False))
    assert fallen == [lowered("Watched", "Cooperative", NOT_ATTRIBUTING)]
    further = conditions(fallen, "Cooperative", without_runtime(), NOW + 60)
    why = "there is no RuntimeClass for NVIDIA's container runtime"
    assert further == [lowered("Watched", "None", why)]
    in_part = conditions(further, "None", make_observer(attributing=False), NOW + 60)
    assert in_part == [lowered("Watched", "Cooperative", NOT_ATTRIBUTING)]
    restored = conditions(in_part, "Cooperative", make_observer(), NOW + 60)
    assert restored == [held("Watched", LATER)]
    assert conditions(restored, "Watched", make_observer(), NOW + 120) == restored
    again = conditions(restored, "Watched", make_observer(attributing=False), NOW + 60)
    assert again == [lowered("Watched", "Cooperative", NOT_ATTRIBUTING, LATER)]


@pytest.mark.parametrize("reason", ["", "WasBest", "AsBefore"])
def test_a_published_condition_that_cannot_be_read_hides_nothing(reason: str) -> None:
    strange = {"type": "MemoryIsolationLowered", "status": "True", "reason": reason, "lastTransitionTime": AT}
    assert conditions([strange], "Watched", make_observer()) == [held("Watched", AT)]
