"""The page of a node: why it does not take all the work, its GPUs, and only what lies on it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.dashboard.reading.rows import HeldShare, JobRow
from cotenant.dashboard.views.node import node_view
from cotenant.dashboard.views.tenants import Palette
from tests.cli.dashboard.played_cluster import NOW, gpu_node

SEEN = NOW.timestamp()

ON_TWO = JobRow(
    namespace="red",
    name="wide",
    shares=tuple(
        HeldShare(node=f"gpu-node-{at}", rank=at, uuid=f"GPU-{at}-0", memory_mib=81920, milli=1000) for at in (1, 2)
    ),
)


def node(**status: Any) -> dict[str, Any]:
    document = gpu_node(1, gpus=2)
    return document | {"status": document["status"] | status}


def test_a_job_over_two_nodes_is_shown_with_what_it_holds_here() -> None:
    view = node_view(node(), [ON_TWO], "gpu-node-1", Palette(), SEEN)
    assert view is not None
    assert [(gpu.brick.uuid, [part.job for part in gpu.brick.parts]) for gpu in view.gpus] == [
        ("GPU-1-0", ["wide"]),
        ("GPU-1-1", []),
    ]


@pytest.mark.parametrize(
    ("status", "reasons"),
    [
        ({}, ()),
        ({"node": "Cordoned"}, ("The node is Cordoned: it gets no new jobs.",)),
        ({"heartbeat": "2020-01-01T00:00:00Z"}, ("The node is Silent: it gets no new jobs.",)),
        ({"heartbeat": None}, ("The node is Silent: it gets no new jobs.",)),
        ({"strangers": [{"uuid": "GPU-1-0"}]}, ("Somebody without a grant uses 1 of its GPUs.",)),
        (
            {"conditions": [{"type": "DriverTooOld", "status": "True", "message": "535 is too old"},
                            {"type": "Fine", "status": "False"}]},
            ("DriverTooOld: 535 is too old",),
        ),
    ],
)  # fmt: skip
def test_a_node_says_why_it_takes_no_more_work(status: dict[str, Any], reasons: tuple[str, ...]) -> None:
    view = node_view(node(**status), [], "gpu-node-1", Palette(), SEEN)
    assert view is not None
    assert view.reasons == reasons


def test_memory_and_sensors_are_those_that_the_agent_sees() -> None:
    seen = {"uuid": "g", "index": 0, "class": "H100", "memoryMiB": 81920,
            "used": {"memoryMiB": 40960, "temperatureCelsius": 61, "powerWatts": 412}}  # fmt: skip
    view = node_view(node(gpus=[seen], driverVersion="580.1"), [], "gpu-node-1", Palette(), SEEN)
    assert view is not None
    assert [(gpu.memory, gpu.sensors) for gpu in view.gpus] == [("40Gi of 80Gi", "61 °C, 412 W")]
    assert ("Driver", "580.1") in view.figures


def test_a_node_of_which_nothing_may_be_seen_has_no_page() -> None:
    assert node_view(None, [ON_TWO], "gpu-node-9", Palette(), SEEN) is None
    view = node_view(None, [ON_TWO], "gpu-node-2", Palette(), SEEN)
    assert view is not None
    assert [gpu.brick.uuid for gpu in view.gpus] == ["GPU-2-0"]
