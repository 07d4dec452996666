"""When a share of compute is held, and when what MPS shows contradicts it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant_agent.enforcement.compute_limits import AskedShare, DaemonReading, GpuOccupants, evaluate
from cotenant_agent.enforcement.read_back import POLLS, DeviceLimit, LimitsOfNode, LimitState

SHARE = AskedShare("u", "GPU-a", "cu", 405)
GOOD = DaemonReading(
    server_pid=9,
    percents={"cu": 40, "default": 1},
    clients={11: "cu", 12: "cu", 21: "cv"},
    expected=frozenset({"cu", "cv"}),
)
HERE = GpuOccupants(exclusive=True, pids_by_pod={"u": frozenset({11, 12}), "v": frozenset({21})})
UNKNOWN = DeviceLimit(pod_uid="u", gpu_uuid="GPU-a", wanted=405, dimension="Compute")
IN_FORCE = replace(UNKNOWN, state=LimitState.IN_FORCE, in_force=400)
HELD = LimitsOfNode((IN_FORCE,), verified=True)


def after(
    before: LimitsOfNode, reading: DaemonReading | None, here: GpuOccupants = HERE, times: int = POLLS
) -> LimitsOfNode:
    readings = {} if reading is None else {"GPU-a": reading}
    for _ in range(times):
        before = evaluate(before, [SHARE], readings, {"GPU-a": here})
    return before


def test_a_share_is_held_where_every_process_of_the_pod_is_a_client_in_its_namespace_on_an_exclusive_gpu() -> None:
    assert after(LimitsOfNode(), GOOD, times=1) == HELD


@pytest.mark.parametrize(
    ("reading", "here"),
    [
        pytest.param(GOOD, replace(HERE, exclusive=False), id="a GPU that is open to all"),
        pytest.param(GOOD, replace(HERE, exclusive=None), id="a driver that does not show whether it is"),
        pytest.param(GOOD, GpuOccupants(exclusive=True), id="nobody on the GPU yet"),
        pytest.param(None, HERE, id="a daemon that does not answer"),
        pytest.param(
            replace(GOOD, percents={"default": 1}, expected=frozenset({"cv"})), HERE, id="a share that came since"
        ),
        pytest.param(
            replace(GOOD, clients={1: "cu", 2: "cu"}), HERE, id="a daemon that numbers processes in its own way"
        ),
    ],
)
def test_what_is_missing_of_it_is_no_level_and_no_disagreement(
    reading: DaemonReading | None, here: GpuOccupants
) -> None:
    found = after(LimitsOfNode(), reading, here)
    assert found == LimitsOfNode((UNKNOWN,), found.doubts, found.unread)


ABSENT = replace(UNKNOWN, state=LimitState.ABSENT)


@pytest.mark.parametrize(
    ("reading", "limit", "said"),
    [
        pytest.param(
            replace(GOOD, percents={"default": 1}), ABSENT, "and MPS has no namespace for it", id="no namespace"
        ),
        pytest.param(
            replace(GOOD, percents={"cu": 100}),
            replace(UNKNOWN, state=LimitState.IN_FORCE, in_force=1000),
            "a share of 405 milli-GPU was given, and MPS lets its clients have 1000",
            id="another ceiling",
        ),
        pytest.param(
            replace(GOOD, clients={11: "cu", 12: "cv", 21: "cv"}),
            ABSENT,
            "its process 12 is in namespace cv",
            id="in the namespace of another",
        ),
        pytest.param(
            replace(GOOD, clients={11: "cu", 21: "cv"}), ABSENT, "its process 12 computes beside MPS", id="beside"
        ),
        pytest.param(replace(GOOD, clients={}), ABSENT, "its process 11 computes beside MPS", id="all of it beside"),
    ],
)
def test_what_contradicts_it_counts_when_it_is_read_twice(
    reading: DaemonReading, limit: DeviceLimit, said: str
) -> None:
    once = after(HELD, reading, times=POLLS - 1)
    assert (once.limits, once.disagreement) == ((IN_FORCE,), "")
    twice = after(HELD, reading)
    assert (twice.limits, twice.verified) == ((limit,), False)
    assert (
        twice.disagreement == f"pod u on GPU-a: {said}"
        if said.startswith(("a ", "its"))
        else said in twice.disagreement
    )
    assert after(twice, GOOD).disagreement == twice.disagreement, "the node is not trusted again by itself"


def test_a_doubt_that_is_gone_by_the_next_reading_was_none() -> None:
    beside = replace(GOOD, clients={11: "cu", 21: "cv"})
    for _ in range(5):
        once = after(HELD, beside, times=POLLS - 1)
        assert after(once, GOOD, times=1) == HELD


@pytest.mark.parametrize("before", [LimitsOfNode(), HELD], ids=["a daemon that starts", "a share that was held"])
def test_readings_that_show_nothing_make_no_doubt_of_the_next_one(before: LimitsOfNode) -> None:
    """A program starts between a reading and the driver's list, because the daemon was slow."""
    silent = after(before, None, times=POLLS + 3)
    once = after(silent, replace(GOOD, clients={}), times=POLLS - 1)
    assert once.disagreement == ""
    assert after(once, GOOD, times=1) == HELD
    open_to_all = after(once, GOOD, replace(HERE, exclusive=None), times=1)
    assert after(open_to_all, replace(GOOD, clients={}), times=POLLS - 1).disagreement == "", "not in a row"


def test_a_reading_is_judged_once_so_that_a_program_that_began_after_it_is_no_doubt() -> None:
    before = after(HELD, replace(GOOD, clients={11: "cu", 21: "cv"}), times=POLLS - 1)
    for _ in range(10):
        before = evaluate(before, [SHARE], {"GPU-a": GOOD}, {"GPU-a": HERE}, fresh=False)
    assert (before.limits, before.disagreement, before.verified) == ((IN_FORCE,), "", True)


def test_a_share_that_was_held_and_cannot_be_seen_any_more_is_not_held() -> None:
    lost = after(HELD, None)
    assert (lost.limits, lost.verified, lost.disagreement) == ((UNKNOWN,), False, "")


def test_between_two_programs_of_a_pod_what_was_found_last_holds() -> None:
    assert after(HELD, GOOD, GpuOccupants(exclusive=True)).limits == (IN_FORCE,)


def test_a_pod_that_is_gone_has_no_limit_and_the_node_stays_verified() -> None:
    assert evaluate(HELD, [], {}, {}) == LimitsOfNode((), verified=True)


@pytest.mark.parametrize(
    ("milli", "ceiling", "held"), [(5, 1, True), (409, 40, True), (410, 40, False), (400, 41, False)]
)
def test_a_ceiling_is_in_percents_and_its_share_in_thousandths(milli: int, ceiling: int, held: bool) -> None:
    share = replace(SHARE, compute_milli=milli)
    reading = {"GPU-a": replace(GOOD, percents={"cu": ceiling})}
    before = LimitsOfNode()
    for _ in range(POLLS):
        before = evaluate(before, [share], reading, {"GPU-a": HERE})
    assert (before.disagreement == "", before.verified) == (held, held)
