"""Prometheus metrics of the operator; one registry per `Metrics`, so that two operators in one process do not collide.

Names end in the unit. Labels are few and bounded: never a job's name, nor a text that a tenant may choose.
"""

from __future__ import annotations

import contextlib
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CYCLE_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        gauge = partial(Gauge, registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.leader = gauge("cotenant_leader", "1 while this replica leads.")
        self.query_available = gauge(
            "cotenant_query_available", "1 if the API server reaches the operator's APIService, as the leader sees it."
        )
        self.calls = counter("cotenant_api_calls", "Calls to the API server.", ["verb", "resource", "code"])
        self.events_seen = counter("cotenant_watch_events", "Watch events taken in.", ["resource"])
        self.cycles = histogram("cotenant_cycle_seconds", "One scheduling cycle.", buckets=CYCLE_BUCKETS)
        self.decisions = histogram(
            "cotenant_decision_seconds", "schedule() alone, inside a cycle.", buckets=CYCLE_BUCKETS
        )
        self.actions = counter("cotenant_actions", "Actions carried out, by kind and outcome.", ["kind", "ok"])
        self.transitions = counter("cotenant_job_transitions", "Phase changes written.", ["phase"])
        self.jobs = gauge("cotenant_jobs", "TrainingJobs, by phase.", ["phase"])
        self.pending = gauge("cotenant_jobs_pending", "Waiting TrainingJobs, by queue and reason.", ["queue", "reason"])
        self.waited = histogram(
            "cotenant_job_wait_seconds",
            "From submission, or from the end of the last attempt, to admission.",
            ["queue"],
            buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 28800, 86400),
        )
        self.estimate_error = histogram(
            "cotenant_start_estimate_error_ratio",
            "Error of the first estimate of a start, as a part of the wait; recorded when the job starts.",
            ["queue"],
            buckets=(0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 2, 5),
        )
        self.estimates = counter(
            "cotenant_start_estimates",
            "First estimates of starts that can be judged, by what came true: early, by p90, or late.",
            ["queue", "came"],
        )
        self.gpus = gauge("cotenant_gpus_held", "GPUs held; a share counts as its part.", ["queue", "gpu_class"])
        self.capacity = gauge("cotenant_gpus_ready", "GPUs that take work, on ready nodes.", ["gpu_class"])
        self.memory_used = gauge(
            "cotenant_queue_gpu_memory_used_bytes",
            "GPU memory that pods of a queue use, as the agents see it.",
            ["queue"],
        )
        self.utilization = gauge(
            "cotenant_queue_gpu_utilization_ratio",
            "Mean share of time in which a kernel ran, of the GPUs that a queue holds.",
            ["queue"],
        )
        self.gpu_seconds = counter(
            "cotenant_gpu_seconds",
            "GPU-seconds held by attempts that are over; used, idle, lost_to_preemption or lost_to_faults.",
            ["queue", "gpu_class", "part"],
        )
        self.cost = counter("cotenant_cost", "What they cost, in the currency.", ["queue", "gpu_class", "currency"])
        self.budget_left = gauge(
            "cotenant_queue_budget_left", "Left of a queue's budget; unit: gpu_hours, or a currency.", ["queue", "unit"]
        )
        self.decision_log_records = counter("cotenant_decision_log_records", "Cycles and runs that were recorded.")
        self.decision_log_dropped = counter(
            "cotenant_decision_log_dropped", "What was not recorded because the log did not keep up.", ["item"]
        )
        self.decision_log_failures = counter(
            "cotenant_decision_log_failures", "Batches that the volume of the decision log did not take."
        )
        self.events_dropped = counter("cotenant_events_dropped", "Kubernetes Events not written (rate limit).")
        self.polls = counter("cotenant_progress_polls", "Progress polls of rank 0, by outcome.", ["outcome"])

        self.quarantined = gauge("cotenant_jobs_quarantined", "TrainingJobs in quarantine, by what failed.", ["stage"])
        self.failures_contained = counter(
            "cotenant_failures_contained", "Failures that were contained to a job or a queue.", ["stage"]
        )
        self.disputes = gauge(
            "cotenant_gpu_disputes", "GPUs and pods on which books and nodes disagree, by kind.", ["kind"]
        )
        self.outdated_agents = gauge(
            "cotenant_agents_outdated", "Agents of another release than the operator, as they say in their GPUNodes."
        )
        self.remote_cluster_reachable = gauge(
            "cotenant_remote_cluster_reachable", "1 if the cluster answers, as the leader sees it.", ["cluster"]
        )
        self.remote_cluster_jobs = gauge(
            "cotenant_remote_cluster_jobs",
            "TrainingJobs on another cluster, by what they do there.",
            ["cluster", "state"],
        )
        self.unreadable = gauge("cotenant_objects_unreadable", "Objects that cannot be read, by kind.", ["resource"])

        for ok in ("true", "false"):
            for kind in ("Admit", "Evict", "Resize"):
                self.actions.labels(kind, ok)  # a rate over a series that is not there yet misses its first step

    def count_call(self, verb: str, path: str, code: int) -> None:
        """Count one call to the API server; code 0 is a call that got no answer."""
        self.calls.labels(verb, _resource_of(path), str(code)).inc()

    def forget_remote_cluster(self, name: str) -> None:
        """Drop the series of a cluster that this replica does not look after."""
        for gauge, labels in (
            (self.remote_cluster_reachable, ((name,),)),
            (self.remote_cluster_jobs, ((name, "running"), (name, "waiting"))),
        ):
            for one in labels:
                with contextlib.suppress(KeyError):
                    gauge.remove(*one)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


def _resource_of(path: str) -> str:
    """Resource of a path: "pods" of `/api/v1/namespaces/a/pods/p`, "trainingjobs/status" of a job's status."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return rest[0] + (f"/{rest[2]}" if len(rest) > 2 else "")
