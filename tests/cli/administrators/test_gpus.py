"""`cotenant gpus`: shares as the agents see them. `gpus reset`: the word is an annotation, the answer the status's."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cotenant.cli.administrators.gpu_shares import gpu_views, is_silent, with_silent
from cotenant.cli.administrators.gpus import CORDONED, as_cordoned, cells, is_asked, lines, reset_gpu, wall
from cotenant.cli.errors import EXIT_FORBIDDEN, UserError
from cotenant.cli.terminal.connection import Connection

OLD = {"state": "Refused", "message": "old", "at": "2026-01-01T00:00:00Z"}
NEW = {"state": "Done", "message": "the driver has reset it", "at": "2026-01-02T00:00:00Z"}
HELD = {"state": "Refused", "message": "pod red/a-1-0 holds it", "at": "2026-01-02T00:00:00Z"}


class GpuNodes:
    """One GPUNode; `agent` does what its agent would do while the verb sleeps."""

    def __init__(self, agent: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
        gpus = [{"uuid": "GPU-a", "index": 0}, {"uuid": "GPU-b", "index": 1, "reset": OLD}]
        self.node: dict[str, Any] = {"metadata": {"name": "n1"}, "status": {"gpus": gpus}}
        self.agent, self.words = agent, list[str]()

    def read(self, path: str) -> dict[str, Any]:
        assert path == "/apis/cotenant.dev/v1beta1/gpunodes/n1"
        return copy.deepcopy(self.node)

    def patch(self, _: str, body: Any) -> None:
        annotations = body["metadata"]["annotations"]
        self.words += annotations.values()
        self.node["metadata"].setdefault("annotations", {}).update(annotations)

    def sleep(self, _: float) -> None:
        self.agent(self.node)


def answers(gpu: int, reset: dict[str, str]) -> Callable[[dict[str, Any]], object]:
    def agent(node: dict[str, Any]) -> None:
        node["status"]["gpus"][gpu]["reset"] = reset
        node["metadata"]["annotations"] = {}

    return agent


@pytest.fixture
def api(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> GpuNodes:
    """The API server; the fixture's parameter is the action of the agent."""
    nodes = GpuNodes(request.param)
    monkeypatch.setattr("time.sleep", nodes.sleep)
    return nodes


@pytest.mark.parametrize(
    ("gpu", "api", "word", "answer"),
    [
        pytest.param("0", answers(0, NEW), "GPU-a", (0, "GPU-a: Done: the driver has reset it"), id="by index"),
        pytest.param("GPU-b", answers(1, NEW), "GPU-b", (0, "GPU-b: Done: the driver has reset it"), id="by UUID"),
        pytest.param("0", answers(0, HELD), "GPU-a", (1, "GPU-a: Refused: pod red/a-1-0 holds it"), id="held"),
        pytest.param("1", lambda _: None, "GPU-b", (1, "no answer within 10 s"), id="an old answer is none"),
    ],
    indirect=["api"],
)
def test_the_answer_of_the_agent_is_shown(
    capsys: pytest.CaptureFixture[str], api: GpuNodes, gpu: str, word: str, answer: tuple[int, str]
) -> None:
    assert reset_gpu(cast("Connection", api), "n1", gpu, 10.0) == answer[0]
    assert answer[1] in capsys.readouterr().out
    assert api.words == [word]


def test_what_was_asked_before_stays_asked_and_nothing_is_waited_for_on_wish() -> None:
    api = GpuNodes()
    for gpu in ("0", "1"):
        assert reset_gpu(cast("Connection", api), "n1", gpu, 0.0) == 0
    assert api.words == ["GPU-a", "GPU-b,GPU-a"]


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"node n1 has no GPU '7'; it has 0 \(GPU-a\), 1 \(GPU-b\)"):
        reset_gpu(cast("Connection", GpuNodes()), "n1", "7", 0.0)


NODE = {
    "metadata": {"name": "n1"},
    "status": {
        "node": "Ready",
        "gpus": [
            {"uuid": "GPU-a", "index": 0, "class": "H100", "memoryMiB": 81_920,
             "used": {"memoryMiB": 40_960, "utilizationPercent": 93}},
            {"uuid": "GPU-b", "index": 1, "class": "H100", "memoryMiB": 81_920, "used": {"utilizationPercent": 0}},
            {"uuid": "GPU-c", "index": 2, "class": "H100", "memoryMiB": 81_920, "healthy": False, "health": "XID79"},
            {"uuid": "GPU-d", "index": 3, "class": "H100", "memoryMiB": 81_920},
        ],
        "holders": [
            {"namespace": "red", "job": "train", "gpus": [
                {"uuid": "GPU-a", "memoryMiB": 81_920, "computeMilli": 1000}]},
            {"namespace": "red", "job": "notebook", "gpus": [
                {"uuid": "GPU-b", "memoryMiB": 10_240, "computeMilli": 125},
                {"uuid": "GPU-b", "memoryMiB": 10_240, "computeMilli": 125}]},
            {"namespace": "blue", "job": "eval", "gpus": [{"uuid": "GPU-b", "memoryMiB": 40_960, "computeMilli": 500}]},
        ],
    },
}  # fmt: skip


