"""What the core is shown of jobs, nodes and queues, and when that is a reason to decide again."""

from __future__ import annotations

from datetime import UTC, datetime
from math import log
from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.to_core import to_queue
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjob_status import PendingStatus, TrainingJobStatus, UsageStatus
from cotenant.controller.client.kube import GPU_NODES, NODES, PODS, PRIORITY_CLASSES, QUEUES, TRAINING_JOBS
from cotenant.controller.cluster import cluster_view, core_jobs
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.model.plan import Admit, Plan
from tests.controller.builders import (
    JOB_ID,
    T0,
    ObservedCluster,
    admitted,
    job_document,
    new_cluster,
    placement_on,
    pod_document,
)
from tests.controller.cluster.cluster_view.view_of import GPU_NODE, NODE, held_gpus, put_job


def queue_document(name: str, serves: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Queue",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {**serves, "quotas": [{"guaranteed": 1}]},
    }


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
    assert cluster.view.core_jobs.placement_error(cluster.cache.jobs["red/train"], T0 + 100) == wrong


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


@pytest.mark.parametrize(
    ("admitted_with", "read_before", "kept"), [(7, False, 7), (None, True, 10), (None, False, 0)],
    ids=["as its status says", "as it was read last", "not known"],
)  # fmt: skip
def test_a_job_that_holds_gpus_keeps_its_priority_when_its_class_is_deleted(
    admitted_with: int | None, read_before: bool, kept: int
) -> None:
    cluster = new_cluster()
    document = {"metadata": {"name": "urgent", "uid": "u", "resourceVersion": "7"}, "value": 10}
    cluster.cache.put(PRIORITY_CLASSES, document)
    status = admitted(Phase.RUNNING, ("n1", 2))
    assert status.placement is not None
    placed = status.placement.model_copy(update={"priority": admitted_with})
    put_job(cluster, status.model_copy(update={"placement": placed}), priorityClassName="urgent")
    record = cluster.cache.jobs["red/train"]
    if read_before:
        cluster.view.read_job(record, T0)
    cluster.cache.pop_changes()
    cluster.cache.put(PRIORITY_CLASSES, document, deleted=True)
    assert cluster.cache.pop_changes().jobs == {record.id}
    read = cluster.view.read_job(record, T0)
    assert read.job is not None
    assert (read.job.priority, read.job.preemptible, read.problem) == (kept, True, None)
    assert cluster.view.core_jobs.missing_class(record) == "urgent"


def test_a_queue_that_is_deleted_counts_until_its_jobs_have_left() -> None:
    cluster = new_cluster()
    for name, parent in (("org", None), ("red", "org"), ("blue", "org")):
        spec = {"quotas": [{"guaranteed": 1}]} | ({"parent": parent} if parent else {})
        metadata = {"name": name, "uid": name, "resourceVersion": "1"}
        cluster.cache.put(
            QUEUES, {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec}
        )
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 2)))
    cluster.sync(T0)
    cluster.cache.remove(QUEUES, "", "red", "red")
    cluster.sync(T0 + 1)
    deleted = [(one.name, one.parent, one.quotas) for one in cluster.snapshot(T0).queues if one.deleted]
    assert deleted == [("red", "org", ())]
    put_job(cluster, TrainingJobStatus(phase=Phase.SUCCEEDED), version=9)
    cluster.sync(T0 + 2)
    assert {one.name for one in cluster.snapshot(T0).queues} == {"blue", "org"}


def test_jobs_that_hold_gpus_are_looked_at_when_their_queue_goes_and_comes() -> None:
    cluster = new_cluster()
    metadata = {"name": "red", "uid": "red", "resourceVersion": "1"}
    queue: dict[str, Any] = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": {}}
    cluster.cache.put(QUEUES, queue)
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 2)))
    record, missing = cluster.cache.jobs["red/train"], []
    for change in ("none", "deleted", "made again", "unreadable"):
        cluster.cache.pop_changes()
        if change == "deleted":
            cluster.cache.remove(QUEUES, "", "red", "red")
        if change in {"made again", "unreadable"}:
            metadata = {"name": "red", "uid": "again", "resourceVersion": "8" if change == "made again" else "9"}
            spec: dict[str, Any] = {"quotas": []} if change == "made again" else {"weight": "heavy"}
            cluster.cache.put(QUEUES, queue | {"metadata": metadata, "spec": spec})
        looked_at = record.id in cluster.cache.pop_changes().jobs
        missing.append((change, looked_at, cluster.view.core_jobs.missing_queue(record)))
    assert missing == [
        ("none", False, ""),
        ("deleted", True, "red"),
        ("made again", True, ""),
        ("unreadable", True, ""),
    ]


