"""Resets asked for by annotation: a GPU in use is refused with its holder's name, a free GPU is reset once."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_agent.enforcement.gpu_holders import PodsOnNode
from cotenant_agent.enforcement.quota import PodGpu
from cotenant_agent.gpus.gpu_resets import PENDING, QUIET_S
from cotenant_agent.gpus.readings import GpuSample
from cotenant_agent.reports import node_status, reset_turns
from cotenant_agent.reports.node_view import NodeView
from cotenant_agent.reports.reset_turns import ResetTurns
from tests.agent.reports.observed import NOW, PODS, busy, make_observer

ASKED = {"cotenant.dev/reset": "GPU-b"}


def view(*pids: int, pods: PodsOnNode | None = PODS, **changed: Any) -> NodeView:
    return replace(make_observer().observe(busy(*pids), pods, NOW), **changed)


def gpu(view: NodeView, uuid: str) -> dict[str, Any]:
    return next(one for one in node_status.build(view)["gpus"] if one["uuid"] == uuid)


@pytest.mark.parametrize(
    ("seen", "by"),
    [
        pytest.param(view(), {"GPU-a": "pod red/a-1-0 holds it"}, id="a pod of ours"),
        pytest.param(view(3, pods=PodsOnNode()), {"GPU-a": "pod stranger is on it"}, id="a stranger"),
        pytest.param(view(4, pods=PodsOnNode()), {"GPU-a": "processes outside pods are on it"}, id="no pod"),
        pytest.param(
            view(pods=PodsOnNode(), claimed={PodGpu("u", "GPU-b"): 1}),
            {"GPU-b": "a claim of pod u holds it"},
            id="a claim",
        ),
    ],
)
def test_whoever_is_on_a_gpu_or_holds_it_keeps_it_from_being_reset(seen: NodeView, by: dict[str, str]) -> None:
    assert dict(reset_turns.use_in(seen).by) == by


def test_a_free_gpu_is_kept_back_then_reset_and_the_answer_is_published() -> None:
    turns, started = ResetTurns(), list[str]()
    turns.start = started.append
    assert not turns.take_up(ASKED, NOW)
    waiting, _ = turns.after_poll(view(), {}, NOW)
    assert (gpu(waiting, "GPU-b")["healthy"], gpu(waiting, "GPU-b")["health"]) == (False, PENDING)
    turns.after_poll(view(), {}, NOW + QUIET_S)
    turns.after_poll(view(), {}, NOW + QUIET_S + 1)
    assert (started, turns.take_up(ASKED, NOW)) == (["GPU-b"], False)
    done, reset = turns.after_poll(view(), {"GPU-b": ""}, NOW + 60)
    assert (set(reset), turns.take_up(ASKED, NOW)) == ({"GPU-b"}, True)
    answer = {"state": "Done", "message": "the driver has reset it", "at": "2023-11-14T22:14:20Z"}
    assert (gpu(done, "GPU-b")["reset"], gpu(done, "GPU-b")["healthy"]) == (answer, True)
    assert "reset" not in gpu(done, "GPU-a")
    read = reset_turns.published(node_status.build(done), node_status.parse_time)
    assert read == dict(turns.state.results)


def test_a_gpu_that_is_held_is_refused_with_who_holds_it_and_the_word_may_be_given_again() -> None:
    turns = ResetTurns()
    word = {"cotenant.dev/reset": "GPU-a"}
    turns.take_up(word, NOW)
    refused, reset = turns.after_poll(view(), {}, NOW)
    assert (gpu(refused, "GPU-a")["reset"]["message"], reset) == ("pod red/a-1-0 holds it", frozenset())
    assert turns.take_up(word, NOW)
    turns.forget()
    assert not turns.take_up(word, NOW)
    assert turns.state.pending == {"GPU-a"}


@pytest.mark.parametrize("word", ["", " , "])
def test_a_word_that_names_nothing_asks_for_nothing(word: str) -> None:
    turns = ResetTurns()
    assert turns.take_up({"cotenant.dev/reset": word}, NOW) is bool(word)
    assert not turns.state.pending


def test_a_gpu_that_the_driver_no_longer_lists_is_kept_back_for_both_reasons() -> None:
    turns = ResetTurns()
    turns.take_up(ASKED, NOW)
    seen = make_observer().observe((GpuSample(uuid="GPU-a"),), PodsOnNode(), NOW)
    found, _ = turns.after_poll(seen, {}, NOW)
    assert gpu(found, "GPU-b")["health"] == f"NotSampled: the driver no longer lists this GPU | {PENDING}"
