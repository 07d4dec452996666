"""One GPU is taken out by an annotation that its agent answers, waited for until nobody holds it, and given back."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from cotenant.cli.administrators import drain_gpu
from cotenant.cli.terminal.connection import Connection

PATH = "/apis/cotenant.dev/v1beta1/gpunodes/n1"
HELD = [{"namespace": "red", "job": "train", "gpus": [{"uuid": "GPU-a"}]}]
OTHER = [{"namespace": "red", "job": "other", "gpus": [{"uuid": "GPU-b"}]}]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


class Node:
    """A GPUNode of two GPUs; `looks` are (health of GPU-a, holders) as they are seen after the word was written."""

    def __init__(self, *looks: tuple[str, list[Any]], asked: str = "") -> None:
        self.annotations = {"cotenant.dev/drain": asked} if asked else {}
        self.looks = [("", HELD), *looks]
        self.words: list[dict[str, Any]] = []

    def read(self, path: str) -> dict[str, Any]:
        assert path == PATH
        health, holders = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        gpus = [{"uuid": "GPU-a", "index": 0, "healthy": not health, "health": health}, {"uuid": "GPU-b", "index": 1}]
        metadata = {"name": "n1", "annotations": {} if self.words else self.annotations}
        return {"metadata": metadata, "status": {"gpus": gpus, "holders": [*holders, *OTHER]}}

    def patch(self, path: str, body: Any) -> None:
        assert path == PATH
        self.words.append(body["metadata"]["annotations"])


def drained(node: Node, timeout_s: float = 20.0) -> int:
    return drain_gpu.drain(cast("Connection", node), ("n1", "GPU-a"), "its fan", timeout_s)


def test_a_gpu_is_out_when_its_agent_says_so_and_nobody_holds_it(capsys: pytest.CaptureFixture[str]) -> None:
    node = Node(("", HELD), ("Drained: its fan", HELD), ("Drained: its fan", []), asked='{"GPU-b": "earlier"}')
    assert drained(node) == 0
    (word,) = node.words
    assert json.loads(word["cotenant.dev/drain"]) == {"GPU-b": "earlier", "GPU-a": "its fan"}
    out = capsys.readouterr().out.splitlines()
    assert [line.partition("GPU-a")[2][:26] for line in out] == [
        " out",
        ": handed out no more",
        ": no job holds anything of",
    ]


@pytest.mark.parametrize(
    ("look", "said"),
    [(("Drained: its fan", HELD), "still held by red/train"), (("", HELD), "its agent has not taken it up")],
    ids=["a job stays", "no agent"],
)
def test_what_is_in_the_way_is_named_in_the_end(
    look: tuple[str, list[Any]], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drained(Node(look)) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("health", "code", "said"),
    [("", 0, "takes work again"), ("XID79: off the bus", 1, "XID79: off the bus")],
    ids=["well", "ill for another reason"],
)
def test_a_gpu_is_given_back_by_lifting_its_cordons(
    health: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    node = Node((health, []), asked='{"GPU-a": "", "GPU-b": "earlier"}')
    assert drain_gpu.release(cast("Connection", node), "n1", "GPU-a") == code
    assert node.words == [{"cotenant.dev/uncordon": "GPU-a", "cotenant.dev/drain": '{"GPU-b": "earlier"}'}]
    assert said in capsys.readouterr().out


def test_a_gpu_is_named_by_its_uuid_or_its_index() -> None:
    assert [drain_gpu.uuid_of(cast("Connection", Node()), "n1", one) for one in ("0", "GPU-b")] == ["GPU-a", "GPU-b"]
