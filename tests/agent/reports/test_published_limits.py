"""Paths, levels and limits as they are published, and as an agent that starts again finds them."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.read_back import LimitsOfNode
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import AskedLimit, LimitReading
from cotenant_agent.reports import node_status, published_limits
from cotenant_agent.reports.node_view import NodeObserver
from tests.agent.reports.observed import GRANTS, NOW, busy, make_observer

PODS = PodsOnNode(grants={"pod-1": replace(GRANTS["pod-1"], limit_mib=1000, container="a1" * 32)})
ASKED = AskedLimit("pod-1", "GPU-a", "/leaf")
GOOD, NONE = LimitReading(hard_mib=1000, used_mib=10), LimitReading()
DISAGREES = "ReadBack: pod red/a-1-0 on GPU-a: a limit of 1000 MiB was asked for, and there is none"


def able_node() -> NodeObserver:
    observer = make_observer()
    observer.inventory = replace(observer.inventory, driver_version="615.71")
    observer.capabilities = Capabilities(
        runtime_class=True, toolkit_version="1.20.1", cgroup_v2=True, limits_readable=True
    )
    return observer


def status_after(observer: NodeObserver, *readings: LimitReading | None) -> dict[str, Any]:
    for reading in readings:
        view = observer.observe(busy(), PODS, NOW, ((ASKED, reading),))
    return node_status.build(view)


@pytest.mark.parametrize(
    ("readings", "level", "limit", "path"),
    [
        pytest.param((None,), "Watched", {"state": "Unknown"}, (True, ""), id="nothing was read"),
        pytest.param((GOOD,), "Hard", {"state": "InForce", "inForce": 1000}, (True, ""), id="a limit in force"),
        pytest.param((NONE,), "Watched", {"state": "Unknown"}, (True, ""), id="none, once"),
        pytest.param((NONE, NONE), "Watched", {"state": "Absent"}, (False, DISAGREES), id="none, twice"),
        pytest.param((GOOD, NONE, NONE), "Watched", {"state": "Absent"}, (False, DISAGREES), id="no longer"),
    ],
)
def test_a_node_is_hard_when_a_limit_was_read_back_and_no_longer_after_a_disagreement(
    readings: tuple[LimitReading | None, ...], level: str, limit: dict[str, Any], path: tuple[bool, str]
) -> None:
    status = status_after(able_node(), *readings)
    entry = {"podUID": "pod-1", "uuid": "GPU-a", "dimension": "Memory", "wanted": 1000}
    assert (status["isolation"], status["isolationLevels"]) == (level, {"memory": level, "compute": "None"})
    assert status["limits"] == [entry | limit]
    paths = {one["path"]: (one["available"], one["reason"]) for one in status["capabilities"]["paths"]}
    assert (paths["RuntimeClass"], paths["MemoryLimit"]) == ((True, ""), path)


def test_a_capability_that_is_lost_takes_the_level_with_it() -> None:
    observer = able_node()
    assert status_after(observer, GOOD)["isolation"] == "Hard"
    observer.capabilities = replace(observer.capabilities, limits_readable=False)
    assert status_after(observer, None, None)["isolation"] == "Watched"


@pytest.mark.parametrize("readings", [(GOOD,), (NONE, NONE), (None,)], ids=str)
def test_an_agent_that_starts_again_publishes_the_same_before_it_has_read_anything(
    readings: tuple[LimitReading | None, ...],
) -> None:
    before = status_after(able_node(), *readings)
    again = able_node()
    again.restore_limits(published_limits.read(before), published_limits.read(before, "Compute"))
    after = node_status.build(again.observe(busy(), PODS, NOW))
    assert {key: after[key] for key in ("isolation", "limits", "capabilities")} == {
        key: before[key] for key in ("isolation", "limits", "capabilities")
    }


@pytest.mark.parametrize(
    "entry", [{}, {"podUID": "u"}, "text", None, {"podUID": "u", "uuid": "g", "wanted": "many", "state": "InForce"}]
)
def test_a_published_limit_that_cannot_be_read_is_left_out(entry: Any) -> None:
    assert published_limits.read({"limits": [entry]}) == LimitsOfNode()


def test_an_administrator_lifts_a_disagreement() -> None:
    observer = able_node()
    assert not status_after(observer, NONE, NONE)["capabilities"]["paths"][-1]["available"]
    observer.uncordon({"GPU-a"})
    assert status_after(observer, GOOD)["isolation"] == "Hard"
