"""The threads that talk to the driver: a call that never returns stops the news and nothing else."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from cotenant_agent.failures import Failures, Step
from cotenant_agent.gpus.readings import (
    AskedLimit,
    GpuInventory,
    GpuSample,
    GpuSource,
    GpuSourceError,
    LimitReading,
    XidEvent,
)
from cotenant_agent.gpus.sampler import GpuSampler, XidListener

NOTHING = GpuInventory(simulated=True, gpus=())


class ScriptedSource(GpuSource):
    """A source whose calls do what the test says: answer, fail, or hang until `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.mood: Callable[[], None] = lambda: None
        self.xids: list[XidEvent | Exception] = []
        self.calls = 0

    def inventory(self) -> GpuInventory:
        return NOTHING

    def samples(self) -> tuple[GpuSample, ...]:
        self.calls += 1
        self.mood()
        return (GpuSample(uuid=f"look {self.calls}"),)

    def wait_for_xid(self, timeout_s: float) -> XidEvent | None:
        if not self.xids:
            self.release.wait(timeout_s)
            return None
        found = self.xids.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def can_read_limits(self) -> bool:
        return True

    def memory_limit(self, asked: AskedLimit) -> LimitReading | None:
        self.mood()
        return LimitReading(hard_mib=len(asked.cgroup))

    def reset(self, uuid: str) -> str:
        if uuid == "GPU-odd":
            raise ValueError("odd")
        return "" if uuid == "GPU-good" else "in use"

    def fail(self) -> None:
        raise GpuSourceError("the driver is not there")

    def hang(self) -> None:
        self.release.wait(60)


def wait_until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.005)


@pytest.fixture
def world() -> Iterator[tuple[ScriptedSource, threading.Event]]:
    source, stop = ScriptedSource(), threading.Event()
    yield source, stop
    stop.set()
    source.release.set()


def test_resets_are_done_between_two_looks_and_the_next_one_has_the_answers(
    world: tuple[ScriptedSource, threading.Event],
) -> None:
    source, stop = world
    failures = Failures()
    sampler = GpuSampler(source, stop, failures, every_s=60)
    for uuid in ("GPU-good", "GPU-held", "GPU-odd"):
        sampler.ask_reset(uuid)
    sampler.start()
    wait_until(lambda: sampler.latest, "a first look")
    assert sampler.latest is not None
    assert sampler.latest.resets == (("GPU-good", ""), ("GPU-held", "in use"), ("GPU-odd", "ValueError: odd"))
    assert failures.counts()[Step.RESET] == 1


def test_looks_follow_one_another(world: tuple[ScriptedSource, threading.Event]) -> None:
    source, stop = world
    sampler = GpuSampler(source, stop, Failures(), every_s=0.001)
    sampler.start()
    wait_until(lambda: sampler.latest, "a first look")
    first = sampler.latest
    wait_until(lambda: sampler.latest is not first, "a second look")


def test_a_poll_has_the_limits_that_are_asked_for_by_then(world: tuple[ScriptedSource, threading.Event]) -> None:
    source, stop = world
    asked = [AskedLimit("u", "GPU-a", cgroup) for cgroup in ("/a", "/ab")]
    sampler = GpuSampler(source, stop, Failures(), every_s=0.001, asked=lambda: asked)
    sampler.start()
    wait_until(lambda: sampler.latest, "a first look")
    assert sampler.latest is not None
    assert sampler.latest.limits == tuple((one, LimitReading(hard_mib=len(one.cgroup))) for one in asked)


def test_a_call_that_hangs_leaves_the_last_look_as_it_was(world: tuple[ScriptedSource, threading.Event]) -> None:
    source, stop = world
    sampler = GpuSampler(source, stop, Failures(), every_s=0.001)
    sampler.start()
    wait_until(lambda: sampler.latest, "a look")
    source.mood = source.hang
    calls = source.calls
    wait_until(lambda: source.calls > calls, "the call that hangs")
    last = sampler.latest
    assert last is not None
    assert last.samples[0].uuid != f"look {source.calls}"
    source.mood = lambda: None
    source.release.set()
    wait_until(lambda: sampler.latest is not last, "a look after the driver came back")


def test_a_driver_that_fails_is_said_once_and_asked_again(
    world: tuple[ScriptedSource, threading.Event], caplog: pytest.LogCaptureFixture
) -> None:
    source, stop = world
    source.mood = source.fail
    sampler = GpuSampler(source, stop, Failures(), every_s=0.001)
    sampler.start()
    wait_until(lambda: source.calls >= 5, "five attempts")
    assert sampler.latest is None
    assert [record.getMessage() for record in caplog.records] == [
        "GPUs cannot be read, the heartbeat stands still: the driver is not there"
    ]
    source.mood = lambda: None
    wait_until(lambda: sampler.latest, "a look after the driver came back")


def test_a_defect_in_a_poll_or_an_event_ends_no_thread_and_is_counted(
    world: tuple[ScriptedSource, threading.Event],
) -> None:
    source, stop = world
    failures, moods = Failures(), iter([ValueError("not a number"), RecursionError("too deep")])

    def fail_at_first() -> None:
        if (error := next(moods, None)) is not None:
            raise error

    source.mood, source.xids = fail_at_first, [KeyError("code"), XidEvent("a", 13, 1.0)]
    sampler, listener = (
        GpuSampler(source, stop, failures, every_s=0.001),
        XidListener(source, stop, failures, timeout_s=0.001),
    )
    sampler.start()
    listener.start()
    wait_until(lambda: sampler.latest and not source.xids, "a look and an event after the defects")
    assert (failures.counts()[Step.POLL], failures.counts()[Step.EVENTS]) == (2, 1)


def test_events_are_handed_over_in_order_and_once(world: tuple[ScriptedSource, threading.Event]) -> None:
    source, stop = world
    source.xids = [XidEvent("a", 13, 1.0), GpuSourceError("no events"), XidEvent("b", 79, 2.0)]
    listener = XidListener(source, stop, Failures(), timeout_s=0.001)
    listener.start()
    wait_until(lambda: not source.xids, "all events taken from the driver")
    heard: list[XidEvent] = []

    def both_drained() -> bool:
        heard.extend(listener.drain())
        return len(heard) == 2

    wait_until(both_drained, "both events handed over")
    assert heard == [XidEvent("a", 13, 1.0), XidEvent("b", 79, 2.0)]
    assert listener.drain() == []
