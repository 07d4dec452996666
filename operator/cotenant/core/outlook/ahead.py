"""Which jobs are expected to start before a waiting job, and why, as a sentence for its tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cotenant.core.model.formatting import counted
from cotenant.core.model.moment import Moment
from cotenant.core.model.objects import Job, JobKey
from cotenant.core.outlook.estimates import Estimate
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.queueing.service import ServiceOrder, Turn, why_before
from cotenant.core.snapshot.accounting import Accounting
from cotenant.core.snapshot.snapshot import Snapshot

_NAMED = 3


def ahead_of(snapshot: Snapshot, estimates: Mapping[JobKey, Estimate], policy: Policy = DEFAULT) -> dict[JobKey, str]:
    """Job → the sentence. It names the last jobs of the same queue before it, and counts those of other queues."""
    service, turns = turns_of(snapshot, policy), dict[JobKey, Turn]()
    jobs = {job.key: job for job in snapshot.jobs}
    order = sorted((one.position, key) for key, one in estimates.items() if key in jobs)
    before: dict[str, list[Job]] = {}
    count: Counter[str] = Counter()
    found: dict[JobKey, str] = {}
    for _, key in order:
        job = jobs[key]
        turns[key] = service.turn(job)
        found[key] = _sentence(job, before.get(job.queue, []), count, turns)
        before.setdefault(job.queue, []).append(job)
        count[job.queue] += 1
    return found


def turns_of(snapshot: Snapshot, policy: Policy) -> ServiceOrder:
    """The order of jobs within a queue that a decision about the snapshot would use."""
    counted = snapshot.accounting or Accounting.of(snapshot.nodes, snapshot.queues, snapshot.jobs)
    return ServiceOrder(counted.tree, snapshot.runtimes, Moment(snapshot.now), policy.restart_cost_s)


def _sentence(job: Job, own: list[Job], count: Counter[str], turns: Mapping[JobKey, Turn]) -> str:
    others = {queue: number for queue, number in sorted(count.items()) if queue != job.queue}
    parts = []
    if own:
        named = ", ".join(
            f"{one.key} ({why_before(turns[one.key], turns[job.key])})" for one in own[: -_NAMED - 1 : -1]
        )
        more = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
        parts.append(f"{counted(len(own), 'job')} of its queue: {named}{more}")
    parts += [f"{counted(number, 'job')} of queue {queue}" for queue, number in others.items()]
    if not parts:
        return "It is the next to start."
    why = " Between queues the guarantee decides, then which queue borrows less." if others else ""
    return f"Expected to start before it: {'; '.join(parts)}.{why}"
