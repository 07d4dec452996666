"""Collects everything that is known of one job, for `reconcile`."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.api.conversion.to_core import unix_seconds
from cotenant.api.resources.trainingjob_status import SuggestionStatus
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories, JobMemory
from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.observation import Observation, PlacementObserved, PodsObserved
from cotenant.controller.lifecycle.policies import share_suggestion
from cotenant.controller.lifecycle.policies.idle_timeout import activity_of
from cotenant.controller.lifecycle.progress import progress_update
from cotenant.core.runtimes.templates import template_of


@dataclass(slots=True, kw_only=True)
class Observer:
    cache: ObjectCache
    cluster: ClusterView
    memories: JobMemories

    def observe(self, record: JobRecord, now: float) -> Observation:
        """The job at `now`. The time of its last activity is updated in its memory."""
        memory, agents = self.memories[record.id], self.cache.nodes
        pods = self.cache.pods_of(record.id)
        _, departed = self.cache.pods.holding(record.id)
        memory.activity = activity_of(record, memory, agents.gpu_nodes, now)
        sample, finding, peak = memory.progress_of(record.status.attempts), memory.use_finding, memory.peak
        return Observation(
            record=record,
            problem=record.problem if record.job is None else memory.reading_problem,
            missing_class=self.cluster.core_jobs.missing_class(record),
            missing_queue=self.cluster.core_jobs.missing_queue(record),
            of_pods=PodsObserved(
                pods=tuple(pods.values()),
                departed=tuple(departed),
                gone=self.cache.pods.deleted.ended_of(record.id),
                disruptions=self.cache.pods.deleted.disruptions_of(record.id),
                violations=self.cluster.nodes.violations(pods),
                causes=memory.pod_causes,
                unreachable_nodes=agents.unreachable,
            ),
            of_placement=self._placement(record, memory, now),
            progress=progress_update(record.status.progress, sample.progress, now) if sample else None,
            idle_since=memory.activity.at if memory.activity else None,
            begun=memory.activity is None or memory.activity.begun,
            low_use=finding if finding and finding.attempt == record.status.attempts else None,
            peak=peak if peak and peak.attempt == record.status.attempts else None,
            of_another=self._suggested_to_another(record),
            now=now,
        )

    def _suggested_to_another(self, record: JobRecord) -> SuggestionStatus | None:
        """The suggestion of the newest job with the same template, if this job accepts one and has none of its own."""
        if not share_suggestion.takes_of_another(record):
            return None
        template = template_of(record.key)
        found = [
            (unix_seconds(one.status.suggestion.at) or 0.0, one.key, one.status.suggestion)
            for one in self.cache.jobs.values()
            if one.status.suggestion is not None and one.namespace == record.namespace and one.id != record.id
            and template_of(one.key) == template
        ]  # fmt: skip
        return max(found, key=lambda one: one[:2])[2] if found else None

    def _placement(self, record: JobRecord, memory: JobMemory, now: float) -> PlacementObserved:
        creation, sample = memory.creation_of(record.status.attempts), memory.progress_of(record.status.attempts)
        if (placement := record.placement) is None:
            return PlacementObserved()
        nodes, number = self.cluster.nodes, record.status.attempts
        workers = (pod for pod in self.cache.pods_of(record.id).values() if pod.is_of(number))
        gang = {pod.worker.node_rank: pod for pod in workers if pod.worker}
        return PlacementObserved(
            held_milli=nodes.held_milli(placement),
            gpu_class=nodes.gpu_class_of(placement),
            error=self.cluster.core_jobs.placement_error(record, now),
            isolation=nodes.verify_isolation(placement, gang, sample.progress.observed_gpus if sample else {}),
            sick_gpus=nodes.sick_gpus(placement),
            creation_rejection=creation.rejection if creation else None,
            creation_refusal=creation.refusal if creation else None,
            creation_delay=creation.delay if creation else None,
            evaluator_refusal=memory.evaluator_refusal(number),
        )
