"""Proposals of administrators as a cluster that does not exist: another quota, a node more or less, another setting.

Each is read by the same code as the real object: a queue as its document, a setting as the operator's environment. Each
comes with the command that makes it real.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from cotenant import names
from cotenant.api.conversion.job_moves import JobMove, read_move, with_move
from cotenant.api.conversion.quota_grants import effective_queues
from cotenant.api.conversion.to_core import parse_queue, to_queue
from cotenant.api.scalars.quantities import parse_gpus
from cotenant.api.validation.problems import DocumentError
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.query_api.proposals import ProposalError, write_field
from cotenant.controller.query_api.questions import NotFoundError
from cotenant.controller.settings import PREFIX, Settings, SettingsError
from cotenant.core.model.formatting import format_gpus
from cotenant.core.model.objects import Job, TenantQueue
from cotenant.core.policy import Policy
from cotenant.query.cluster_change import (
    ChangedCluster,
    jobs_on,
    jobs_on_gpu,
    with_copies,
    with_queue,
    without_gpu,
    without_node,
)
from cotenant.query.node_needs import NODES_MAX
from cotenant.query.situation import Situation

OF_DECISIONS: Final = tuple(sorted(Settings.model_fields.keys() & {one.name for one in fields(Policy)}))
"""Settings that a decision depends on."""
QUOTA_FIELDS: Final = {"gpus": "guaranteed", "guaranteed": "guaranteed", "limit": "limit", "lendable": "lendable"}


@dataclass(frozen=True, slots=True)
class ClusterProposal:
    change: Callable[[Situation], ChangedCluster]
    """Raises ProposalError if the situation does not contain what the change is about."""
    command: str
    """The command that makes the change; empty if no command does."""


def cluster_proposal(spec: Mapping[str, Any], cache: ObjectCache, *, labelled_only: bool) -> ClusterProposal:
    """Read what the question proposes. `labelled_only`: see `to_queue`. Raises ProposalError."""
    asked = [name for name in ("queue", "manifest", "node", "setting", "job") if spec.get(name)]
    match asked:
        case ["queue"] | ["manifest"]:
            return _of_queue(spec, cache, labelled_only)
        case ["node"]:
            return _of_node(spec, cache)
        case ["setting"]:
            return _of_setting(spec)
        case ["job"]:
            return _of_move(spec, cache)
        case _:
            raise ProposalError("give one of spec.queue, spec.manifest (a Queue), spec.node, spec.setting and spec.job")


def _with_what_is_spent(queue: TenantQueue, known: TenantQueue) -> TenantQueue:
    """The proposed queue after what it has spent in this period, without what was carried over."""
    changed = replace(queue, budget_until=known.budget_until, currency=known.currency)
    if known.budget is not None and queue.budget is not None:
        spent = known.budget - (known.budget_left or 0)
        changed = replace(changed, budget_left=max(0, queue.budget - spent))
    if known.money is not None and queue.money is not None:
        spent = known.money - (known.money_left or 0)
        changed = replace(changed, money_left=max(0, queue.money - spent))
    return changed


def _with_grants(queue: TenantQueue, situation: Situation, cache: ObjectCache) -> TenantQueue:
    """The proposed queue with its current grants."""
    queues = {one.name: one for one in situation.snapshot.queues} | {queue.name: queue}
    return effective_queues(queues, cache.quota_grants.values(), situation.snapshot.now).queues[queue.name]


def _of_queue(spec: Mapping[str, Any], cache: ObjectCache, labelled_only: bool) -> ClusterProposal:
    document, command = _queue_document(spec, cache)
    try:
        parsed = parse_queue(document)
        queue = to_queue(parsed, namespaces=cache.namespaces, labelled_only=labelled_only)
    except DocumentError as error:
        raise ProposalError(error.text) from error

    def change(situation: Situation) -> ChangedCluster:
        known = next((one for one in situation.snapshot.queues if one.name == queue.name), None)
        changed = queue
        if known is not None:
            changed = _with_what_is_spent(queue, known)
        changed = _with_grants(changed, situation, cache)
        return ChangedCluster(snapshot=with_queue(situation.snapshot, changed), policy=situation.policy)

    return ClusterProposal(change, command)


def _queue_document(spec: Mapping[str, Any], cache: ObjectCache) -> tuple[dict[str, Any], str]:
    """The changed queue, and the command that makes it so."""
    manifest = spec.get("manifest")
    if manifest is not None:
        if not isinstance(manifest, dict) or manifest.get("kind") != "Queue":
            raise ProposalError("spec.manifest is no Queue")
        return {key: value for key, value in manifest.items() if key != "status"}, "kubectl apply -f FILE"
    name, change = str(spec["queue"]), spec.get("change")
    known = cache.queues.get(name)
    if known is None:
        raise NotFoundError(f'queues.{names.GROUP} "{name}" not found')
    if not isinstance(change, dict) or not change:
        raise ProposalError("spec.change must be an object of fields, such as gpus: +4")
    before = known.to_document()
    document = {key: value for key, value in copy.deepcopy(before).items() if key != "status"}
    for path, value in change.items():
        if path in QUOTA_FIELDS:
            _change_quota(document, QUOTA_FIELDS[path], value, spec)
        else:
            write_field(document, path if path.startswith("spec.") else f"spec.{path}", value)
    changed = {part: value for part, value in document["spec"].items() if value != before["spec"].get(part)}
    dropped = dict.fromkeys(before["spec"].keys() - document["spec"].keys())
    patch = json.dumps({"spec": changed | dropped})
    return document, f"kubectl patch queue {name} --type=merge -p '{patch}'"


def _change_quota(document: dict[str, Any], field: str, value: object, spec: Mapping[str, Any]) -> None:
    """Write one amount of a quota line. `+4` and `-4` are relative to the present amount."""
    lines = document["spec"].setdefault("quotas", [])
    wanted = {key: spec[key] for key in ("gpuClass", "zone") if spec.get(key)}
    found = [line for line in lines if all(line.get(key) == one for key, one in wanted.items())]
    if not lines:
        lines.append(dict(wanted))
        found = lines
    if len(found) != 1:
        shown = ", ".join(str(line.get("gpuClass") or "any class") for line in lines)
        raise ProposalError(f"which quota of the queue? It has lines for {shown}: name the class")
    text = str(value)
    try:
        amount = parse_gpus(text.lstrip("+-"))
    except ValueError as error:
        raise ProposalError(f"{text!r} is no number of GPUs, such as 4, +4 or -2") from error
    if text[:1] in {"+", "-"}:
        now = parse_gpus(str(found[0].get(field, 0)))
        amount = now + amount if text[0] == "+" else now - amount
    if amount < 0:
        raise ProposalError(f"{field} would be less than nothing: it is {found[0].get(field, 0)}")
    found[0][field] = format_gpus(amount)


def _of_node(spec: Mapping[str, Any], cache: ObjectCache) -> ClusterProposal:
    name, act = str(spec["node"]), spec.get("act")
    if act not in {"Add", "Cordon", "Drain"}:
        raise ProposalError("spec.act must be Add (nodes like this one), Cordon or Drain")
    gpu, count = spec.get("gpu", ""), spec.get("count", 1)
    if not isinstance(gpu, str) or (gpu and act != "Drain"):
        raise ProposalError("spec.gpu must be the UUID of a GPU to Drain")
    if not isinstance(count, int) or not 1 <= count <= NODES_MAX:
        raise ProposalError(f"spec.count must be a whole number from 1 to {NODES_MAX}")

    def change(situation: Situation) -> ChangedCluster:
        snapshot = situation.snapshot
        node = next((one for one in snapshot.nodes if one.name == name), None)
        if node is None:
            raise NotFoundError(f"there is no node {name!r} with GPUs")
        if act == "Add":
            return ChangedCluster(snapshot=with_copies(snapshot, node, count), policy=situation.policy)
        if gpu:
            if all(one.uuid != gpu for one in node.gpus):
                raise NotFoundError(f"there is no GPU {gpu!r} on node {name!r}")
            left = tuple(key for key in jobs_on_gpu(snapshot, gpu) if key in cache.jobs)
            changed = without_gpu(snapshot, gpu, left)
            why = "its GPU would be drained"
            return ChangedCluster(snapshot=changed, policy=situation.policy, left=left, why_left=why)
        left = tuple(key for key in jobs_on(snapshot, name) if key in cache.jobs) if act == "Drain" else ()
        return ChangedCluster(snapshot=without_node(snapshot, name, left), policy=situation.policy, left=left)

    of_gpu = f" --gpu {gpu}" if gpu else ""
    command = {"Drain": f"kubectl cotenant drain {name}{of_gpu}", "Cordon": f"kubectl cordon {name}"}.get(str(act), "")
    return ClusterProposal(change, command)


def _of_move(spec: Mapping[str, Any], cache: ObjectCache) -> ClusterProposal:
    key = str(spec["job"])
    namespace, _, name = key.partition("/")
    record = cache.jobs.get(key)
    if record is None:
        raise NotFoundError.of_job(namespace, name)
    if record.placement is None:
        raise ProposalError(f"{key} does not run: it is {record.phase.value}, and holds nothing that could be moved")
    wish = {name: spec[name] for name in ("to", "off", "class") if spec.get(name)}
    move = read_move(json.dumps({"attempt": record.status.attempts, "until": "9999-01-01T00:00:00Z"} | wish))
    if move is None:
        raise ProposalError("spec.to and spec.off must be lists of nodes, and spec.class the name of a class")

    def change(situation: Situation) -> ChangedCluster:
        job = situation.jobs.get(key)
        if job is None or job.placement is None:
            raise NotFoundError(f"{key} does not run any more")
        if refusal := _no_move(move, job, situation):
            raise ProposalError(f"{key} cannot be moved so: {refusal}")
        asked = with_move(job, move)
        jobs = tuple(asked if one.key == key else one for one in situation.snapshot.jobs)
        snapshot = replace(situation.snapshot, jobs=jobs, accounting=None)
        return ChangedCluster(snapshot=snapshot, policy=situation.policy, moved=key)

    flags = [*(f"--to {one}" for one in sorted(move.nodes)), *(f"--off {one}" for one in sorted(move.avoided))]
    flags += [f"--class {move.gpu_class}"] if move.gpu_class else []
    return ClusterProposal(change, " ".join([f"kubectl cotenant move {key}", *flags]))


def _no_move(move: JobMove, job: Job, situation: Situation) -> str:
    """Why the move is impossible, no matter which GPUs are free."""
    known = {node.name for node in situation.snapshot.nodes}
    if unknown := sorted((move.nodes | move.avoided) - known):
        return f"there is no node {', '.join(unknown)} with GPUs"
    if not job.preemptible:
        return "the operator cannot work with it, and leaves it where it is"
    return move.refusal(job)


def _of_setting(spec: Mapping[str, Any]) -> ClusterProposal:
    name, value = str(spec["setting"]).replace("-", "_"), str(spec.get("value", ""))
    if name not in OF_DECISIONS:
        raise ProposalError(f"{name!r} is no setting that a decision is made by; those are: {', '.join(OF_DECISIONS)}")
    try:
        changed = getattr(Settings.read({}, {name: value}).policy, name)
    except SettingsError as error:
        raise ProposalError(str(error).replace(PREFIX + name.upper(), name)) from error

    def change(situation: Situation) -> ChangedCluster:
        policy = replace(situation.policy, **{name: changed})
        return ChangedCluster(snapshot=situation.snapshot, policy=policy)

    return ClusterProposal(change, f"helm upgrade … --reset-then-reuse-values --set operator.settings.{name}={value}")
