"""Jobs are looked at for minutes before anything is said, and then it is said once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant import names
from cotenant.api.resources.trainingjob_status import SuggestionStatus
from cotenant.contract import Progress
from cotenant.controller.client.kube import GPU_NODES, TRAINING_JOBS
from cotenant.controller.informers.job_memory import ProgressSample
from cotenant.controller.lifecycle.policies.idle_timeout import IMPORT_S
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.reports.use_watch import EVERY_S, UseWatch
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import JOB_ID, T0, UID, admitted, job_document, new_cluster, observed, pod

UUID = "GPU-n1-0"


class World:
    """One running job, with a share of one GPU."""

    def __init__(self, *, simulated: bool = False, **spec: Any) -> None:
        self.cluster, self.now, self.version = new_cluster(), T0 + 10, 5
        self.simulated, self.spec = simulated, spec
        self.memories = self.cluster.view._memories
        self.watch = UseWatch(
            self.cluster.cache,
            self.memories,
            clock=lambda: self.now,
        )
        self.writes = 0
        self.put(admitted(Phase.RUNNING, ("n1", 1)))

    def put(self, status: Any) -> None:
        self.version += 1
        document = job_document(status=status.to_document(), **self.spec)
        document["metadata"]["resourceVersion"] = str(self.version)
        self.cluster.cache.put(TRAINING_JOBS, document)

    async def look(self, busy: int, *, step: bool = True, peak: int = 30_000, beat: bool = True) -> None:
        self.now += EVERY_S
        memory, record = self.memories[JOB_ID], self.cluster.cache.jobs[JOB_ID.key]
        memory.progress = ProgressSample(1, Progress(state="training", step=7 if step else 0), self.now)
        if beat:
            self.version += 1
            self.cluster.cache.put(GPU_NODES, self.node(busy, peak))
        await self.watch.look()
        o = observed(record.status, pod(ready=True), now=self.now, low_use=memory.use_finding)
        written = reconcile(o, Settings()).status
        if written is not None and written.conditions != record.status.conditions:
            self.writes += 1
            self.put(written)

    def node(self, busy: int, peak: int) -> dict[str, Any]:
        held = {"uuid": UUID, "memoryMiB": 32_768, "computeMilli": 400}
        holder = {
            "podUID": "p", "namespace": "red", "pod": "train-1-0", "job": "train", "jobUID": UID, "attempt": 1,
            "nodeRank": 0, "gpus": [held], "since": "2026-01-01T00:00:00Z", "evidence": "Pod",
        }  # fmt: skip
        gpu = {
            "uuid": UUID, "index": 0, "class": "H100", "memoryMiB": 81_920,
            "used": {"memoryMiB": peak, "utilizationPercent": busy},
            "processes": [{"podUID": "p", "memoryMiB": peak}],
        }  # fmt: skip
        at = datetime.fromtimestamp(self.now, UTC).isoformat()
        return {
            "apiVersion": names.API_VERSION,
            "kind": "GPUNode",
            "metadata": {"name": "n1", "uid": "g", "resourceVersion": str(self.version)},
            "status": {"heartbeat": at, "gpus": [gpu], "holders": [holder], "simulated": self.simulated},
        }

    @property
    def said(self) -> tuple[str, str] | None:
        conditions = self.cluster.cache.jobs[JOB_ID.key].status.conditions
        found = next((one for one in conditions if one.type == "LowUse"), None)
        return (found.status, found.reason) if found else None


async def test_it_takes_ten_minutes_to_be_said_and_is_written_once() -> None:
    world = World()
    for number in range(200):
        await world.look(100 * (number % 3 == 0))
        if number == 39:
            assert world.said is None
    assert (world.said, world.writes) == (("True", "LoaderBound"), 1)


async def test_what_is_not_so_any_more_becomes_false_after_ten_minutes() -> None:
    world = World()
    for number in range(60):
        await world.look(100 * (number % 3 == 0))
    for _ in range(60):
        await world.look(95)
    assert (world.said, world.writes) == (("False", "WellUsed"), 2)


@settings(deadline=None, max_examples=15)
@given(busy=st.lists(st.integers(0, 100), min_size=150, max_size=250))
async def test_whatever_is_measured_the_condition_changes_at_most_once_in_ten_minutes(busy: list[int]) -> None:
    world = World()
    for one in busy:
        await world.look(one)
    assert world.writes <= len(busy) * EVERY_S / 600


async def test_a_job_that_imports_is_not_looked_at_and_one_that_never_begins_is_idle() -> None:
    world = World()
    while world.now < T0 + 10 + IMPORT_S - EVERY_S:
        await world.look(0, step=False)
    assert world.memories[JOB_ID].use is None
    for _ in range(45):
        await world.look(0, step=False)
    assert world.said == ("True", "GPUIdle")


async def test_an_agent_that_is_silent_says_nothing() -> None:
    world = World()
    await world.look(0)
    for _ in range(100):
        await world.look(0, beat=False)
    assert world.said is None


@pytest.mark.parametrize("leads", [True, False])
async def test_gpus_that_are_simulated_are_not_judged(leads: bool) -> None:
    world = World(simulated=leads)
    for _ in range(60):
        await world.look(0 if leads else 95)
    assert world.said is None


async def test_a_session_is_left_to_its_own_conditions() -> None:
    world = World()
    for _ in range(60):
        world.now += EVERY_S
        world.version += 1
        world.memories[JOB_ID].progress = ProgressSample(1, Progress(state="running", busy=False), world.now)
        world.cluster.cache.put(GPU_NODES, world.node(0, 1))
        await world.watch.look()
    assert world.memories[JOB_ID].use is None


async def test_a_job_that_does_not_run_any_more_is_forgotten() -> None:
    world = World()
    await world.look(0)
    assert world.memories[JOB_ID].use is not None
    world.put(admitted(Phase.EVICTING, ("n1", 1)))
    await world.watch.look()
    assert world.memories[JOB_ID].use is None


@pytest.mark.parametrize(
    ("gpu", "known"),
    [
        pytest.param({"memoryFraction": "0.4"}, True, id="a share"),
        pytest.param({"count": 1}, False, id="whole GPUs, which have no size"),
    ],
)
async def test_the_peak_of_a_share_is_known_after_ten_minutes_and_written_when_it_grows(
    gpu: dict[str, Any], known: bool
) -> None:
    world, written = World(gpu=gpu), []
    for number in range(120):
        await world.look(95, peak=9_000 if number < 80 else 20_000)
        peak = world.memories[JOB_ID].peak
        if peak is not None:
            written.append((number, peak.needed_mib))
            record = world.cluster.cache.jobs[JOB_ID.key]
            made = SuggestionStatus(memory_mib=peak.needed_mib, peak_mib=peak.peak_mib, at=world.now)
            world.put(record.status.model_copy(update={"suggestion": made}))
    assert written == ([(40, 11_264), (80, 25_600)] if known else [])
