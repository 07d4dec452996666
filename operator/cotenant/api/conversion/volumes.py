"""Claims, volumes and node selectors of namespaces: the nodes on which the pods of a job can run. Pure.

The rules are the kube-scheduler's: the node affinity of a bound volume, and the zone labels of older volumes without
one (its plugin VolumeZone). A claim that is not bound yet binds on the node of its pod. A namespace's node selector is
added to all its pods on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from cotenant.api.resources.trainingjobs import TrainingJob, TrainingJobSpec
from cotenant.api.validation.problems import DocumentError, Problem
from cotenant.core.model import objects as core
from cotenant.core.model.formatting import join_or

Document = Mapping[str, Any]
Expression: TypeAlias = tuple[str, str, tuple[str, ...]]
"""Label, operator, values; the label `metadata.name` is the node's name."""
Labels: TypeAlias = Mapping[str, str]

NAME: Final = "metadata.name"
_GENERAL: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_TOPOLOGY: Final = frozenset(_GENERAL) | frozenset(_GENERAL.values())
_SHARED: Final = frozenset({"nfs", "cephfs", "glusterfs", "azureFile"})
"""Sources of volumes that Kubernetes attaches to no node. For them it does not enforce ReadWriteOnce."""
_SHARED_DRIVERS: Final = frozenset({"nfs.csi.k8s.io", "smb.csi.k8s.io", "efs.csi.aws.com", "file.csi.azure.com"})
"""CSI drivers of such volumes: their CSIDriver has `attachRequired: false`."""
_NODE_SELECTORS: Final = ("openshift.io/node-selector", "scheduler.alpha.kubernetes.io/node-selector")
"""Annotations of namespaces: of OpenShift's projects, and of Kubernetes' admission plugin PodNodeSelector."""
_ONE_NODE: Final = "ReadWriteOnce"
_ONE_POD: Final = "ReadWriteOncePod"
_MANY: Final = "ReadWriteMany"


@dataclass(frozen=True, slots=True)
class Claim:
    modes: frozenset[str]
    volume: str = ""
    """Volume that it is bound to, or will be; empty if it is not bound yet."""


@dataclass(frozen=True, slots=True)
class BoundVolume:
    terms: tuple[tuple[Expression, ...], ...] | None = None
    """A node fits if it fits one of them; None means any node."""
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    """Label → its values. A node with such a label has to have one of them."""
    attached: bool = True
    """True if it is attached to a node, so that ReadWriteOnce keeps it from other nodes."""

    def fits(self, name: str, labels: Labels) -> bool:
        """True if a pod with this volume can run on the node of this name."""
        known = {**labels, NAME: name}
        if self.terms is not None and not any(term and all(_holds(one, known) for one in term) for term in self.terms):
            return False
        return not (labels.keys() & _TOPOLOGY) or all(_general(labels).get(key) in of for key, of in self.zones)

    @property
    def place(self) -> str:
        """The place as a message names it: `in zone b`, `on node n1`."""
        named = [*(one for term in self.terms or () for one in term), *((key, "In", of) for key, of in self.zones)]
        for suffixes, noun in ((("/zone",), "in zone"), (("/hostname", NAME), "on node"), (("/region",), "in region")):
            found = [of for key, operator, of in named if operator == "In" and key.endswith(suffixes)]
            if found:
                return f"{noun} {join_or(sorted({value for of in found for value in of}))}"
        return f"on nodes that its node affinity names ({', '.join(sorted({key for key, *_ in named}))})"


def to_claim(document: Document) -> Claim:
    spec = document.get("spec") or {}
    return Claim(frozenset(spec.get("accessModes") or ()), str(spec.get("volumeName") or ""))


