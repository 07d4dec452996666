"""Answers as documents of the group `query.cotenant.dev`, and failures as the Status that every Kubernetes client
reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from cotenant import names
from cotenant.api.scalars.fields import moment, show_time
from cotenant.core.model.formatting import format_gpus, shown_evidence
from cotenant.core.model.objects import JobKey
from cotenant.query.cluster_change import ClusterWhatIf, MovedStart, UnbackedGuarantee
from cotenant.query.explanation import Explanation
from cotenant.query.job_move import MovePlan
from cotenant.query.node_needs import NodeNeeds
from cotenant.query.offer import Offer
from cotenant.query.queue_tree import QueueLine
from cotenant.query.redaction import ANONYMOUS, JobMention
from cotenant.query.what_if import WhatIf

Document: TypeAlias = dict[str, Any]
API_VERSION: Final = f"{names.QUERY_GROUP}/{names.QUERY_VERSION}"
RESOURCES: Final = (
    ("advices", "Advice", True, ("get", "list")),
    ("clusterwhatifs", "ClusterWhatIf", False, ("create",)),
    ("explanations", "Explanation", True, ("get", "list")),
    ("remotejobs/log", "RemotePod", True, ("get",)),
    ("remotejobs/pods", "RemotePod", True, ("get",)),
    ("runs", "Run", True, ("get", "list")),
    ("showbacks", "Showback", True, ("list",)),
    ("nodeneeds", "NodeNeed", False, ("list",)),
    ("offers", "Offer", True, ("list",)),
    ("queuetrees", "QueueTree", False, ("list",)),
    ("decisions", "Decision", False, ("list",)),
    ("capsules", "Capsule", False, ("get", "list")),
    ("whatifs", "WhatIf", True, ("create",)),
)
"""(name, kind, namespaced, verbs)."""


def discovery() -> Document:
    """Resources of the API: the answer to `/apis/query.cotenant.dev/v1alpha1`."""
    resources = [
        {"name": name, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": list(verbs)}
        for name, kind, namespaced, verbs in RESOURCES
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": resources}


def failure(code: int, reason: str, message: str) -> Document:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    }  # fmt: skip


def answer(kind: str, name: str, namespace: str, status: Mapping[str, Any]) -> Document:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": dict(status)}


def listed(kind: str, items: Iterable[Document], **more: Any) -> Document:
    """The list of objects of this kind, with further fields."""
    return {"apiVersion": API_VERSION, "kind": f"{kind}List", "metadata": {}, "items": list(items)} | more


def filled(document: Mapping[str, Any]) -> Document:
    """The document without unknown and empty fields."""
    return {name: value for name, value in document.items() if value not in (None, "", [], {})}


def explanation_status(about: Explanation) -> Document:
    """The document without empty fields."""
    status: Document = {
        "standing": about.standing.value,
        "queue": about.queue,
        "asks": about.asks,
        "submittedAt": timestamp(about.submitted_at),
        "requeuedAt": timestamp(about.requeued_at),
        "user": about.user,
        "nodes": list(about.nodes),
        "reason": about.reason,
        "message": about.message,
        "evidence": shown_evidence(about.evidence),
        "position": about.position,
        "ahead": mentions(about.ahead),
        "aheadMore": about.ahead_more or None,
        "leaving": mentions(about.leaving),
        "estimatedStart": timestamp(about.start_at),
        "latestStart": timestamp(about.start_by),
        "startsBy": timestamp(about.starts_by),
        "startsByBasis": about.starts_by_basis,
        "wouldStartIf": about.would_start_if,
        "change": {path: json.loads(value) for path, value in about.change},
    }
    return filled(status) | {"priority": about.priority, "needsChange": about.needs_change}


def explanation_list(found: Iterable[Explanation], observed: Mapping[JobKey, Document]) -> Document:
    """The answers as items. `observed`: what is seen of a job besides."""
    items = []
    for about in found:
        namespace, _, name = about.job.partition("/")
        status = explanation_status(about) | observed.get(about.job, {})
        items.append(answer("Explanation", name, namespace, status))
    return listed("Explanation", items)


def what_if_status(found: WhatIf) -> Document:
    """The document without empty fields."""
    status: Document = {
        "outcome": found.outcome.value,
        "queue": found.queue,
        "asks": found.asks,
        "nodes": dict(found.nodes),
        "reason": found.reason,
        "message": found.message,
        "victims": mentions(found.victims),
        "delayed": mentions(found.delayed),
        "delayedMore": found.delayed_more or None,
        "estimatedStart": timestamp(found.start_at),
        "latestStart": timestamp(found.start_by),
        "wouldStartIf": found.would_start_if,
        "change": {path: json.loads(value) for path, value in found.change},
    }
    return filled(status) | {"needsChange": found.needs_change}


def cluster_what_if_status(found: ClusterWhatIf) -> Document:
    """The document without empty lists."""
    lists: Document = {
        "starts": mentions(found.starts),
        "promised": mentions(found.promised),
        "evicted": mentions(found.evicted),
        "keptWaiting": mentions(found.kept_waiting),
        "sooner": _moves(found.sooner),
        "later": _moves(found.later),
        "unbackedGuarantees": [_unbacked(one) for one in found.unbacked],
    }
    counts = {name: number for name, number in found.counts if number}
    waiting = {"before": found.waiting[0], "after": found.waiting[1]}
    return {name: one for name, one in lists.items() if one} | {"counts": counts, "waiting": waiting}


def _unbacked(one: UnbackedGuarantee) -> Document:
    """Amounts as GPUs, like those of a QueueTree."""
    scope = {name: value for name, value in (("class", one.gpu_class), ("zone", one.zone)) if value is not None}
    amounts = {"guaranteed": format_gpus(one.guaranteed), "effective": format_gpus(one.effective)}
    return {"queue": one.queue} | scope | amounts


def _moves(starts: Iterable[MovedStart]) -> list[Document]:
    """Jobs with their starts, as far as they are known."""
    moved = []
    for one in starts:
        times = {"before": timestamp(one.before), "after": timestamp(one.after)}
        moved.append(mentions([one.job])[0] | {name: at for name, at in times.items() if at is not None})
    return moved


def move_status(plan: MovePlan) -> Document:
    return {
        "job": plan.job,
        "fits": plan.fits,
        "there": plan.there,
        "from": dict(plan.held),
        "to": dict(plan.to),
        "message": plan.message,
        "unsavedSeconds": plan.unsaved_s,
        "unsavedGpuSeconds": format_gpus(plan.unsaved_milli_s),
    }


def offer_list(namespace: str, found: Iterable[Offer]) -> Document:
    """GPUs as numbers, shares as fractions of one."""
    items = []
    for offer in found:
        classes = [
            {
                "class": one.gpu_class,
                "guaranteed": one.guaranteed,
                "borrowable": one.borrowable,
                "largestGang": one.largest_gang,
                "onOneNode": one.on_one_node,
                "largestShare": format_gpus(one.share_milli),
            }
            for one in offer.classes
        ]
        status = {"classes": classes} | ({"message": offer.refusal} if offer.refusal else {})
        items.append(answer("Offer", offer.queue, namespace, status))
    return listed("Offer", items)


def node_need_list(found: NodeNeeds) -> Document:
    """An item for each kind of node that would start something, named after a node of the kind."""
    items = [
        answer(
            "NodeNeed",
            one.like,
            "",
            {"gpus": dict(one.gpus), "nodes": one.nodes, "starts": one.starts, "isLeast": one.is_least}
            | ({"zone": one.zone} if one.zone else {}),
        )
        for one in found.kinds
    ]
    status = {"waiting": found.waiting, "unhelped": dict(found.unhelped), "untriedKinds": found.untried}
    return listed("NodeNeed", items, status=status)


def queue_tree_list(found: Iterable[QueueLine], budgets: Mapping[str, Document]) -> Document:
    """Queues as a tree; amounts in GPUs, shares in parts per million."""
    items = []
    for line in found:
        share = line.share
        terms = [
            {
                "class": one.scope, "borrowed": format_gpus(one.borrowed), "capacity": format_gpus(one.capacity),
                "ppm": one.ppm,
            }
            for one in share.terms
        ]  # fmt: skip
        quotas = [
            {
                "class": one.gpu_class, "zone": one.zone, "guaranteed": format_gpus(one.guaranteed),
                "effective": format_gpus(one.effective), "used": format_gpus(one.used),
                "limit": None if one.limit is None else format_gpus(one.limit),
            }
            for one in line.quotas
        ]  # fmt: skip
        status = {
            "parent": line.parent,
            "depth": line.depth,
            "guaranteed": format_gpus(line.guaranteed),
            "used": format_gpus(line.used),
            "borrowed": format_gpus(line.borrowed),
            "waiting": line.waiting,
            "holding": line.holding,
            "quotas": quotas,
            "share": {"terms": terms, "pastPpm": share.past_ppm, "weight": share.weight, "ppm": share.ppm},
            "broken": line.broken,
            "hold": line.hold,
        } | ({"budget": budgets[line.name]} if line.name in budgets else {})
        items.append(answer("QueueTree", line.name, "", status))
    return listed("QueueTree", items)


def mentions(jobs: Iterable[JobMention]) -> list[Document]:
    return [
        {"job": one.job or ANONYMOUS, "asks": one.asks, "why": one.why} | ({"queue": one.queue} if one.queue else {})
        for one in jobs
    ]


def timestamp(at: float | None) -> str | None:
    """RFC 3339 in UTC, to the second."""
    return None if at is None else show_time(moment(at))
