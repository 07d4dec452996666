"""What is known of one job, put together: which source each part comes from, and of which attempt."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import ProgressStatus
from cotenant.contract import Progress
from cotenant.controller.client.kube import GPU_NODES, NODES, TRAINING_JOBS
from cotenant.controller.informers.job_memory import JobMemory, ObjectCreation, ProgressSample
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.observation import Observation, PlacementObserved
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0
from tests.controller.execution.replica import Replica, gpu_node, node, start_pods, submit

pytestmark = pytest.mark.looptime

SEES = {"0": ["GPU-n1-0"], "1": ["GPU-n1-1"], "2": ["GPU-n2-0"], "3": ["GPU-n2-1"]}


async def running() -> Replica:
    """A job that runs on all GPUs."""
    replica = Replica()
    submit(replica.kube)
    await replica.run()
    await start_pods(replica.kube)
    await replica.run()
    assert record_of(replica).phase is Phase.RUNNING
    return replica


def record_of(replica: Replica) -> JobRecord:
    return replica.operator.cache.jobs["red/train"]


def memory_of(replica: Replica) -> JobMemory:
    return replica.operator.memories[record_of(replica).id]


def observe(replica: Replica) -> Observation:
    replica.observe()
    return replica.operator.loop.observer.observe(record_of(replica), time.time())


async def test_a_job_that_runs_is_seen_with_its_pods_and_what_it_holds() -> None:
    replica = await running()
    seen = observe(replica)
    assert sorted(pod.name for pod in seen.pods) == ["train-1-0", "train-1-1"]
    assert (seen.of_placement, seen.now) == (PlacementObserved(held_milli=4000, gpu_class="H100"), time.time())
    assert (seen.problem, seen.progress, seen.idle_since) == (None, None, None)


async def test_a_job_that_waits_has_no_placement_to_look_at() -> None:
    replica = Replica()
    submit(replica.kube)
    replica.observe()
    memory_of(replica).creation = ObjectCreation(0, rejection="of old", delay="of old")
    seen = observe(replica)
    assert (seen.pods, seen.of_placement) == ((), PlacementObserved())


async def test_a_spec_that_cannot_be_read_is_a_problem() -> None:
    replica = Replica()
    spec = {"queue": "red", "workers": 1, "gpu": {"count": "many"}, "runtime": {"entrypoint": "train:main"}}
    replica.kube.put(TRAINING_JOBS, submit(replica.kube) | {"spec": spec})
    seen = observe(replica)
    assert (seen.problem is None, seen.spec) == (False, None)


async def test_progress_is_passed_on_only_when_the_status_does_not_have_it() -> None:
    replica = await running()
    memory_of(replica).progress = ProgressSample(1, Progress(state="training", step=7, observed_gpus=SEES), T0)
    progress = observe(replica).progress
    assert (progress and (progress.step, progress.state), observe(replica).of_placement.isolation.mismatch) == (
        (7, "training"),
        "",
    )
    status = record_of(replica).status.model_copy(update={"progress": progress})
    known = replica.operator.loop.observer.observe(replace(record_of(replica), status=status), time.time())
    assert (isinstance(progress, ProgressStatus), known.progress) == (True, None)


async def test_a_rank_that_sees_gpus_of_another_is_a_mismatch() -> None:
    replica = await running()
    wrong = SEES | {"1": ["GPU-n1-0"]}
    memory_of(replica).progress = ProgressSample(1, Progress(state="training", step=7, observed_gpus=wrong), T0)
    assert "rank 1" in observe(replica).of_placement.isolation.mismatch


async def test_what_an_earlier_attempt_left_in_memory_is_not_seen() -> None:
    replica = await running()
    wrong = SEES | {"1": ["GPU-n1-0"]}
    memory_of(replica).progress = ProgressSample(0, Progress(state="training", step=7, observed_gpus=wrong), T0)
    memory_of(replica).creation = ObjectCreation(0, rejection="refused", delay="late")
    seen = observe(replica)
    assert (seen.progress, seen.of_placement) == (None, PlacementObserved(held_milli=4000, gpu_class="H100"))


async def test_what_stands_in_the_way_of_the_pods_of_this_attempt_is_seen() -> None:
    replica = await running()
    memory_of(replica).creation = ObjectCreation(1, rejection="refused", delay="late")
    of_placement = observe(replica).of_placement
    assert (of_placement.creation_rejection, of_placement.creation_delay) == ("refused", "late")


async def test_a_placement_that_the_pods_contradict_is_an_error() -> None:
    replica = await running()
    placement = record_of(replica).status.placement
    assert placement is not None
    halved = placement.model_copy(update={"nodes": placement.nodes[:1]})
    status = record_of(replica).status.model_copy(update={"placement": halved})
    record = replace(record_of(replica), status=status)
    assert replica.operator.loop.observer.observe(record, time.time()).of_placement.error is not None


async def test_nodes_that_do_not_answer_and_memory_beyond_a_share_are_seen() -> None:
    replica = await running()
    uid = replica.operator.cache.pods_of(record_of(replica).id)["train-1-0"].uid
    since = "2026-01-01T00:00:01Z"
    violation = {"podUID": uid, "uuid": "GPU-n1-0", "memoryMiB": 2, "quotaMiB": 1, "since": since}
    agent = gpu_node("n1")
    replica.kube.put(GPU_NODES, agent | {"status": agent["status"] | {"violations": [violation]}})
    silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    replica.kube.put(NODES, node("n2") | {"status": node("n2")["status"] | {"conditions": [silent]}})
    of_pods = observe(replica).of_pods
    assert (list(of_pods.violations), of_pods.unreachable_nodes) == ([uid], {"n2": time.time()})


async def test_when_a_job_with_an_idle_timeout_last_moved_is_remembered_from_one_look_to_the_next() -> None:
    replica = await running()
    document = replica.kube.stored(TRAINING_JOBS, "train", "red")
    assert document is not None
    replica.kube.put(TRAINING_JOBS, document | {"spec": document["spec"] | {"idleTimeout": "1h"}})
    replica.observe()
    record, observer = record_of(replica), replica.operator.loop.observer
    seen = [observer.observe(record, T0 + seconds).idle_since for seconds in (100, 200)]
    memory_of(replica).progress = ProgressSample(1, Progress(state="training"), T0 + 150)
    moved = observer.observe(record, T0 + 300).idle_since
    assert (seen, moved) == ([T0 + 100, T0 + 100], T0 + 150)