def to_volume(document: Document) -> BoundVolume:
    spec = document.get("spec") or {}
    required = (spec.get("nodeAffinity") or {}).get("required")
    labels = document["metadata"].get("labels") or {}
    terms = None if required is None else tuple(_term(one) for one in required.get("nodeSelectorTerms") or ())
    zones = {key: frozenset(value.split("__")) for key, value in _general(labels).items() if key in _TOPOLOGY}
    shared = bool(spec.keys() & _SHARED) or (spec.get("csi") or {}).get("driver") in _SHARED_DRIVERS
    return BoundVolume(terms, tuple((key, zones[key]) for key in sorted(zones)), attached=not shared)


def to_node_selector(namespace: Document) -> BoundVolume | None:
    """The node selector of a namespace, which restricts all its pods as a volume would; None if it has none."""
    annotations = namespace["metadata"].get("annotations") or {}
    pairs = (pair.strip() for name in _NODE_SELECTORS for pair in (annotations.get(name) or "").split(","))
    parts = [pair.partition("=") for pair in sorted(set(pairs) - {""})]
    if not all(equals for _, equals, _ in parts):
        return None  # the API server refuses all pods of this namespace, and says why
    return BoundVolume((tuple((key.strip(), "In", (value.strip(),)) for key, _, value in parts),)) if parts else None


def mounted_objects(spec: TrainingJobSpec) -> list[tuple[str, str]]:
    """Kind and name of each object of its namespace that the job's pods mount, in the order of the spec."""
    found: dict[tuple[str, str], None] = {}
    checkpoint = spec.checkpoint.volume if spec.checkpoint else None
    for source in (spec.runtime.code, *spec.runtime.volumes, checkpoint):
        if config_map := getattr(source, "config_map", None):
            found["ConfigMap", config_map.name] = None
        if secret := getattr(source, "secret", None):
            found["Secret", secret.secret_name] = None
        if claim := getattr(source, "persistent_volume_claim", None):
            found["PersistentVolumeClaim", claim.claim_name] = None
    return list(found)


def claims_of(spec: TrainingJobSpec) -> dict[str, bool]:
    """Name of each claim that the job mounts → whether it is mounted read-only."""
    code, checkpoint = spec.runtime.code, spec.checkpoint.volume if spec.checkpoint else None
    mounts = [(one.persistent_volume_claim, one.read_only) for one in spec.runtime.volumes]
    mounts += [(code.persistent_volume_claim, True)] if code else []
    mounts += [(checkpoint.persistent_volume_claim, False)] if checkpoint else []
    found: dict[str, bool] = {}
    for claim, read_only in mounts:
        if claim is not None:
            found[claim.claim_name] = read_only and found.get(claim.claim_name, True)
    return found


def with_volumes(
    job: core.Job,
    document: TrainingJob,
    claims: Mapping[str, Claim],
    volumes: Mapping[str, BoundVolume],
    nodes_of: Callable[[BoundVolume], frozenset[str]],
    *,
    selector: BoundVolume | None = None,
) -> core.Job:
    """The job, restricted to nodes on which its claims can be mounted, and that its namespace's selector chooses.

    `claims` are those of its namespace, by name. `nodes_of` returns the nodes that a volume fits. What the job holds
    does not count against its claims. Raises DocumentError if no placement can ever do.
    """
    mounted = {name: (claims[name], reads) for name, reads in claims_of(document.spec).items() if name in claims}
    held = {part.node for part in job.placement.nodes} if job.placement else set[str]()
    nodes, why = None, list[str]()
    for what, restriction in _restrictions(job.namespace, mounted, volumes, selector):
        fit = nodes_of(restriction)
        if held <= fit:
            nodes = fit if nodes is None else nodes & fit
            why.append(what)
    one_node = ""
    single = [
        name for name, (claim, reads) in mounted.items() if keeps_on_one_node(claim, reads, volumes.get(claim.volume))
    ]
    if document.spec.evaluator is not None and not held:
        _refuse_evaluator(document, [name for name in single if _ONE_POD in claims[name].modes])
    if single and job.workers_max > 1 and len(held) < 2:
        if not held:
            _refuse_several(job, document, {name: claims[name] for name in single})
        job = replace(job, topology=core.Topology("node", core.TopologyMode.REQUIRED), spread=None)
        one_node = (
            f"One node alone can mount claim {single[0]}, which is {_ONE_NODE}: use a {_MANY} claim, or ask for no more"
            " than one node has."
        )
    if nodes is None and not one_node:
        return job
    return replace(job, volumes=core.VolumePlaces(nodes, " and ".join(why), one_node))


