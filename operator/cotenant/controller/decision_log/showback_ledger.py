"""The ledger of showback, kept from the statuses of jobs: a charge when an attempt is over, or its document is gone.

Charges are written to the decision log, and the next leader reads them back. So no charge is made twice, and none is
missing as long as the job's status exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from cotenant import names
from cotenant.controller.cluster.budgets.job_meters import JobMeters, meter_of
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_record import JobRecord
from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.ledger import HeldSoFar, UsageLedger
from cotenant.decision_log.showback.meters import Meter

Use = Callable[[str], MeasuredUse]
"""uid of a job → what its GPUs were seen to do."""


@dataclass(slots=True)
class ShowbackLedger:
    cache: ObjectCache
    meters: JobMeters
    ledger: UsageLedger = field(default_factory=UsageLedger)
    _gone: list[HeldSoFar] = field(default_factory=list)
    """Jobs whose documents went, with all that they held until then."""
    _outliving: dict[str, HeldSoFar] = field(default_factory=dict)
    """Pods whose job is gone, as they were seen last."""

    def restore(self, charges: Iterable[UsageCharge]) -> None:
        """Continue after these charges."""
        self.ledger.restore(charges)
        self._gone.clear()
        self._outliving.clear()

    def on_deleted(self, record: JobRecord, now: float, use: MeasuredUse) -> int | None:
        """Milli-GPU × seconds that a deleted job held; None if it never held any. From now on, only its pods that
        outlive it count.
        """
        meter = meter_of(record, self.meters.nodes)
        if meter is None:
            return None
        held = held_of(record, meter, use, int(now))
        self._gone.append(held)
        return held.total

    def held_by(self, record: JobRecord, now: float) -> int | None:
        """Milli-GPU × seconds that a job has held until now; None if it never held any."""
        meter = meter_of(record, self.meters.nodes)
        return None if meter is None else held_of(record, meter, until=int(now)).total

    def charges(self, now: float, use: Use) -> list[UsageCharge]:
        """Charges for what has ended since the last call."""
        over = list(self._gone)
        self._gone.clear()
        for record in self.cache.jobs.values():
            usage = record.status.usage
            if usage is None or usage.gpu_milliseconds <= self.ledger.charged(record.uid):
                continue  # most of them: a look costs little, however many jobs there are
            if (meter := meter_of(record, self.meters.nodes)) is not None:
                over.append(held_of(record, meter, use(meter.uid)))
        outliving = {meter.uid: _of_pods(meter, int(now)) for meter in self.meters.outliving(now)}
        ended = [replace(one, last_until=int(now)) for uid, one in self._outliving.items() if uid not in outliving]
        self._outliving = outliving
        found = [charge for one in (*over, *ended) if (charge := self.ledger.charge(one)) is not None]
        self.ledger.forget(one.uid for one in ended)
        return found

    def going_on(self, now: float, use: Use) -> list[UsageCharge]:
        """Charges for what is held now, as if it ended now and no work was lost."""
        known = {record.uid: record for record in self.cache.jobs.values()}
        found = []
        for meter in self.meters.read(now):
            record = known.get(meter.uid)
            held = held_of(record, meter, use(meter.uid), int(now)) if record else _of_pods(meter, int(now))
            if (charge := self.ledger.going_on(held)) is not None:
                found.append(charge)
        return found


def held_of(
    record: JobRecord, meter: Meter, use: MeasuredUse = NOTHING_MEASURED, until: int | None = None
) -> HeldSoFar:
    """GPU time of the job: of finished attempts, and of the running one `until` then."""
    usage, spans = record.status.usage, list(meter.spans)
    last, current = meter.last, meter.current if until is not None else None
    span = current or last
    since = span.begun if span else 0
    total = meter.before + (last.amount if last else 0)
    going_on = current.until(until) if current and until is not None else 0
    ended = until if current and until is not None else (last.ended if last and last.ended is not None else since)
    started = record.status.started_at
    return HeldSoFar(
        namespace=record.namespace,
        name=record.name,
        uid=record.uid,
        queue=record.queue_named,
        user=_user(record),
        gpu_class=span.gpu_class if span else "",
        since=min([one.begun for one in spans] + ([int(started.timestamp())] if started else [since])),
        last_since=since,
        last_until=max(ended, since),
        last_amount=going_on if current else (last.amount if last else 0),
        total=total + going_on,
        preempted=usage.lost_to_preemption_milliseconds if usage else 0,
        faulted=usage.lost_to_faults_milliseconds if usage else 0,
        use=use,
    )


def _of_pods(meter: Meter, now: int) -> HeldSoFar:
    """GPU time of pods whose job is gone. Their allocation is named `namespace/name#uid-attempt`."""
    namespace, _, rest = meter.uid.partition("/")
    since = meter.current.begun if meter.current else now
    amount = meter.until(now)
    return HeldSoFar(
        namespace=namespace,
        name=rest.partition("#")[0],
        uid=meter.uid,
        queue=meter.queue,
        gpu_class=meter.current.gpu_class if meter.current else "",
        since=since,
        last_since=since,
        last_until=now,
        last_amount=amount,
        total=amount,
    )


def _user(record: JobRecord) -> str:
    annotations = (record.job.metadata.annotations if record.job else None) or {}
    return annotations.get(names.ANNOTATION_USER, "")
