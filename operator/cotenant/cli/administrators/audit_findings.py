"""Findings of an audit: idle holders, guarantees that are unused or not backed by GPUs, starved borrowers, queues that
are not there.

Pure: documents in, values out. Each finding has a command that can be run as it is. The administrator decides.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from cotenant.cli.administrators.gpu_shares import WHOLE, GpuView, counted_gpus

Document: TypeAlias = Mapping[str, Any]
IDLE_PERCENT: Final = 50
"""A job is an idle holder if its GPUs computed nothing in at least this share of the samples, in percent."""
IDLE_TIMEOUT: Final = "30m"
LENT: Final = "kubectl get quotarequests,bookings -A"
"""The command that shows what guarantees GPUs beside the Queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    kind: str
    subject: str
    """The job or the queue."""
    message: str
    patch: str
    """The command that mends it."""
    gpus: float
    """How many GPUs it is about."""


def idle_holders(
    gpus: Iterable[GpuView], use_of: Callable[[str], Document | None], session_queue_of: Callable[[str], str]
) -> Iterator[AuditFinding]:
    """Jobs whose GPUs compute nothing now.

    A job whose measurements say that its GPUs mostly compute is left out. `use_of` gives the measurements of a job, as
    `runs` has them; None if there are none. `session_queue_of` gives the queue of a session's job, else an empty text.
    """
    held: dict[str, list[GpuView]] = {}
    for gpu in gpus:
        for share in gpu.shares:
            held.setdefault(share.job, []).append(gpu)
    for job, found in sorted(held.items()):
        if not all(gpu.utilization == 0 for gpu in found):
            continue
        use = use_of(job) or {}
        percent = use.get("idlePercent")
        if percent is not None and percent < IDLE_PERCENT:
            continue
        milli = sum(share.milli for gpu in found for share in gpu.shares if share.job == job)
        measured = "at this look" if percent is None else f"in {percent} % of all looks at it"
        message, patch = _ended_when_idle(job, session_queue_of(job))
        yield AuditFinding(
            kind="IdleHolder",
            subject=job,
            message=f"holds {counted_gpus(milli / WHOLE)} and computes nothing, {measured}; {message}",
            patch=patch,
            gpus=milli / WHOLE,
        )


def _ended_when_idle(job: str, session_queue: str) -> tuple[str, str]:
    """What would end an idle job, and the command. A session has idle times of its own, which its queue limits."""
    if session_queue:
        patch = json.dumps({"spec": {"sessions": {"idleTimeout": IDLE_TIMEOUT}}})
        message = "it is a session: a shorter idleTimeout of its queue's sessions would suspend it"
        return message, f"kubectl patch queue {session_queue} --type=merge -p '{patch}'"
    namespace, _, name = job.partition("/")
    patch = json.dumps({"spec": {"idleTimeout": IDLE_TIMEOUT}})
    command = f"kubectl patch trainingjob {name} -n {namespace} --type=merge -p '{patch}'"
    return "an idleTimeout would end it", command


def unused_guarantees(
    tree: Sequence[Document], queues: Mapping[str, Document], used_lately: Collection[str]
) -> Iterator[AuditFinding]:
    """Leaf queues with a guarantee that hold nothing, have no waiting job and had no recent run.

    `used_lately`: queues that had a recent run, as the records of runs say. What a QuotaRequest or a Booking guarantees
    is left out, because it ends by itself.
    """
    parents = {one["status"].get("parent") for one in tree}
    for one in tree:
        name, status = one["metadata"]["name"], one["status"]
        quotas = _quotas(queues[name]) if name in queues else []
        guaranteed = min(float(status["guaranteed"]), sum(map(_guarantee, quotas)))
        is_used = float(status["used"]) or status["waiting"] or name in used_lately
        if name in parents or not guaranteed or is_used:
            continue
        for line in quotas:
            line["guaranteed"] = 0
            line.pop("lendable", None)
        yield AuditFinding(
            kind="UnusedGuarantee",
            subject=name,
            message=f"is guaranteed {counted_gpus(guaranteed)}, of which it uses none; others only borrow them",
            patch=_patch(name, quotas),
            gpus=guaranteed,
        )


def excess_guarantees(
    tree: Sequence[Document], queues: Mapping[str, Document], gpus: Sequence[GpuView]
) -> Iterator[AuditFinding]:
    """Queues whose guarantee, by class and zone, exceeds the GPUs that exist today.

    Together with the other queues they guarantee more than there is. Each finding counts the queue's own part alone.
    """
    for one in tree:
        name, over = one["metadata"]["name"], []
        for line in one["status"]["quotas"] if name in queues else ():
            missing = float(line["guaranteed"]) - float(line["effective"])
            if missing > 0:
                over.append((line, missing))
        if not over:
            continue
        told = (f"{_guaranteed(line, gpus)}, of which it can have {line['effective']}" for line, _ in over)
        message = f"is guaranteed more than there is beside what others are guaranteed: {'; '.join(told)}"
        patch = _without_excess(queues[name], [line for line, _ in over])
        if not patch:
            message += ". A QuotaRequest or a Booking guarantees some of it and ends by itself"
        yield AuditFinding(
            kind="ExcessGuarantee",
            subject=name,
            message=message,
            patch=patch or LENT,
            gpus=sum(missing for _, missing in over),
        )


