"""Asking rank 0 of running jobs for progress, over HTTP, and keeping the latest answer."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from cotenant import contract
from cotenant.api.conversion.placements import from_placement
from cotenant.api.resources.placement_status import Isolation
from cotenant.controller.client.kube import PODS, TRAINING_JOBS
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, ProgressSample
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.isolation.node_isolation import NodeIsolation
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.manifests import worker_pod
from cotenant.controller.reports import progress_request
from cotenant.controller.reports.progress_poller import AT_ONCE, AT_ONCE_OF_A_NAMESPACE, Ask, ProgressPoller
from cotenant.controller.reports.progress_request import DEADLINE_S, get_progress
from cotenant.controller.reports.slow_gpus import SlowGpus
from cotenant.controller.settings import Settings
from cotenant.controller.telemetry.metrics import Metrics
from tests.controller.builders import T0, UID, attempt, job_document, placement_on, pod_document
from tests.support.fake_kube import FakeKube

JOB = JobId("red", "train", UID)
NONE = NodeIsolation(simulated=True, best=Isolation.NONE)
BLOCKS = {"hostile": 1, "honest": 2}
"""Second part of the addresses of each namespace's pods."""
ANSWER = contract.Progress(state="training", step=7)


class Poller:
    """A poller over one running job, whose rank 0 gives these answers one after the other; None: nobody answers."""

    def __init__(
        self,
        *answers: contract.Progress | contract.Malformed | bytes | None,
        leads: bool = True,
        ask: Ask | None = None,
    ) -> None:
        self.answers = list(answers)
        self.leads = leads
        self.asked: list[str] = []
        self.versions = count(20)
        self.metrics = Metrics()
        self.memories = JobMemories()
        self.cache = ObjectCache()
        slow_gpus = SlowGpus(FakeKube(), self.cache, self.memories)
        self.poller = ProgressPoller(
            self.cache,
            self.memories,
            self.metrics,
            slow_gpus,
            leadership=Leadership(lambda: self.leads),
            every_s=5.0,
            ask=ask or self.answer,
            clock=lambda: T0,
        )
        self.put_job(version=5)
        self.cache.pop_changes()

    def put_more(self, namespace: str, count: int) -> None:
        """Running jobs beside `train`, each with its pod of rank 0 at the address of its name: `10.1.0.3`."""
        for number in range(count):
            job, uid, placement = f"more-{number}", f"{namespace}-{number}", placement_on(("n1", 1))
            status = from_placement(placement, admitted_at=0.0, isolation=Isolation.NONE).to_document()
            document = job_document(job, status={"phase": "Running", "attempts": 1, "placement": status})
            document["metadata"] |= {"namespace": namespace, "uid": uid}
            self.cache.put(TRAINING_JOBS, document)
            made = attempt(namespace=namespace, job=job, uid=uid, number=1, placement=placement)
            pod = worker_pod.pod(made, 0, Settings(), NONE).pod
            pod["metadata"] |= {"uid": f"pod-{uid}", "resourceVersion": "7"}
            pod["spec"]["nodeName"] = "n1"
            pod["status"] = {"phase": "Running", "podIP": f"10.{BLOCKS[namespace]}.{number // 256}.{number % 256}"}
            self.cache.put(PODS, pod)

    def put_job(self, *, version: int, phase: str = "Running") -> None:
        placement = from_placement(placement_on(("n1", 1)), admitted_at=0.0, isolation=Isolation.NONE).to_document()
        document = job_document(status={"phase": phase, "attempts": 1, "placement": placement})
        document["metadata"]["resourceVersion"] = str(version)
        self.cache.put(TRAINING_JOBS, document)
        self.put_pod()

    def put_pod(self, *, address: str = "10.0.0.7", **changes: Any) -> None:
        document = pod_document(0, node=changes.pop("node", "n1"), status={"phase": "Running", "podIP": address})
        document["spec"] |= changes
        version = next(self.versions)
        document["metadata"] |= {"resourceVersion": str(version), "uid": f"pod-{version}"}
        self.cache.remove(PODS, "red", "train-1-0", f"pod-{version - 1}")
        self.cache.put(PODS, document)

    async def answer(self, address: str, bytes_max: int) -> bytes | contract.Malformed | None:
        self.asked.append(address)
        answer = self.answers.pop(0)
        return answer.to_json().encode() if isinstance(answer, contract.Progress) else answer

    async def poll(self) -> None:
        """Poll once for each answer."""
        while self.answers:
            await self.poll_running()

    async def poll_running(self) -> int:
        """Poll every running job once and return their number."""
        running = self.poller._running()
        await self.poller._poll_all(running)
        return len(running)

    @property
    def sample(self) -> ProgressSample | None:
        return self.memories[JOB].progress

    def polls(self, outcome: str) -> float:
        return self.metrics.registry.get_sample_value("cotenant_progress_polls_total", {"outcome": outcome}) or 0.0


async def test_the_latest_answer_is_kept_and_the_job_is_looked_at_again() -> None:
    poller = Poller(ANSWER)
    await poller.poll()
    assert poller.memories[JOB].progress == ProgressSample(1, ANSWER, T0)
    assert (poller.cache.pop_changes().jobs, poller.polls("ok")) == ({JOB}, 1.0)


async def test_an_answer_that_says_the_same_changes_nothing() -> None:
    poller = Poller(ANSWER)
    poller.memories[JOB].progress = before = ProgressSample(1, ANSWER, T0 - 100)
    await poller.poll()
    assert (poller.memories[JOB].progress is before, poller.cache.pop_changes().jobs) == (True, set())