def test_every_gpu_has_its_state_its_use_and_its_holders() -> None:
    assert "\n".join(lines(list(gpu_views([NODE])), wide=False)).splitlines() == [
        "NODE   GPU   CLASS   STATE   USE    MEMORY    HELD   BY",
        "n1     0     H100    busy    93 %   40/80Gi   1      red/train",
        "n1     1     H100    idle    0 %    80Gi      0.75   blue/eval (0.5), red/notebook (0.25)",
        "n1     2     H100    XID79          80Gi",
        "n1     3     H100    free           80Gi",
        "4 GPUs: 1.75 held, of these 1 idle now; 1 ill",
    ]


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ({}, [0, 1, 2, 3]),
        ({"idle": True}, [1]),
        ({"ill": True}, [2]),
        ({"free": True}, [1, 3]),
        ({"node": "n2"}, []),
    ],
)
def test_flags_choose_gpus(flags: dict[str, Any], found: list[int]) -> None:
    args = argparse.Namespace(**{"idle": False, "ill": False, "free": False, "node": None, **flags})
    assert [one.index for one in gpu_views([NODE]) if is_asked(one, args)] == found


def test_the_wall_has_a_brick_for_each_gpu_with_the_part_of_each_job() -> None:
    assert list(wall(list(gpu_views([NODE])))) == [
        "n1  [CCCCCCCC] [AAAABB..] [xxxxxxxx] [........]  H100",
        "",
        "A  blue/eval",
        "B  red/notebook",
        "C  red/train",
    ]


class Nodes:
    """Lists the cordoned Nodes, for callers with the right."""

    def __init__(self, cordoned: list[str] | None) -> None:
        self.cordoned = cordoned

    def read(self, path: str) -> dict[str, Any]:
        assert path == CORDONED
        if self.cordoned is None:
            raise UserError("nodes is forbidden", EXIT_FORBIDDEN)
        return {"items": [{"metadata": {"name": name}} for name in self.cordoned]}


@pytest.mark.parametrize(
    ("seconds", "every", "state"),
    [
        pytest.param(59, None, "Ready", id="heard"),
        pytest.param(61, None, "Silent", id="not heard"),
        pytest.param(None, None, "Silent", id="never heard"),
        pytest.param(199, 50, "Ready", id="heard, in a large cluster whose agents report every 50 s"),
        pytest.param(201, 50, "Silent", id="not heard, in a large cluster"),
    ],
)
def test_no_gpu_is_called_free_on_a_node_whose_agent_is_not_heard(
    seconds: int | None, every: int | None, state: str
) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    beat = {} if seconds is None else {"heartbeat": (now - timedelta(seconds=seconds)).isoformat()}
    status = {"node": "Ready", "gpus": [{"uuid": "a"}], "heartbeatSeconds": every, **beat}
    (node,) = with_silent([{"metadata": {"name": "n1"}, "status": status}], now)
    (gpu,) = gpu_views([node])
    assert (gpu.node_state, gpu.state == "free") == (state, state == "Ready")


@pytest.mark.parametrize(
    ("beat_s", "stored_s", "silent"),
    [
        pytest.param(600, 10, False, id="a clock that is behind, and a report a moment ago"),
        pytest.param(-600, 300, True, id="a clock that is ahead, and no report for five minutes"),
        pytest.param(300, None, True, id="an object that does not show when it was stored"),
    ],
)
def test_whether_an_agent_is_heard_does_not_depend_on_its_nodes_clock(
    beat_s: int, stored_s: int | None, silent: bool
) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    node: dict[str, Any] = {"metadata": {}, "status": {"heartbeat": (now - timedelta(seconds=beat_s)).isoformat()}}
    if stored_s is not None:
        stored = (now - timedelta(seconds=stored_s)).isoformat()
        of_spec = {"time": now.isoformat()}
        node["metadata"]["managedFields"] = [of_spec, {"time": stored, "subresource": "status"}]
    assert is_silent(node, now) is silent


@pytest.mark.parametrize(
    ("cordoned", "expected"),
    [
        (["n1"], ["Cordoned", "Ready", "NotReady", "Tainted"]),
        (["n4"], ["Ready", "Ready", "NotReady", "Cordoned"]),
        ([], ["Ready", "Ready", "NotReady", "Tainted"]),
        (None, ["Ready", "Cordoned", "NotReady", "Tainted"]),
    ],
)
def test_a_node_that_was_cordoned_or_given_back_just_now_is_seen_at_once_by_who_may_list_nodes(
    cordoned: list[str] | None, expected: list[str]
) -> None:
    seen = {"n1": "Ready", "n2": "Cordoned", "n3": "NotReady", "n4": "Tainted"}
    nodes = [{"metadata": {"name": name}, "status": {"node": state}} for name, state in seen.items()]
    found = as_cordoned(cast("Connection", Nodes(cordoned)), nodes)
    assert [one["status"]["node"] for one in found] == expected


def test_memory_that_the_maker_does_not_tell_is_not_called_nothing() -> None:
    device = {"uuid": "AMD-a", "index": 0, "class": "MI300X", "memoryMiB": 0, "used": {"memoryMiB": 0}}
    (gpu,) = gpu_views([{"metadata": {"name": "amd"}, "status": {"gpus": [device]}}])
    assert cells(gpu)[4:] == ("", "", "", "")