def _without_excess(queue: Document, over: Iterable[Document]) -> str:
    """The command that lowers these lines to what exists; empty if more than the Queue's own quotas is in them."""
    quotas = _quotas(queue)
    for line in over:
        own = _line_of(quotas, line)
        if own is None or _guarantee(own) < float(line["guaranteed"]):
            return ""
        own["guaranteed"] = _number(float(line["effective"]))
        if "lendable" in own and float(own["lendable"]) > float(own["guaranteed"]):
            own["lendable"] = own["guaranteed"]
    return _patch(queue["metadata"]["name"], quotas)


def _guaranteed(line: Document, gpus: Sequence[GpuView]) -> str:
    """A guarantee as text: `9 GPUs of H100 in z1 (8 listed, 1 takes no work now)`. The listed GPUs are those of all
    zones.
    """
    gpu_class, zone = line["class"], line.get("zone")
    listed = [gpu for gpu in gpus if gpu_class in (None, gpu.gpu_class)]
    out = sum(not gpu.healthy or gpu.node_state not in {"", "Ready"} for gpu in listed)
    of_class = f" of {gpu_class}" if gpu_class else ""
    in_zone = f" in {zone}" if zone else ""
    amount = counted_gpus(float(line["guaranteed"]))
    return f"{amount}{of_class}{in_zone} ({len(listed)} listed, {out} of them take no work now)"


def starved_borrowers(
    tree: Sequence[Document],
    queues: Mapping[str, Document],
    waiting: Iterable[Document],
    now: datetime,
    starved_s: float,
) -> Iterator[AuditFinding]:
    """Queues that use all of their guarantee and whose oldest job has waited too long.

    `waiting`: the explanations of the waiting jobs.
    """
    oldest: dict[str, tuple[float, str]] = {}
    for job in waiting:
        status = job["status"]
        if status["standing"] == "Waiting" and not status.get("needsChange"):
            since = status.get("requeuedAt", status["submittedAt"])
            waited = (now - datetime.fromisoformat(since)).total_seconds()
            asks = str(status.get("asks", ""))
            oldest[status["queue"]] = max(oldest.get(status["queue"], (0.0, "")), (waited, asks))
    for one in tree:
        name, status = one["metadata"]["name"], one["status"]
        waited, asks = oldest.get(name, (0.0, ""))
        quotas = _quotas(queues[name]) if name in queues else []
        full = [line for line in status["quotas"] if float(line["used"]) >= float(line["effective"])]
        own = [(line, found) for line in full if (found := _line_of(quotas, line)) is not None]
        if waited < starved_s or not own:
            continue
        shown, line = own[0]
        more = max(1, round(float(shown["used"]) - float(shown["guaranteed"])))
        line["guaranteed"] = _number(_guarantee(line) + more)
        if "limit" in line and float(line["limit"]) < float(line["guaranteed"]):
            line["limit"] = line["guaranteed"]
        yield AuditFinding(
            kind="StarvedBorrower",
            subject=name,
            message=f"uses all that it is guaranteed, and a job of it has waited {waited / 3600:.1f} h for {asks}; ask"
            f" `kubectl cotenant whatif queue {name} gpus +{more}` first",
            patch=_patch(name, quotas),
            gpus=float(more),
        )


def missing_queues(
    jobs: Iterable[Document], queues: Collection[str], gpus: Iterable[GpuView]
) -> Iterator[AuditFinding]:
    """Queues that are not there although jobs hold GPUs or wait in their name. `jobs`: the explanations of all jobs."""
    users: dict[str, dict[str, bool]] = {}
    for one in jobs:
        key = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        if one["status"]["queue"] not in queues:
            users.setdefault(one["status"]["queue"], {})[key] = one["status"]["standing"] != "Waiting"
    held: dict[str, float] = {}
    for share in (share for gpu in gpus for share in gpu.shares):
        held[share.job] = held.get(share.job, 0) + share.milli / WHOLE
    for queue, found in sorted(users.items()):
        holding = sorted(job for job, holds in found.items() if holds)
        total = sum(held.get(job, 0) for job in holding)
        borrowed = f"{len(holding)} hold {counted_gpus(total)}, all of which count as borrowed, and " if holding else ""
        yield AuditFinding(
            kind="MissingQueue",
            subject=queue,
            message=f"is not there, and {len(found)} of its jobs are: {borrowed}{len(found) - len(holding)} wait, and"
            " none of them starts until somebody makes the Queue again",
            patch=f"kubectl cotenant ps -A --queue {queue}",
            gpus=total,
        )


def _line_of(quotas: Sequence[dict[str, Any]], line: Document) -> dict[str, Any] | None:
    """The quota line of the Queue document that belongs to this line of the tree; None if a QuotaRequest or a Booking
    alone grants it.
    """
    alike = (one for one in quotas if one.get("gpuClass") == line["class"] and one.get("zone") == line.get("zone"))
    return next((one for one in alike if one.get("user") is None), None)  # a user's line guarantees nothing


def _guarantee(quota: Document) -> float:
    return float(quota.get("guaranteed", 0))


def _quotas(queue: Document) -> list[dict[str, Any]]:
    return copy.deepcopy(list(queue["spec"].get("quotas") or ()))


def _patch(name: str, quotas: Sequence[Document]) -> str:
    return f"kubectl patch queue {name} --type=merge -p '{json.dumps({'spec': {'quotas': list(quotas)}})}'"


def _number(gpus: float) -> int | str:
    return int(gpus) if gpus == int(gpus) else f"{gpus:g}"
