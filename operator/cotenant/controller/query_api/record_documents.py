"""Records of the decision log as documents of the group `query.cotenant.dev`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from itertools import islice

from cotenant.controller.decision_log.kept_capsules import KeptCapsule
from cotenant.controller.query_api.documents import Document, answer, filled, listed, timestamp
from cotenant.decision_log.capsule import Capsule
from cotenant.decision_log.codec import encode
from cotenant.decision_log.cycles import CycleRecord
from cotenant.decision_log.efficiency import advice
from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.report import PricedCharge, ShowbackLine
from cotenant.decision_log.showback.showback_documents import showback_status

SHOWBACKS_MAX = 50_000
"""Items of one answer."""


def run_document(run: RunRecord, cost: ShowbackLine | None = None, currency: str = "") -> Document:
    """Everything that is known about a run, without empty fields."""
    happenings = [
        filled({"at": timestamp(one.at), "what": one.what, "reason": one.reason, "message": one.message})
        for one in run.timeline.happenings
    ]
    more = {
        "tail": list(run.tail),
        "results": dict(run.results),
        "use": _use(run.use),
        "cost": _cost(cost, currency),
        "advice": list(advice(run)),
        "timeline": happenings,
        "timelineLeftOut": run.timeline.left_out,
    }
    return _run(run, _summary(run) | filled(more))


def run_list(found: Iterable[RunRecord], costs: Mapping[str, ShowbackLine], currency: str) -> Document:
    """List of runs, each without its events and last lines. `costs` is by uid."""
    items = [
        _run(run, _summary(run) | filled({"use": _use(run.use), "cost": _cost(costs.get(run.uid), currency)}))
        for run in found
    ]
    return listed("Run", items)


def showback_list(found: Iterable[PricedCharge], currency: str, asked: tuple[int, int]) -> Document:
    """GPU time, one item for each job, month, price and attempt. Very long lists are cut."""
    kept = list(islice(found, SHOWBACKS_MAX + 1))
    items = []
    for one in kept[:SHOWBACKS_MAX]:
        status = showback_status(one) | {"currency": currency}
        document = answer("Showback", one.charge.name, one.charge.namespace, status)
        document["metadata"]["uid"] = one.charge.uid
        items.append(document)
    since, until = (timestamp(at) for at in asked)
    metadata = {"since": since, "until": until, "currency": currency, "truncated": len(kept) > SHOWBACKS_MAX}
    return listed("Showback", items, metadata=metadata)


def decision_list(found: Iterable[CycleRecord]) -> Document:
    return listed("Decision", (answer("Decision", timestamp(one.at) or "", "", encode(one)) for one in found))


def capsule_document(name: str, capsule: Capsule) -> Document:
    return answer("Capsule", name, "", {}) | {"capsule": capsule.to_document()}


def kept_capsule_document(kept: KeptCapsule) -> Document:
    return answer("Capsule", kept.digest, "", _kept(kept)) | {"capsule": json.loads(gzip.decompress(kept.packed))}


def capsule_list(found: Iterable[KeptCapsule]) -> Document:
    return listed("Capsule", (answer("Capsule", one.digest, "", _kept(one)) for one in found))


def _kept(kept: KeptCapsule) -> Document:
    return {"at": timestamp(kept.at), "evictions": kept.evictions, "bytes": len(kept.packed)}


def _run(run: RunRecord, status: Document) -> Document:
    document = answer("Run", run.name, run.namespace, status)
    document["metadata"]["uid"] = run.uid
    return document


def _summary(run: RunRecord) -> Document:
    status = {
        "queue": run.queue,
        "user": run.user,
        "reason": run.reason,
        "message": run.message,
        "createdAt": run.created_at,
        "startedAt": run.started_at,
        "finishedAt": run.finished_at,
        "workers": run.workers,
        "gpu": run.gpu,
        "gpuClass": run.gpu_class,
        "gpuSeconds": run.gpu_milliseconds // 1000,
        "runSeconds": run.run_seconds,
        "expectedSeconds": run.expected_seconds,
        "attempts": run.attempts,
        "failures": run.failures,
        "faults": run.faults,
        "restarts": run.restarts,
        "steps": run.steps,
        "stepsOf": run.steps_of,
        "exitCode": run.exit_code,
        "exitReason": run.exit_reason,
        "exitRank": run.exit_rank,
        "memoryPeakMiB": run.memory_peak_mib,
    }
    return {"outcome": run.outcome} | filled(status)


def _use(use: MeasuredUse) -> Document:
    if not use.samples:
        return {}
    if use.simulated:
        return {"samples": use.samples, "simulated": True}
    found = {
        "samples": use.samples,
        "busyPercent": use.busy_percent,
        "idlePercent": use.idle_percent,
        "memoryPeakMiB": use.memory_peak_mib,
        "memoryHeldMiB": use.held_mib,
        "memoryPercent": use.memory_percent,
        "shared": use.shared,
    }
    return {key: value for key, value in found.items() if value is not None}


def _cost(line: ShowbackLine | None, currency: str) -> Document:
    """Cost in micro-units of the currency, and the part without a price."""
    if line is None or not currency:
        return {}
    return {"micros": line.micros, "currency": currency, "unpricedGPUSeconds": line.unpriced // 1000}
