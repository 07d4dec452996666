"""`cotenant gpus reset`: the word is an annotation, the answer comes from the GPUNode's status."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from cotenant.cli.errors import UserError
from cotenant.cli.gpus import reset_gpu

OLD = {"state": "Refused", "message": "old", "at": "2026-01-01T00:00:00Z"}
NEW = {"state": "Done", "message": "the driver has reset it", "at": "2026-01-02T00:00:00Z"}
HELD = {"state": "Refused", "message": "pod red/a-1-0 holds it", "at": "2026-01-02T00:00:00Z"}


class GpuNodes:
    """One GPUNode; `agent` does what its agent would do while the verb sleeps."""

    def __init__(self, agent: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
        gpus = [{"uuid": "GPU-a", "index": 0}, {"uuid": "GPU-b", "index": 1, "reset": OLD}]
        self.node: dict[str, Any] = {"metadata": {"name": "n1"}, "status": {"gpus": gpus}}
        self.agent, self.words = agent, list[str]()

    def get_cluster_custom_object(self, *_: str) -> dict[str, Any]:
        return copy.deepcopy(self.node)

    def patch_cluster_custom_object(self, *where: Any, **_: str) -> None:
        annotations = where[-1]["metadata"]["annotations"]
        self.words += annotations.values()
        self.node["metadata"].setdefault("annotations", {}).update(annotations)

    def sleep(self, _: float) -> None:
        self.agent(self.node)


def answers(gpu: int, reset: dict[str, str]) -> Callable[[dict[str, Any]], object]:
    def agent(node: dict[str, Any]) -> None:
        node["status"]["gpus"][gpu]["reset"] = reset
        node["metadata"]["annotations"] = {}

    return agent


@pytest.mark.parametrize(
    ("gpu", "agent", "word", "answer"),
    [
        pytest.param("0", answers(0, NEW), "GPU-a", (0, "GPU-a: Done: the driver has reset it"), id="by index"),
        pytest.param("GPU-b", answers(1, NEW), "GPU-b", (0, "GPU-b: Done: the driver has reset it"), id="by UUID"),
        pytest.param("0", answers(0, HELD), "GPU-a", (1, "GPU-a: Refused: pod red/a-1-0 holds it"), id="held"),
        pytest.param("1", lambda _: None, "GPU-b", (1, "no answer within 10 s"), id="an old answer is none"),
    ],
)
def test_the_answer_of_the_agent_is_shown(
    capsys: pytest.CaptureFixture[str], gpu: str, agent: Any, word: str, answer: tuple[int, str]
) -> None:
    api = GpuNodes(agent)
    assert reset_gpu(api, "n1", gpu, 10.0, sleep=api.sleep) == answer[0]
    assert answer[1] in capsys.readouterr().out
    assert api.words == [word]


def test_what_was_asked_before_stays_asked_and_nothing_is_waited_for_on_wish() -> None:
    api = GpuNodes()
    for gpu in ("0", "1"):
        assert reset_gpu(api, "n1", gpu, 0.0, sleep=api.sleep) == 0
    assert api.words == ["GPU-a", "GPU-b,GPU-a"]


def test_a_gpu_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UserError, match=r"node n1 has no GPU '7'; it has 0 \(GPU-a\), 1 \(GPU-b\)"):
        reset_gpu(GpuNodes(), "n1", "7", 0.0)
