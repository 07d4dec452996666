"""GPUs that an administrator takes out: drained, kept out over restarts and reboots, and given back by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_agent.gpus.drains import NO_REASON, drained, read_drains
from cotenant_agent.gpus.health import NodeHealth, after_reset, apply_xid, restored_cordons, uncordon
from cotenant_agent.gpus.readings import XidEvent
from tests.agent.gpus.test_health import GPUS, cordoned


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"a": "its fan is replaced"}', {"a": "its fan is replaced"}),
        ('{"a": "", "b": 7}', {"a": NO_REASON, "b": NO_REASON}),
        ('{"a": "one | two\\u001b[31m"}', {"a": "one, two\\x1b[31m"}),
        ("GPU-a", {}),
        ("[]", {}),
        ("", {}),
        ('{"a": {"b": 1}}', {}),
    ],
)
def test_the_word_of_an_administrator_is_read_plain_or_not_at_all(text: str, want: dict[str, str]) -> None:
    assert read_drains(text) == want


def test_exactly_the_gpu_that_is_named_drains_and_no_other() -> None:
    health = drained(NodeHealth(), {"a": "why", "z": "not here"}, GPUS, 0.0)
    assert (cordoned(health), health.drains("a"), health.drains("b")) == ({"a": ["Drained"]}, True, False)
    assert health.reason("a") == "Drained: why"


def test_a_gpu_goes_out_with_all_its_instances() -> None:
    instance = replace(GPUS[1], uuid="a-1", parent="a")
    assert cordoned(drained(NodeHealth(), {"a": "why"}, (*GPUS, instance), 0.0)) == {
        "a": ["Drained"],
        "a-1": ["Drained"],
    }


@pytest.mark.parametrize("rebooted", [False, True])
def test_what_was_taken_out_stays_out_over_restarts_and_resets_until_it_is_given_back(*, rebooted: bool) -> None:
    health = drained(apply_xid(NodeHealth(), XidEvent("a", 48, 0.0), GPUS, []), {"a": "why"}, GPUS, 1.0)
    again = {cordon.code: cordon.drains for cordon in restored_cordons(health.reason("a"), 9.0, rebooted=rebooted)}
    assert again["Drained"] is True
    assert cordoned(after_reset(health, ["a"])) == {"a": ["Drained"]}
    assert cordoned(uncordon(health, ["a"])) == {}
