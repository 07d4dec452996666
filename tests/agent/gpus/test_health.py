"""The table of driver events, the signs, and how cordons go away again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cotenant_agent.gpus.health import (
    SUSPECT_S,
    XIDS,
    JobOnGpu,
    NodeHealth,
    apply_signs,
    apply_xid,
    restored_cordons,
    uncordon,
)
from cotenant_agent.gpus.readings import Gpu, HealthSigns, XidEvent


def make_gpu(uuid: str, index: int, *peers: str) -> Gpu:
    return Gpu(uuid=uuid, index=index, gpu_class="H100", memory_mib=81920, peers=peers)


GPUS = (make_gpu("a", 0, "b"), make_gpu("b", 1, "a"), make_gpu("c", 2))
WELL = HealthSigns(recovery_action=0)


def cordoned(health: NodeHealth) -> dict[str, list[str]]:
    return {uuid: [cordon.code for cordon in found] for uuid, found in sorted(health.cordons.items())}


@pytest.mark.parametrize(
    ("code", "uuid", "want"),
    [
        *[pytest.param(code, "a", {}, id=f"{code}: a program's own fault") for code in (13, 31, 43, 45, 94, 109)],
        *[
            pytest.param(code, "a", {"a": [f"XID{code}"]}, id=f"{code}: this GPU")
            for code in (46, 48, 62, 63, 64, 95, 110, 119, 120, 136, 140, 143, 158)
        ],
        pytest.param(74, "a", {"a": ["XID74"], "b": ["XID74"]}, id="74: NVLink takes the peers along"),
        pytest.param(79, "a", {"a": ["XID79"], "b": ["XID79"], "c": ["XID79"]}, id="79: off the bus, the whole node"),
        pytest.param(48, None, {"a": ["XID48"], "b": ["XID48"], "c": ["XID48"]}, id="no GPU named: all of them"),
        pytest.param(154, "a", {}, id="154: the recovery action is polled"),
        pytest.param(1, "a", {}, id="an unknown event cordons nothing"),
    ],
)
def test_an_event_cordons_as_far_as_it_reaches(code: int, uuid: str | None, want: dict[str, list[str]]) -> None:
    assert cordoned(apply_xid(NodeHealth(), XidEvent(uuid, code, 10.0), GPUS, ["pod-1"])) == want


DRAINING = (46, 48, 62, 64, 95, 110, 119, 120, 136, 140, 143, 158, 79)


def drained(health: NodeHealth) -> list[str]:
    return [gpu.uuid for gpu in GPUS if health.drains(gpu.uuid)]


@pytest.mark.parametrize("code", sorted(XIDS))
def test_an_event_drains_its_own_gpu_alone_and_only_when_nothing_goes_on_there(code: int) -> None:
    health = apply_xid(NodeHealth(), XidEvent("a", code, 10.0), GPUS, ["pod-1"])
    assert drained(health) == (["a"] if code in DRAINING else [])
    again = {uuid: restored_cordons(health.reason(uuid), 20.0, rebooted=False) for uuid in health.cordons}
    assert drained(NodeHealth(cordons=again)) == drained(health)
    assert drained(apply_xid(NodeHealth(), XidEvent(None, code, 10.0), GPUS, [])) == []


@pytest.mark.parametrize(
    ("signs", "drains"),
    [
        (HealthSigns(lost=True), True),
        (HealthSigns(reset_required=True), True),
        (HealthSigns(remap_failed=True), True),
        (HealthSigns(remap_pending=True), False),
        *[(HealthSigns(recovery_action=action), action in (1, 2, 4, 6, 7)) for action in range(9)],
        (HealthSigns(throttled=True), False),
    ],
    ids=str,
)
def test_a_gpu_that_is_lost_or_to_be_reset_drains_and_one_that_can_wait_does_not(
    signs: HealthSigns, drains: bool
) -> None:
    assert drained(apply_signs(NodeHealth(), "a", signs, 10.0)) == (["a"] if drains else [])


def test_an_event_of_a_gpu_reaches_all_of_its_instances_and_no_others() -> None:
    parts = [make_gpu(f"MIG-{i}", 100 + i) for i in range(2)]
    gpus = (*(replace(part, parent="a") for part in parts), GPUS[2])
    health = apply_xid(NodeHealth(), XidEvent("a", 48, 10.0), gpus, [])
    assert cordoned(health) == {"MIG-0": ["XID48"], "MIG-1": ["XID48"]}
    assert [health.drains(gpu.uuid) for gpu in gpus] == [True, True, False]


def test_every_event_has_words_for_the_administrator() -> None:
    for code, rule in XIDS.items():
        assert len(rule.text) > 15, code


def test_the_reason_names_the_event_and_where_it_was_seen() -> None:
    health = apply_xid(NodeHealth(), XidEvent("a", 74, 10.0), GPUS, [])
    assert health.reason("b") == "XID74: NVLink error; check the link before multi-GPU jobs use it (seen on a)"


JOBS = {
    **{f"red-a-{attempt}": JobOnGpu("red", "a") for attempt in (1, 2, 3)},
    **{f"red-{job}": JobOnGpu("red", job) for job in "bcd"},
    **{f"blue-{job}": JobOnGpu("blue", job) for job in "xyz"},
}


@pytest.mark.parametrize(
    ("faults", "want"),
    [
        pytest.param([(31, "red-a-1"), (31, "red-a-2"), (31, "red-a-3")], {}, id="three attempts of one job"),
        pytest.param([(31, "red-b"), (31, "red-c"), (31, "red-d")], {}, id="three jobs of one tenant"),
        pytest.param([(31, "red-b"), (31, "blue-x")], {}, id="two jobs of two tenants"),
        pytest.param([(45, "red-b"), (45, "blue-x"), (45, "blue-y")], {}, id="jobs that were killed"),
        pytest.param([(31, "red-b blue-x blue-y")], {}, id="one event while three jobs share the GPU"),
        pytest.param([(31, "red-b blue-x"), (31, "blue-x blue-y"), (31, "red-c")], {}, id="shared GPUs"),
        pytest.param([(31, "red-b"), (13, "foreign"), (31, "blue-x")], {}, id="a pod of others"),
        pytest.param([(31, "red-b"), (13, "red-c"), (94, "blue-x")], {"a": ["Suspect"]}, id="three jobs, two tenants"),
    ],
)
def test_a_gpu_is_suspect_when_different_tenants_fault_alone_on_it(
    faults: Sequence[tuple[int, str]], want: dict[str, list[str]]
) -> None:
    health = NodeHealth()
    for at, (code, pods) in enumerate(faults):
        health = apply_xid(health, XidEvent("a", code, float(at)), GPUS, pods.split(), JOBS)
    assert cordoned(health) == want


def suspect() -> NodeHealth:
    health = NodeHealth()
    for pod in ("red-b", "red-c", "blue-x"):
        health = apply_xid(health, XidEvent("a", 31, 0.0), GPUS, [pod], JOBS)
    return health


def test_a_suspect_is_handed_out_again_after_a_day() -> None:
    assert play(suspect(), [(1, WELL), (SUSPECT_S, WELL), (SUSPECT_S + 1, WELL)]) == [True, True, False]


def test_faults_spread_over_hours_make_no_suspect() -> None:
    health = NodeHealth()
    for hours, pod in enumerate(["red-b", "red-c", "blue-x"]):
        health = apply_xid(health, XidEvent("a", 31, hours * 3601.0), GPUS, [pod], JOBS)
    assert cordoned(health) == {}


@pytest.mark.parametrize(
    ("signs", "want"),
    [
        pytest.param(WELL, "", id="well"),
        pytest.param(
            HealthSigns(lost=True), "GpuLost: the driver cannot reach the GPU; the node needs a reboot", id="lost"
        ),
        pytest.param(HealthSigns(reset_required=True), "ResetRequired: the GPU needs a reset", id="reset required"),
        pytest.param(
            HealthSigns(recovery_action=4),
            "RecoveryAction: the driver asks to drain and reset the GPU",
            id="drain and reset",
        ),
        pytest.param(
            HealthSigns(recovery_action=99), "RecoveryAction: the driver asks to action 99", id="an action to come"
        ),
        pytest.param(
            HealthSigns(remap_failed=True),
            "RemapFailed: a memory row could not be remapped; the GPU should be replaced",
            id="remap failed",
        ),
        pytest.param(
            HealthSigns(remap_pending=True),
            "RemapPending: remapped or retired memory takes effect with a reset when the jobs are done",
            id="remap pending",
        ),
        pytest.param(
            HealthSigns(unreadable="Unknown Error"),
            "Unreadable: the driver cannot read the GPU: Unknown Error",
            id="an error of the driver",
        ),
        pytest.param(HealthSigns(ecc_uncorrected=9), "", id="counted errors alone"),
        pytest.param(HealthSigns(throttled=True), "", id="heat alone"),
    ],
)
def test_a_bad_sign_cordons_at_once(signs: HealthSigns, want: str) -> None:
    assert apply_signs(NodeHealth(), "a", signs, 0.0).reason("a") == want


def play(health: NodeHealth, polls: Sequence[tuple[float, HealthSigns]]) -> list[bool]:
    seen = []
    for now, signs in polls:
        health = apply_signs(health, "a", signs, now)
        seen.append(bool(health.reason("a")))
    return seen


BAD = HealthSigns(recovery_action=0, remap_pending=True)


@pytest.mark.parametrize(
    ("polls", "want"),
    [
        pytest.param(
            [(0, BAD), (10, WELL), (309, WELL), (310, WELL)], [True, True, True, False], id="good for 5 minutes"
        ),
        pytest.param(
            [(0, BAD), (10, WELL), (200, BAD), (310, WELL), (600, WELL), (610, WELL)],
            [True, True, True, True, True, False],
            id="a relapse starts the wait again",
        ),
    ],
)
def test_a_sign_must_be_good_for_a_while(polls: Any, want: list[bool]) -> None:
    assert play(NodeHealth(), polls) == want


@pytest.mark.parametrize(
    ("code", "signs", "want"),
    [
        pytest.param(48, WELL, [True, True, False], id="the driver says that no recovery is due, for 10 minutes"),
        pytest.param(48, HealthSigns(), [True, True, True], id="a driver that cannot tell keeps it cordoned"),
        pytest.param(48, HealthSigns(recovery_action=1), [True, True, True], id="a driver that wants a reset"),
        pytest.param(79, WELL, [True, True, True], id="off the bus waits for a reboot or a hand"),
        pytest.param(74, WELL, [True, True, True], id="NVLink waits for a hand"),
    ],
)
def test_an_event_is_lifted_by_what_its_rule_names(code: int, signs: HealthSigns, want: list[bool]) -> None:
    health = apply_xid(NodeHealth(), XidEvent("a", code, 0.0), GPUS, [])
    assert play(health, [(1, signs), (600, signs), (601, signs)]) == want


def test_the_administrator_lifts_a_cordon_and_what_is_still_wrong_returns() -> None:
    health = apply_xid(NodeHealth(), XidEvent("a", 79, 0.0), GPUS, [])
    health = uncordon(health, ["a"])
    assert cordoned(health) == {"b": ["XID79"], "c": ["XID79"]}
    assert apply_signs(health, "a", HealthSigns(lost=True), 1.0).reason("a").startswith("GpuLost")


def test_a_fabric_that_is_not_set_up_is_a_warning_until_it_is() -> None:
    seen = []
    health = NodeHealth()
    for fabric_up in (True, False, None):
        health = apply_signs(health, "a", replace(WELL, fabric_up=fabric_up), 0.0)
        seen.append((health.reason("a"), health.warning("a", 0.0).partition(":")[0]))
    assert seen == [("", ""), ("", "FabricDown"), ("", "")]


def test_a_suspect_that_was_uncordoned_starts_from_nothing() -> None:
    health = apply_xid(uncordon(suspect(), ["a"]), XidEvent("a", 31, 4.0), GPUS, ["blue-y"], JOBS)
    assert cordoned(health) == {}


def test_a_cordon_that_an_older_agent_made_of_a_programs_fault_is_dropped() -> None:
    written = "XID109: context switch timeout; the GPU needs a reset | XID48: double-bit memory error"
    assert [cordon.code for cordon in restored_cordons(written, 9.0, rebooted=False)] == ["XID48"]


@pytest.mark.parametrize(
    ("rebooted", "want"), [(False, ["Suspect", "XID48"]), (True, [])], ids=["agent restarted", "node rebooted"]
)
def test_a_restart_forgets_no_cordon_and_a_reboot_those_it_mends(rebooted: bool, want: list[str]) -> None:
    health = apply_xid(suspect(), XidEvent("a", 48, 0.0), GPUS, [])
    health = apply_signs(health, "a", HealthSigns(lost=True), 5.0)
    again = restored_cordons(health.reason("a"), 9.0, rebooted=rebooted)
    assert [cordon.code for cordon in again] == want
    assert all(cordon.text in health.reason("a") for cordon in again)


@pytest.mark.parametrize(
    ("now", "want"),
    [(299.0, ""), (300.0, "Throttled: slowed down by heat or power for 5 min")],
    ids=["soon", "sustained"],
)
def test_only_sustained_heat_is_a_warning(now: float, want: str) -> None:
    health = apply_signs(NodeHealth(), "a", HealthSigns(throttled=True), 0.0)
    health = apply_signs(health, "a", HealthSigns(throttled=True), now)
    assert health.warning("a", now) == want
    assert apply_signs(health, "a", WELL, now + 1).warning("a", now + 999) == ""