def _restrictions(
    namespace: str,
    mounted: Mapping[str, tuple[Claim, bool]],
    volumes: Mapping[str, BoundVolume],
    selector: BoundVolume | None,
) -> Iterator[tuple[str, BoundVolume]]:
    """For a message: what restricts the job's nodes, and how."""
    for name, (claim, _) in mounted.items():
        volume = volumes.get(claim.volume) if claim.volume else None
        if volume is not None and (volume.terms is not None or volume.zones):
            yield f"claim {name} is bound to volume {claim.volume} {volume.place}", volume
    if selector is not None:
        pairs = [f"{key}={values[0]}" for term in selector.terms or () for key, _, values in term]
        yield f"namespace {namespace} has the node selector {','.join(pairs)}", selector


def _refuse_several(job: core.Job, document: TrainingJob, single: Mapping[str, Claim]) -> None:
    """Raise DocumentError if several workers cannot share these claims even on one node."""
    of_one_pod = [name for name, claim in single.items() if _ONE_POD in claim.modes]
    if of_one_pod:
        text = (
            f"is {job.workers_max}, and one pod alone can mount claim {of_one_pod[0]}, which is {_ONE_POD}: write 1, or"
            f" use a {_MANY} claim"
        )
        raise _refusal(document, "spec.workers", text)
    if job.spread is not None and job.spread.mode is core.TopologyMode.REQUIRED:
        text = (
            f"asks for several domains, and one node alone can mount claim {next(iter(single))}, which is {_ONE_NODE}:"
            f" leave spec.spread out, or use a {_MANY} claim"
        )
        raise _refusal(document, "spec.spread", text)


def _refuse_evaluator(document: TrainingJob, of_one_pod: list[str]) -> None:
    """Raise DocumentError if the evaluator's pod cannot mount a claim beside that of the ranks."""
    if of_one_pod:
        text = (
            f"is a second pod, and one pod alone can mount claim {of_one_pod[0]}, which is {_ONE_POD}: leave evaluator"
            f" out, or use a {_MANY} claim"
        )
        raise _refusal(document, "spec.evaluator", text)


def _refusal(document: TrainingJob, field: str, text: str) -> DocumentError:
    return DocumentError([Problem(field, text)], f"TrainingJob {document.metadata.name}")


def keeps_on_one_node(claim: Claim, read_only: bool, volume: BoundVolume | None) -> bool:
    """True if all pods that mount the claim must be on one node."""
    if _ONE_POD not in claim.modes and volume is not None and not volume.attached:
        return False
    if _MANY in claim.modes or (read_only and "ReadOnlyMany" in claim.modes):
        return False
    return bool(claim.modes & {_ONE_NODE, _ONE_POD})


def _general(labels: Labels) -> dict[str, str]:
    """The labels, with zone and region under their current names."""
    return {_GENERAL.get(key, key): value for key, value in labels.items()}


def _term(document: Document) -> tuple[Expression, ...]:
    return tuple(_expressions(document, "matchExpressions")) + tuple(_expressions(document, "matchFields"))


def _expressions(document: Document, field: str) -> Iterator[Expression]:
    for one in document.get(field) or ():
        yield str(one.get("key")), str(one.get("operator")), tuple(map(str, one.get("values") or ()))


def _holds(expression: Expression, labels: Labels) -> bool:
    key, operator, values = expression
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: tuple[str, ...]) -> bool:
    try:
        here, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return here > bound if operator == "Gt" else here < bound