def test_a_budget_above_a_deleted_queue_is_charged_until_its_jobs_have_left() -> None:
    cluster = new_cluster()
    org: dict[str, Any] = {"quotas": [{"guaranteed": 4}], "budget": {"gpuHours": "1", "period": "Day"}}
    for name, spec in (("org", org), ("red", {"parent": "org", "quotas": [{"guaranteed": 1}]})):
        metadata = {"name": name, "uid": name, "resourceVersion": "1"}
        queue = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec}
        cluster.cache.put(QUEUES, queue)
    for kind, document in ((NODES, NODE), (GPU_NODES, GPU_NODE)):
        cluster.cache.put(kind, document)
    put_job(cluster, admitted(Phase.RUNNING, ("n1", 1)))
    cluster.sync(T0)
    cluster.cache.remove(QUEUES, "", "red", "red")
    left = []
    for now in (T0 + 1, T0 + 100):
        cluster.sync(now)
        left += [one.budget_left for one in cluster.snapshot(now).queues if one.name == "org"]
    assert left == [3_600_000 - 400, 3_600_000 - 400 * 100]


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


@pytest.mark.parametrize(
    ("served", "failing"),
    [
        pytest.param(["blue"], True, id="the queue serves it"),
        pytest.param(["green"], False, id="the queue serves others, and the tenant wrote its name into the job"),
    ],
)
def test_a_node_fails_by_the_word_of_pods_if_their_queues_serve_them(served: list[str], failing: bool) -> None:
    cluster = new_cluster()
    avoided = [{"node": "n1", "until": "2026-01-01T00:10:00Z", "reason": "GPUsUnusable: cuInit"}]
    for version, (queue, namespace, serves) in enumerate((("research", "red", ["red"]), ("sales", "blue", served))):
        cluster.cache.put(QUEUES, queue_document(queue, {"namespaces": serves}))
        job = job_document(status={"phase": "Pending", "excludedNodes": avoided}, queue=queue)
        job["metadata"] |= {"namespace": namespace, "uid": f"u{version}", "resourceVersion": "5"}
        cluster.cache.put(TRAINING_JOBS, job)
    cluster.sync(T0 + 100)
    assert bool(cluster.view.nodes.runtime_failures.nodes) == failing


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
    cluster.cache.put(QUEUES, queue_document("red", {"namespaceSelector": {"matchLabels": {"team": "red"}}}))
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


def test_what_a_queue_has_spent_is_counted_before_the_first_decision_and_every_few_seconds_after() -> None:
    cache = ObjectCache()
    view = ClusterView(cache, JobMemories(), Settings(), Budgets())
    spec = {"quotas": [{"guaranteed": 1}], "budget": {"gpuHours": "1", "period": "Day"}}
    metadata = {"name": "red", "uid": "q", "resourceVersion": "1"}
    start = datetime.fromtimestamp(T0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"budget": {"spentMilliGPUSeconds": 1_000_000, "periodStart": start, "countedUntil": start}}
    cache.put(
        QUEUES,
        {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec, "status": status},
    )
    for name, document in ((NODES, NODE), (GPU_NODES, GPU_NODE)):
        cache.put(name, document)
    cache.put(TRAINING_JOBS, job_document(status=admitted(Phase.RUNNING, ("n1", 1)).to_document()))
    left = []
    for now in (T0 + 60, T0 + 62, T0 + 65):
        view.sync(now)
        left += [queue.budget_left for queue in view.snapshot(now).queues]
    assert left == [2_600_000 - 400 * 60, 2_600_000 - 400 * 60, 2_600_000 - 400 * 65]
