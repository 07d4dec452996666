"""A GPU is reset by hand only when nobody holds it, and after everybody knows that it is not handed out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant_agent.gpus.gpu_resets import QUIET_S, GpuReset, GpuResets, GpuUse, ResetState, asked, finished, judged

WHOLE = frozenset({"GPU-a", "GPU-b"})
FREE = GpuUse(known=True, whole=WHOLE, by={})
HELD = GpuUse(known=True, whole=WHOLE, by={"GPU-a": "pod red/a-1-0 holds it"})
WAITS = asked(GpuResets(), ["GPU-a"], 100.0)


def result(state: ResetState, message: str, at: float) -> GpuReset:
    return GpuReset(state=state, message=message, at=at)


@pytest.mark.parametrize(
    ("use", "now", "pending", "running", "results"),
    [
        pytest.param(FREE, 100.0, {"GPU-a"}, "", {}, id="free, and not for long enough"),
        pytest.param(FREE, 100.0 + QUIET_S, {"GPU-a"}, "GPU-a", {}, id="free for long enough"),
        pytest.param(
            HELD, 100.0 + QUIET_S, set(), "",
            {"GPU-a": result(ResetState.REFUSED, "pod red/a-1-0 holds it", 100.0 + QUIET_S)}, id="held",
        ),
        pytest.param(
            GpuUse(known=True, whole=frozenset({"GPU-b"}), by={}), 101.0, set(), "",
            {"GPU-a": result(ResetState.REFUSED, "it is no whole GPU of this node", 101.0)}, id="a MIG instance",
        ),
        pytest.param(
            GpuUse(known=False, whole=WHOLE, by={}), 500.0, {"GPU-a"}, "", {}, id="nobody knows yet who holds GPUs"
        ),
    ],
)  # fmt: skip
def test_a_reset_waits_until_the_gpu_has_stayed_free(
    use: GpuUse, now: float, pending: set[str], running: str, results: dict[str, GpuReset]
) -> None:
    found = judged(WAITS, use, now)
    assert (set(found.pending), found.running, dict(found.results)) == (pending, running, results)


def test_one_runs_at_a_time_and_its_answer_is_kept() -> None:
    both = judged(asked(WAITS, ["GPU-b", "GPU-a"], 100.0), FREE, 140.0)
    assert (both.running, set(both.waiting)) == ("GPU-a", {"GPU-b"})
    assert judged(both, FREE, 141.0) == both
    done = judged(finished(both, "GPU-a", "", 142.0), FREE, 143.0)
    assert (done.running, done.results) == (
        "GPU-b",
        {"GPU-a": result(ResetState.DONE, "the driver has reset it", 142.0)},
    )
    failed = finished(done, "GPU-b", "In use by another client", 144.0)
    assert (failed.pending, failed.results["GPU-b"]) == (
        frozenset(), result(ResetState.FAILED, "In use by another client", 144.0),
    )  # fmt: skip


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "look", "done"]), st.sets(st.sampled_from(["GPU-a", "GPU-b", "MIG-1"]))),
    max_size=30,
)


@given(STEPS)
def test_no_gpu_is_reset_that_was_held_at_any_look_since_it_was_asked_for(steps: list[tuple[str, set[str]]]) -> None:
    """Whatever is asked, held and answered in whatever order; and what runs is never handed out."""
    state, now, last_asked = GpuResets(), 0.0, dict[str, float]()
    for act, uuids in steps:
        now += 10.0
        if act == "ask":
            last_asked |= {uuid: now for uuid in uuids if uuid not in state.pending}
            state = asked(state, sorted(uuids), now)
        elif act == "done" and state.running:
            state = finished(state, state.running, "", now)
        elif act == "look":
            before = state.running
            state = judged(state, GpuUse(known=True, whole=WHOLE, by=dict.fromkeys(uuids, "held")), now)
            if state.running and not before:
                assert state.running in WHOLE - uuids
                assert now - last_asked[state.running] >= QUIET_S
        assert not state.running or state.running in state.pending