async def test_only_a_step_that_moved_is_movement() -> None:
    metrics_only = replace(ANSWER, metrics={"loss": 0.5})
    poller = Poller(metrics_only)
    poller.memories[JOB].progress = ProgressSample(1, ANSWER, T0 - 100)
    await poller.poll()
    assert poller.memories[JOB].progress == ProgressSample(1, metrics_only, T0 - 100)


async def test_a_rank_that_does_not_answer_is_no_fault_and_its_last_answer_stays() -> None:
    poller = Poller(ANSWER, None)
    await poller.poll()
    assert poller.sample == ProgressSample(1, ANSWER, T0)
    assert (poller.polls("ok"), poller.polls("failed")) == (1.0, 1.0)


async def test_of_a_job_that_does_not_run_any_more_nothing_is_kept() -> None:
    poller = Poller(ANSWER)
    await poller.poll()
    poller.put_job(version=6, phase="Succeeded")
    assert await poller.poll_running() == 0
    assert poller.sample is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"[" * 1000, "nests more than 4 deep"),
        (b'{"step": ' + b"9" * 5000 + b"}", "holds a number of more than 32 digits"),
        (b"\xff\xfe", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "is not an object"),
        (contract.Malformed("is a redirect, which is not followed"), "is a redirect, which is not followed"),
    ],
    ids=["deep", "digits", "bytes", "list", "redirect"],
)
async def test_an_answer_that_does_not_pass_is_a_sentence_beside_the_last_one_that_did(
    answer: bytes | contract.Malformed, why: str
) -> None:
    poller = Poller(ANSWER, answer, answer)
    await poller.poll()
    warning = f"the progress of rank 0 cannot be read: the answer of its pod {why}"
    assert poller.sample == ProgressSample(1, replace(ANSWER, warnings=(warning,)), T0)
    assert (poller.polls("ok"), poller.polls("malformed")) == (1.0, 2.0)


async def test_a_follower_asks_nobody_and_keeps_nothing() -> None:
    poller = Poller(ANSWER)
    await poller.poll()
    poller.leads, poller.asked = False, []
    assert await poller.poll_running() == 0
    assert (poller.sample, poller.asked) == (None, [])


@pytest.mark.parametrize(
    "pod",
    [
        {"address": ""},
        {"address": "169.254.169.254"},
        {"address": "127.0.0.1"},
        {"address": "::1"},
        {"address": "kubernetes.default"},
        {"address": "10.0.0.7", "hostNetwork": True},
        {"node": "n2"},
        {"containers": []},
        {"containers": pod_document(0, attempt=2)["spec"]["containers"]},
        {"containers": pod_document(1)["spec"]["containers"]},
    ],
    ids=lambda pod: str(pod)[:40],
)
async def test_only_the_pod_of_the_committed_placement_is_asked_and_at_its_own_address(pod: dict[str, Any]) -> None:
    poller = Poller()
    poller.put_pod(**pod)
    await poller.poll_running()
    assert poller.asked == []


async def test_what_goes_wrong_with_one_job_is_counted_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    poller = Poller(ANSWER)
    monkeypatch.setattr(poller.poller, "_keep", lambda *_: 1 // 0)
    await poller.poll()
    assert poller.polls("failed") == 1.0
    assert "the progress of red/train was not taken" in caplog.text


@pytest.mark.looptime
async def test_pods_that_let_the_operator_wait_delay_nobody_elses_polls() -> None:
    """Three hundred pods of one tenant answer a byte a second, as slow loris does; three of another answer at once."""
    loop, asked = asyncio.get_running_loop(), defaultdict[str, list[float]](list)
    open_at_once, most = Counter[str](), Counter[str]()

    async def ask(address: str, bytes_max: int) -> bytes | None:
        who = address.rpartition(".")[0] if address.startswith("10.1.") else address
        asked[address].append(loop.time())
        open_at_once[who] += 1
        most["all"] = max(most["all"], open_at_once.total())
        await asyncio.sleep(DEADLINE_S if address.startswith("10.1.") else 0.01)
        open_at_once[who] -= 1
        return None if address.startswith("10.1.") else ANSWER.to_json().encode()

    poller = Poller(ask=ask)
    poller.put_job(version=6, phase="Succeeded")
    poller.put_more("hostile", 300)
    poller.put_more("honest", 3)
    rounds = asyncio.create_task(poller.poller.run())
    await asyncio.sleep(61)
    rounds.cancel()
    pause = 303 / 40  # of `POLLS_PER_S`
    due = [round(number * pause, 3) for number in range(9)]
    honest = {address: [round(at, 3) for at in times] for address, times in asked.items() if address[:5] == "10.2."}
    assert honest == {f"10.2.0.{number}": due for number in range(3)}
    assert most["all"] <= AT_ONCE_OF_A_NAMESPACE + 3
    hostile = [len(times) for address, times in asked.items() if address.startswith("10.1.")]
    assert (len(hostile), max(hostile)) == (300, 2), "each in its turn, none twice before all others"


async def test_pods_that_never_answer_hold_no_more_connections_than_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most, held = 0, set[asyncio.StreamWriter]()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most
        held.add(writer)
        most = max(most, len(held))
        await reader.read()
        held.discard(writer)
        writer.close()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setattr(progress_request, "DEADLINE_S", 0.05)
    poller = Poller(ask=lambda _, bytes_max: get_progress("127.0.0.1", port, bytes_max=bytes_max))
    for namespace in BLOCKS:
        poller.put_more(namespace, 60)
    async with server:
        assert await poller.poll_running() == 121
    assert (poller.polls("failed"), 1 < most <= AT_ONCE) == (121.0, True)
