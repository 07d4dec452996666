"""Asking rank 0 of running jobs for progress, over HTTP, and keeping the latest answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from cotenant import contract, names
from cotenant.api.conversion.to_core import from_placement
from cotenant.api.resources.trainingjob_status import Isolation
from cotenant.controller.client.kube import PODS, TRAINING_JOBS
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, ProgressSample
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.reports.progress_poller import ProgressPoller
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.builders import T0, UID, job_document, placement_on, pod_document
from tests.support.fake_kube import FakeKube

JOB = JobId("red", "train", UID)
ANSWER = contract.Progress(state="training", step=7)


class Poller:
    """A poller over one running job, whose rank 0 gives these answers one after the other: an int is a status code."""

    def __init__(self, *answers: contract.Progress | int) -> None:
        self.answers = list(answers)
        self.metrics = Metrics()
        self.memories = JobMemories()
        self.cache = ObjectCache()
        slow_gpus = SlowGpus(FakeKube(), self.cache, self.memories)
        self.poller = ProgressPoller(self.cache, self.memories, self.metrics, slow_gpus, every_s=5.0)
        self.put_job(version=5)
        self.cache.pop_changes()

    def put_job(self, *, version: int, phase: str = "Running") -> None:
        placement = from_placement(placement_on(("n1", 1)), admitted_at=0.0, isolation=Isolation.NONE).to_document()
        document = job_document(status={"phase": phase, "attempts": 1, "placement": placement})
        document["metadata"]["resourceVersion"] = str(version)
        self.cache.put(TRAINING_JOBS, document)
        self.cache.put(PODS, pod_document(0, status={"phase": "Running", "podIP": "127.0.0.1"}))

    async def respond(self, _: web.Request) -> web.Response:
        answer = self.answers.pop(0)
        return web.Response(status=answer) if isinstance(answer, int) else web.Response(text=answer.to_json())

    @asynccontextmanager
    async def session(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[aiohttp.ClientSession]:
        """A client, with rank 0 at the other end."""
        app = web.Application()
        app.router.add_get("/progress", self.respond)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        monkeypatch.setattr(names, "PROGRESS_PORT", runner.addresses[0][1])
        monkeypatch.setattr("time.time", lambda: T0)
        async with aiohttp.ClientSession() as session:
            yield session
        await runner.cleanup()

    async def poll(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As many rounds as there are answers."""
        async with self.session(monkeypatch) as session:
            while self.answers:
                await self.poller.poll_running(session)

    def polls(self, outcome: str) -> float:
        return self.metrics.registry.get_sample_value("cotenant_progress_polls_total", {"outcome": outcome}) or 0.0


async def test_the_latest_answer_is_kept_and_the_job_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    poller = Poller(ANSWER)
    await poller.poll(monkeypatch)
    assert poller.memories[JOB].progress == ProgressSample(1, ANSWER, T0)
    assert (poller.cache.pop_changes().jobs, poller.polls("ok")) == ({JOB}, 1.0)


async def test_an_answer_that_says_the_same_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    poller = Poller(ANSWER)
    poller.memories[JOB].progress = before = ProgressSample(1, ANSWER, T0 - 100)
    await poller.poll(monkeypatch)
    assert (poller.memories[JOB].progress is before, poller.cache.pop_changes().jobs) == (True, set())


async def test_only_a_step_that_moved_is_movement(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics_only = replace(ANSWER, metrics={"loss": 0.5})
    poller = Poller(metrics_only)
    poller.memories[JOB].progress = ProgressSample(1, ANSWER, T0 - 100)
    await poller.poll(monkeypatch)
    assert poller.memories[JOB].progress == ProgressSample(1, metrics_only, T0 - 100)


@pytest.mark.parametrize("failure", [500, 404])
async def test_a_rank_that_does_not_answer_is_no_fault_and_its_last_answer_stays(
    monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    poller = Poller(ANSWER, failure)
    await poller.poll(monkeypatch)
    assert poller.memories[JOB].progress == ProgressSample(1, ANSWER, T0)
    assert (poller.polls("ok"), poller.polls("failed")) == (1.0, 1.0)


async def test_of_a_job_that_does_not_run_any_more_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    poller = Poller(ANSWER)
    await poller.poll(monkeypatch)
    poller.put_job(version=6, phase="Succeeded")
    async with poller.session(monkeypatch) as session:
        assert await poller.poller.poll_running(session) == 0
    assert poller.memories[JOB].progress is None
