"""Session as a composite of TrainingJobs: it reads from the cache what `plan` needs to decide."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.api.conversion.to_core import parse_session
from cotenant.controller.client.kube import SESSIONS, TRAINING_JOBS
from cotenant.controller.composites.composite import Composite, Observed, SeenJob, Writes
from cotenant.controller.composites.sessions.session_job import job_name
from cotenant.controller.composites.sessions.session_step import SessionObserved, plan
from cotenant.controller.composites.sessions.times import times_of
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.lifecycle.policies.idle_timeout import any_gpu_busy


@dataclass(frozen=True, slots=True)
class SessionKind(Composite):
    resource = SESSIONS
    kind = "Session"
    owns = (TRAINING_JOBS,)

    cache: ObjectCache
    """Source of what agents report about GPUs, and of what queues allow."""

    def decide(self, observed: Observed, now: float) -> Writes:
        session = parse_session(observed.document)
        document = observed.of(TRAINING_JOBS).get(job_name(session))
        job = None if document is None else SeenJob(document)
        known = self.cache.jobs.get(f"{observed.namespace}/{job_name(session)}")
        placement = known.placement if known is not None and job is not None and known.uid == job.uid else None
        return plan(
            SessionObserved(
                session=session,
                times=times_of(session.spec, self.cache.queues),
                document=observed.document,
                job=job,
                gpu_busy=any_gpu_busy(placement, self.cache.nodes.gpu_nodes),
                now=now,
            )
        )
