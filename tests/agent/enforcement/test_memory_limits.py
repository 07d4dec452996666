"""Limits that pods asked for against those that the driver has. Pure."""

from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_agent.enforcement.memory_limits import asked, evaluate
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.enforcement.read_back import DeviceLimit, LimitsOfNode, LimitState
from cotenant_agent.gpus.readings import AskedLimit, LimitReading

ID = "a1" * 32
SHARE = 32_768
POD = PodQuota(pod_uid="u", namespace="red", pod="train-1-0", quota_mib={"GPU-a": SHARE}, limit_mib=SHARE, container=ID)
WHOLE = replace(POD, pod_uid="w", limit_mib=None)
GRANTS = {"u": POD, "w": WHOLE}
ASKED = AskedLimit("u", "GPU-a", "/leaf")
GOOD = LimitReading(hard_mib=SHARE, used_mib=1000)
UNKNOWN = DeviceLimit(pod_uid="u", gpu_uuid="GPU-a", wanted=SHARE)
IN_FORCE = replace(UNKNOWN, state=LimitState.IN_FORCE, in_force=SHARE)


def after(*readings: LimitReading | str | None, start: LimitsOfNode | None = None) -> LimitsOfNode:
    """Polls in a row; `absent`: the container is not there to be read."""
    found = start or LimitsOfNode()
    for reading in readings:
        polled = () if isinstance(reading, str) else ((ASKED, reading),)
        found = evaluate(found, GRANTS, polled)
    return found


@pytest.mark.parametrize(
    ("polls", "limit", "verified"),
    [
        pytest.param(("absent",), UNKNOWN, False, id="no container yet"),
        pytest.param((GOOD,), IN_FORCE, True, id="in force"),
        pytest.param((LimitReading(hard_mib=SHARE - 1),), replace(IN_FORCE, in_force=SHARE - 1), True, id="rounded"),
        pytest.param((LimitReading(),), UNKNOWN, False, id="none, once"),
        pytest.param((GOOD, LimitReading(), GOOD), IN_FORCE, True, id="none, once in between"),
        pytest.param((GOOD, "absent", "absent"), IN_FORCE, True, id="the container has ended"),
        pytest.param((GOOD, None), IN_FORCE, True, id="not readable, once"),
        pytest.param((GOOD, None, None), UNKNOWN, False, id="not readable any more: nothing is claimed of it"),
        pytest.param((GOOD, None, LimitReading()), IN_FORCE, True, id="not readable, then none, once"),
        pytest.param((None, None, LimitReading()), UNKNOWN, False, id="not readable for long, then none, once"),
        pytest.param((GOOD, LimitReading(), None, LimitReading()), IN_FORCE, True, id="none, not in a row"),
    ],
)
def test_one_poll_is_no_proof_against_a_limit(
    polls: tuple[LimitReading | str | None, ...], limit: DeviceLimit, verified: bool
) -> None:
    found = after(*polls)
    assert (found.limits, found.verified, found.disagreement) == ((limit,), verified, "")


@pytest.mark.parametrize(
    ("reading", "limit", "problem"),
    [
        pytest.param(
            LimitReading(), replace(UNKNOWN, state=LimitState.ABSENT), "and there is none",
            id="the hook was not there, or set it on another GPU, or on a parent",
        ),
        pytest.param(
            LimitReading(hard_mib=2 * SHARE), replace(IN_FORCE, in_force=2 * SHARE), "and it is 65536 MiB",
            id="a wrong limit",
        ),
        pytest.param(
            LimitReading(hard_mib=SHARE, used_mib=SHARE + 500), IN_FORCE, "33268 MiB are used under a limit",
            id="a limit that does not hold",
        ),
    ],
)  # fmt: skip
def test_a_disagreement_twice_in_a_row_is_published_and_stays_with_the_node(
    reading: LimitReading, limit: DeviceLimit, problem: str
) -> None:
    found = after(GOOD, reading, reading)
    assert (found.limits, found.verified) == ((limit,), False)
    assert found.disagreement.startswith("pod red/train-1-0 on GPU-a: ")
    assert problem in found.disagreement
    later = after(GOOD, start=found)
    assert (later.limits, later.verified, later.disagreement) == ((IN_FORCE,), False, found.disagreement)


def test_what_a_pod_that_is_gone_had_is_forgotten() -> None:
    assert evaluate(after(GOOD), {"w": WHOLE}, ()).limits == ()


def test_limits_are_asked_for_of_every_gpu_of_a_running_container_that_wants_them() -> None:
    two = replace(POD, quota_mib={"GPU-b": SHARE, "GPU-a": SHARE})
    waiting = replace(POD, pod_uid="v", container="")
    gone = replace(POD, pod_uid="x", container="ff" * 32)
    leaves = {ID: Path("/leaf")}
    assert asked([two, WHOLE, waiting, gone], leaves.get) == (ASKED, replace(ASKED, gpu_uuid="GPU-b"))
