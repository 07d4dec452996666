"""What the core is told: a pod that may still run holds its GPUs, whatever has become of its job. Pure."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.to_core import to_queue
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjob_status import PendingStatus, TrainingJobStatus, UsageStatus
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, PRIORITY_CLASSES, QUEUES, TRAINING_JOBS, Resource
from cotenant.controller.cluster import cluster_view, core_jobs
from cotenant.controller.cluster.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Job, NodePlacement, TenantQueue
from cotenant.core.model.plan import Admit, Plan
from tests.controller.builders import (
    JOB_ID,
    T0,
    UID,
    ObservedCluster,
    admitted,
    job_document,
    new_cluster,
    placement_on,
    pod,
    pod_document,
    terminated,
)


def put_job(
    cluster: ObservedCluster, status: TrainingJobStatus | None = None, *, version: int = 5, **spec: Any
) -> None:
    document = job_document(status=status.to_document() if status else None, **spec)
    document["metadata"]["resourceVersion"] = str(version)
    cluster.cache.put(TRAINING_JOBS, document)


def serve(cluster: ObservedCluster, *namespaces: str, version: int = 1) -> None:
    """A queue for these namespaces."""
    metadata = {"name": "red", "uid": "q", "resourceVersion": str(version)}
    spec = {"namespaces": list(namespaces), "quotas": [{"guaranteed": 1}]}
    cluster.cache.put(QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec})


def held_gpus(cluster: ObservedCluster, now: float = T0 + 100) -> dict[str, list[str]]:
    """Key of the job → GPUs that it holds, for the core."""
    cluster.sync(now)
    return {
        job.key.replace(UID, "uid"): [gpu.uuid for part in nodes(job) for rank in part.ranks for gpu in rank.gpus]
        for job in cluster.snapshot(now).jobs
        if job.placement is not None
    }


def nodes(job: Job) -> list[NodePlacement]:
    return [part for one in (job.placement, job.resizing_from) if one for part in one.nodes]


def pending_jobs(cluster: ObservedCluster, now: float = T0 + 100) -> list[str]:
    cluster.sync(now)
    return [job.key for job in cluster.snapshot(now).jobs if job.placement is None]


def test_a_job_that_waits_is_offered_and_one_that_holds_is_counted() -> None:
    cluster = new_cluster()
    put_job(cluster)
    assert (pending_jobs(cluster), held_gpus(cluster)) == (["red/train"], {})
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 2)), version=6)
    assert (pending_jobs(cluster), held_gpus(cluster)) == ([], {"red/train": ["GPU-n1-0", "GPU-n1-1"]})


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED, Phase.SUSPENDED, Phase.INVALID])
def test_a_job_in_another_phase_is_neither(phase: Phase) -> None:
    cluster = new_cluster()
    put_job(cluster, TrainingJobStatus(phase=phase))
    assert (pending_jobs(cluster), held_gpus(cluster)) == ([], {})


def test_a_suspended_spec_is_not_offered_before_its_phase_says_so() -> None:
    cluster = new_cluster()
    put_job(cluster, suspend=True)
    assert pending_jobs(cluster) == []


def test_the_pods_of_a_deleted_job_hold_their_gpus_until_they_are_gone() -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}
    cluster.cache.put(TRAINING_JOBS, job_document() | {}, deleted=True)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    cluster.cache.put(PODS, pod_document(0, version=99), deleted=True)
    assert held_gpus(cluster) == {}


def test_the_pods_of_a_finished_job_hold_their_gpus_until_they_have_ended() -> None:
    cluster = new_cluster()
    put_job(cluster, TrainingJobStatus(phase=Phase.FAILED, attempts=1))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    cluster.cache.put(PODS, pod_document(0, version=99, status=terminated(1)))
    assert held_gpus(cluster) == {}


def test_the_pods_of_a_job_that_runs_without_a_placement_hold_what_they_were_given() -> None:
    cluster = new_cluster()
    put_job(cluster, TrainingJobStatus(phase=Phase.RUNNING, attempts=1))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


@pytest.mark.parametrize(
    ("written", "observed", "held"),
    [
        pytest.param(None, 5, {}, id="it was refused"),
        pytest.param(7, 6, {"red/train": ["GPU-n1-0"]}, id="it was written, and what is seen is older"),
        pytest.param(7, 7, {}, id="it was written, and what is seen is no older"),
    ],
)
def test_a_decision_counts_until_it_is_refused_or_something_newer_is_seen(
    written: int | None, observed: int, held: dict[str, list[str]]
) -> None:
    cluster = new_cluster()
    put_job(cluster)
    cluster.sync(T0)
    action = Admit(job="red/train", placement=placement_on(("n1", 1)))
    cluster.view.assume(Plan(actions=(action,)), T0)
    cluster.view.resolve_assumption(JobId("red", "train", "of a namesake"), action, None)
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}

    cluster.view.resolve_assumption(JOB_ID, action, written)
    put_job(cluster, version=observed)

    assert cluster.sync(T0).decisions_may_change is (written is None)
    assert held_gpus(cluster) == held


@pytest.mark.parametrize(
    ("label", "queue"),
    [("", "blue"), ("red", "red"), ("green", "blue"), ("missing", "blue")],
    ids=["no label", "a label", "the label of a queue that serves others", "the label of no queue"],
)
def test_gpus_of_a_job_that_is_gone_are_counted_in_a_queue_that_serves_its_namespace(label: str, queue: str) -> None:
    cluster = new_cluster()
    for name, namespaces in (("red", ["red"]), ("green", ["green"]), ("blue", ["blue", "red"]), ("all", ["blue"])):
        spec = {"namespaces": namespaces, "quotas": [{"guaranteed": 1}]}
        metadata = {"name": name, "uid": f"q-{name}", "resourceVersion": "1"}
        cluster.cache.put(
            QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec}
        )
    document = pod_document(0, status={"phase": "Running"})
    document["metadata"]["labels"][names.LABEL_QUEUE] = label
    cluster.cache.put(PODS, document)
    cluster.sync(T0)
    (job,) = cluster.snapshot(T0).jobs
    assert job.queue == queue


def test_a_contract_of_no_attempt_books_nothing() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    cluster.cache.put(PODS, pod_document(0, attempt=0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {}


def test_a_placement_is_not_counted_twice_because_its_pods_are_there() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}


def test_pods_that_an_earlier_attempt_left_on_a_dead_node_still_hold() -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.STARTING, ("n2", 1), attempts=2))
    cluster.cache.put(PODS, pod_document(0, attempt=1, status={"phase": "Running"}, deleting=True))
    assert held_gpus(cluster) == {"red/train": ["GPU-n2-0", "GPU-n1-0"]}


def test_a_job_whose_spec_cannot_be_read_any_more_keeps_what_it_holds() -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)), gpu={"memoryFraction": "nonsense"})
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}


SERVED = {"entrypoint": "a:b", "strategy": "ParameterServer"}


@pytest.mark.parametrize(
    ("servers", "runtime", "wrong"),
    [
        (1, SERVED, None),
        (0, SERVED, None),
        (2, SERVED, "it has 2 parameter servers, and the job asks for 1"),
        (1, {"entrypoint": "a:b"}, "it has 1 parameter server, and the job asks for 0"),
    ],
    ids=["as many", "none: in the pods of the ranks, by an earlier version", "too many", "another strategy"],
)
def test_a_placement_has_the_servers_that_the_job_asks_for(
    servers: int, runtime: dict[str, str], wrong: str | None
) -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 2), servers=servers), gpu={"count": 1}, runtime=runtime)
    assert cluster.view.placements.error(cluster.cache.jobs["red/train"], T0 + 100) == wrong


def test_a_job_is_read_anew_when_the_value_of_its_priority_class_changes() -> None:
    cluster = new_cluster()
    put_job(cluster, priorityClassName="urgent")
    said = []
    for version, value in enumerate((None, 10, 10, 20), 7):
        if value is not None:
            document = {"metadata": {"name": "urgent", "uid": "u", "resourceVersion": str(version)}}
            cluster.cache.put(PRIORITY_CLASSES, document | {"value": value})
        read = cluster.view.read_job(cluster.cache.jobs["red/train"], T0)
        said.append(read.job.priority if read.job else "unknown")
    assert said == ["unknown", 10, 10, 20]


def test_a_job_avoids_a_node_only_as_long_as_it_was_told_to() -> None:
    cluster = new_cluster()
    status = TrainingJobStatus.model_validate(
        {"phase": "Pending", "excludedNodes": [{"node": "n1", "until": "2026-01-01T00:10:00Z", "reason": "slow"}]}
    )
    put_job(cluster, status)
    cluster.sync(T0 + 100)
    avoided = [set(job.excluded_nodes) for job in cluster.snapshot(T0).jobs]
    cluster.sync(T0 + 600)
    assert (avoided, [set(job.excluded_nodes) for job in cluster.snapshot(T0).jobs]) == ([{"n1"}], [set()])


NODE = {
    "metadata": {"name": "n1", "uid": "n", "resourceVersion": "1"},
    "status": {
        "allocatable": {"cpu": "8", "memory": "16Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
GPU_NODE: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": "GPUNode",
    "metadata": {"name": "n1", "uid": "g", "resourceVersion": "1"},
    "status": {
        "heartbeat": "2026-01-01T00:00:00Z",
        "gpus": [{"uuid": "GPU-n1-0", "index": 0, "class": "H100", "memoryMiB": 81920}],
    },
}


def ready(cluster: ObservedCluster, now: float) -> list[tuple[str, bool, int]]:
    cluster.sync(now)
    return [(node.name, node.ready, node.cpu_milli) for node in cluster.snapshot(now).nodes]


def test_a_node_counts_when_kubernetes_and_the_agent_both_speak_of_it() -> None:
    cluster = new_cluster()
    cluster.cache.put(NODES, NODE)
    assert ready(cluster, T0) == []
    cluster.cache.put(GPU_NODES, GPU_NODE)
    assert ready(cluster, T0) == [("n1", True, 8000)]


def test_an_agent_that_falls_silent_takes_its_node_out_without_any_event() -> None:
    cluster = new_cluster()
    cluster.cache.put(NODES, NODE)
    cluster.cache.put(GPU_NODES, GPU_NODE)
    assert [ready(cluster, T0 + after)[0][1] for after in (0, 60, 61)] == [True, True, False]


def test_a_node_whose_taint_keeps_worker_pods_away_is_not_offered() -> None:
    cluster = new_cluster()
    cluster.cache.put(NODES, NODE | {"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}})
    cluster.cache.put(GPU_NODES, GPU_NODE)
    assert ready(cluster, T0) == [("n1", False, 8000)]


def test_what_did_not_change_is_no_reason_to_decide_again() -> None:
    cluster = new_cluster()
    cluster.cache.put(NODES, NODE)
    cluster.cache.put(GPU_NODES, GPU_NODE)
    cluster.sync(T0)
    beat = GPU_NODE["status"] | {"heartbeat": "2026-01-01T00:00:10Z"}
    cluster.cache.put(
        GPU_NODES, GPU_NODE | {"metadata": GPU_NODE["metadata"] | {"resourceVersion": "2"}, "status": beat}
    )
    assert not cluster.sync(T0 + 10).decisions_may_change


def test_a_pod_that_a_placement_covers_is_no_reason_to_decide_again() -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.sync(T0)
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    covered = cluster.sync(T0 + 1)
    cluster.cache.put(TRAINING_JOBS, job_document(), deleted=True)
    orphaned = cluster.sync(T0 + 2)
    cluster.cache.put(PODS, pod_document(0, version=99, status={"phase": "Running"}))
    the_same = cluster.sync(T0 + 3)
    assert [len(one.jobs) for one in (covered, orphaned, the_same)] == [1, 1, 1]
    assert [one.decisions_may_change for one in (covered, orphaned, the_same)] == [False, True, False]


def test_queues_follow_the_labels_of_namespaces() -> None:
    from cotenant.controller.client.kube import NAMESPACES

    cluster = new_cluster()
    spec = {"namespaceSelector": {"matchLabels": {"team": "red"}}, "quotas": [{"guaranteed": 1}]}
    queue = {
        "apiVersion": names.API_VERSION,
        "kind": "Queue",
        "metadata": {"name": "red", "uid": "q", "resourceVersion": "1"},
        "spec": spec,
    }
    cluster.cache.put(QUEUES, queue)
    served = []
    for version, labels in (("1", {}), ("2", {"team": "red"}), ("3", {"team": "blue"})):
        metadata = {"name": "red-1", "uid": "ns", "resourceVersion": version, "labels": labels}
        cluster.cache.put(NAMESPACES, {"metadata": metadata})
        cluster.sync(T0)
        served.append([sorted(queue.namespaces) for queue in cluster.snapshot(T0).queues])
    assert served == [[[]], [["red-1"]], [[]]]


def test_a_new_leader_is_told_what_only_statuses_still_say() -> None:
    cluster = new_cluster()
    past = {"milliGPUSeconds": 7_200_000, "at": "2025-12-31T00:00:00Z"}  # a day before T0: half of it is left
    queue = {
        "apiVersion": names.API_VERSION,
        "kind": "Queue",
        "metadata": {"name": "red", "uid": "q", "resourceVersion": "1"},
        "spec": {"quotas": [{"guaranteed": 1}]},
        "status": {"borrowed": "2", "pastBorrowing": past},
    }
    cluster.cache.put(QUEUES, queue)
    pending = PendingStatus(reason="WaitingForEviction", message="Room is being made on n1.", since=T0)
    put_job(cluster, TrainingJobStatus(phase=Phase.PENDING, pending=pending))

    cluster.view.restore(T0)
    cluster.sync(T0)
    snapshot = cluster.snapshot(T0)

    expected = 3_600_000 + 2_000 * 86_400 / log(2) / 2
    assert snapshot.nominated_earlier == ("red/train",)
    (remembered,) = snapshot.usage_history
    assert (remembered.queue, round(remembered.milli_seconds)) == ("red", round(expected))


def test_jobs_that_ended_teach_a_new_leader_which_shapes_come() -> None:
    cluster = new_cluster()
    put_job(cluster, TrainingJobStatus(phase=Phase.SUCCEEDED, finished_at=T0 - 86_400))

    cluster.view.restore(T0)

    assert [weight for _, weight in cluster.snapshot(T0).demand_history] == [pytest.approx(1.0)]


def test_a_job_that_came_to_its_end_teaches_how_long_its_like_run() -> None:
    cluster = new_cluster()
    for number in range(5):
        put_job(cluster, TrainingJobStatus(phase=Phase.PENDING), version=2 * number + 1)
        cluster.sync(T0)
        usage = UsageStatus(run_seconds=100 + number)
        ended = TrainingJobStatus(phase=Phase.SUCCEEDED, finished_at=T0, usage=usage)
        put_job(cluster, ended, version=2 * number + 2)
        cluster.sync(T0)
    assert cluster.snapshot(T0).runtimes.groups["queue|red"] == (100, 101, 102, 103, 104)


def report(cluster: ObservedCluster, version: int, *evidence: str) -> None:
    """The agent of n1 names the first pod, with this evidence, or nobody."""
    holder = {
        "podUID": "pod-1-0", "namespace": "red", "pod": "train-1-0", "job": "train", "jobUID": UID, "attempt": 1,
        "nodeRank": 0, "gpus": [{"uuid": "GPU-n1-0", "memoryMiB": 32_768, "computeMilli": 400}],
        "since": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    metadata = {"name": "n1", "uid": "g1", "resourceVersion": str(version)}
    status = {"holders": [holder | {"evidence": one} for one in evidence]}
    document = {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": metadata, "status": status}
    cluster.cache.put(GPU_NODES, document)


def test_gpus_of_a_pod_that_is_deleted_by_force_are_held_until_its_node_says_that_it_is_gone() -> None:
    cluster = new_cluster()
    report(cluster, 1, "Pod")
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.cache.put(PODS, pod_document(0, version=99, status={"phase": "Running"}), deleted=True)
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}
    put_job(cluster, TrainingJobStatus(attempts=1), version=6)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    report(cluster, 2, "Processes")
    put_job(cluster, admitted(Phase.STARTING, ("n2", 1), attempts=2), version=7)
    assert held_gpus(cluster) == {"red/train": ["GPU-n2-0"], "red/train#uid-1": ["GPU-n1-0"]}
    cluster.cache.put(TRAINING_JOBS, job_document() | {}, deleted=True)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    report(cluster, 3)
    assert held_gpus(cluster) == {}


def test_a_pod_of_an_earlier_attempt_without_an_object_holds_beside_the_next_one_on_the_same_gpus() -> None:
    cluster = new_cluster()
    report(cluster, 1, "Processes")
    put_job(cluster, admitted(Phase.STARTING, ("n1", 1), attempts=2))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"], "red/train#uid-1": ["GPU-n1-0"]}


def test_a_new_operator_counts_what_agents_report_though_there_is_neither_pod_nor_job() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    report(cluster, 1, "Processes")
    cluster.view.restore(T0)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}


def test_an_agent_that_takes_a_pod_of_others_for_a_holder_books_nothing() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    document = pod_document(0, status={"phase": "Running"})
    document["spec"]["containers"][0]["name"] = "other"
    cluster.cache.put(PODS, document)
    report(cluster, 1, "Pod")
    assert held_gpus(cluster) == {}


def test_a_namesake_that_comes_before_the_deletion_is_seen_frees_nothing() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    report(cluster, 1, "Pod")
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.cache.put(PODS, pod_document(0, uid="namesake", version=11, node="n2", status=terminated(0)))
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


def test_a_pod_that_has_ended_in_its_last_state_is_free_at_once() -> None:
    cluster = new_cluster()
    report(cluster, 1, "Pod")
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.cache.put(PODS, pod_document(0, version=99, status=terminated(0)), deleted=True)
    assert held_gpus(cluster) == {}


def test_a_queue_that_breaks_its_conversion_grants_nothing_and_the_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = new_cluster()

    def convert(queue: Queue, **words: Any) -> TenantQueue:
        if queue.metadata.name == "broken":
            raise ZeroDivisionError
        return to_queue(queue, **words)

    monkeypatch.setattr(cluster_view, "to_queue", convert)
    for name in ("broken", "red"):
        document = {"apiVersion": names.API_VERSION, "kind": "Queue", "spec": {"namespaces": ["red"]}}
        cluster.cache.put(QUEUES, document | {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}})
    cluster.sync(T0)
    found = [queue.name for queue in cluster.snapshot(T0).queues]
    assert (found, list(cluster.cache.unreadable)) == (["red"], [("queues", "broken")])


def test_a_job_that_breaks_its_conversion_is_named_and_what_it_holds_still_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = new_cluster()
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 2)))

    def fail(*_: Any, **__: Any) -> Job:
        raise ZeroDivisionError

    monkeypatch.setattr(core_jobs, "to_job", fail)
    synced = cluster.sync(T0)
    assert {job.key: type(error) for job, error in synced.failures.items()} == {"red/train": ZeroDivisionError}
    (job,) = cluster.snapshot(T0).jobs
    assert (job.queue, job.preemptible, job.placement and job.placement.workers) == ("red", False, 2)


def test_a_contract_in_a_namespace_that_no_queue_serves_books_nothing() -> None:
    """Anybody may make such a pod where no policy looks: with our labels, and with a contract for every GPU."""
    cluster = new_cluster()
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    assert held_gpus(cluster) == {}
    put_job(cluster)
    assert held_gpus(cluster) == {}
    assert cluster.view.granted_pods(cluster.cache.jobs["red/train"].id) == ()


def test_a_pod_that_was_granted_its_gpus_keeps_them_when_its_queue_no_longer_serves_it_and_its_job_is_gone() -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    serve(cluster, "blue", version=2)
    cluster.sync(T0)
    cluster.cache.put(TRAINING_JOBS, job_document(), deleted=True)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


def test_once_a_queue_serves_the_namespace_its_pods_count() -> None:
    cluster = new_cluster()
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    serve(cluster, "red")
    cluster.sync(T0)
    assert held_gpus(cluster) == {"red/train#uid-1": ["GPU-n1-0"]}


def test_a_gpu_that_such_a_pod_is_on_is_not_handed_out_as_long_as_its_agent_sees_it_there() -> None:
    cluster = new_cluster()
    cluster.cache.put(NODES, NODE)
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    seen = []
    for version, processes in enumerate(([], [{"podUID": "pod-1-0", "memoryMiB": 7}], []), 2):
        metadata = GPU_NODE["metadata"] | {"resourceVersion": str(version)}
        gpus = [GPU_NODE["status"]["gpus"][0] | {"processes": processes}]
        cluster.cache.put(GPU_NODES, GPU_NODE | {"metadata": metadata, "status": GPU_NODE["status"] | {"gpus": gpus}})
        cluster.sync(T0)
        cluster.sync(T0)
        (node,) = cluster.snapshot(T0).nodes
        seen.append((node.gpus[0].healthy, dict(cluster.view.nodes.disputes)))
    why = {"n1": {"GPU-n1-0": "pod red/train-1-0 is on GPU GPU-n1-0 without a grant of it"}}
    assert seen == [(True, {}), (False, why), (True, {})]


def test_what_a_queue_has_spent_is_seen_without_any_other_change_of_queues() -> None:
    cache, budgets = ObjectCache(), Budgets()
    view = ClusterView(cache, JobMemories(), Settings(), budgets)
    spec = {"quotas": [{"guaranteed": 1}], "budget": {"gpuHours": "1", "period": "Day"}}
    metadata = {"name": "red", "uid": "q", "resourceVersion": "1"}
    cache.put(QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec})
    left = []
    for now in (T0, T0 + 10, T0 + 10):
        budgets.charge(cache.queues, {"red": 500}, now)
        view.sync(now)
        left += [queue.budget_left for queue in view.snapshot(now).queues]
    assert left == [3_600_000, 3_595_000, 3_595_000]


@pytest.mark.parametrize(
    ("spec", "queue"),
    [({"queue": "blue"}, "blue"), ({"queue": "blue", "gpu": {"memoryFraction": "nonsense"}}, "red")],
    ids=["that of its spec", "where that cannot be read, one that serves its namespace"],
)
def test_pods_that_a_job_left_behind_are_counted_in_its_queue(spec: dict[str, Any], queue: str) -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    put_job(cluster, TrainingJobStatus(phase=Phase.FAILED, attempts=1), **spec)
    cluster.cache.put(PODS, pod_document(0, status={"phase": "Running"}))
    cluster.sync(T0)
    assert [job.queue for job in cluster.snapshot(T0).jobs] == [queue]


def test_a_pod_that_was_asked_for_and_not_seen_holds_beside_the_placement_unless_that_is_of_its_attempt() -> None:
    cache, memories = ObjectCache(), JobMemories()
    cluster = ObservedCluster(cache, ClusterView(cache, memories, Settings(), Budgets()))
    serve(cluster, "red")
    memories[JOB_ID].unsettled = {"train-1-0": pod(0)}
    put_job(cluster, admitted(Phase.STARTING, ("n1", 1)))
    assert held_gpus(cluster) == {"red/train": ["GPU-n1-0"]}
    put_job(cluster, admitted(Phase.STARTING, ("n2", 1), attempts=2), version=6)
    assert held_gpus(cluster) == {"red/train": ["GPU-n2-0"], "red/train#uid-1": ["GPU-n1-0"]}


@pytest.mark.parametrize(
    ("resource", "document", "held"),
    [(NODES, NODE, ["red/train#uid-1"]), (GPU_NODES, {"metadata": {"name": "n1", "uid": "g1"}}, [])],
    ids=["the node, while its agent names the pod", "the agent's report, without GPUs"],
)
def test_what_an_agent_named_is_free_when_the_agent_goes(
    resource: Resource, document: dict[str, Any], held: list[str]
) -> None:
    cluster = new_cluster()
    serve(cluster, "red")
    cluster.cache.put(NODES, NODE)
    report(cluster, 1, "Processes")
    cluster.view.restore(T0)
    assert list(held_gpus(cluster)) == ["red/train#uid-1"]
    cluster.cache.put(resource, document, deleted=True)
    cluster.sync(T0)
    assert list(held_gpus(cluster)) == held
