"""CustomResourceDefinitions of all kinds, generated from the models; `cotenant crds` writes and checks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from cotenant import names
from cotenant.api.resources.gpunodes import GPUNode, GPUNodeStatus
from cotenant.api.resources.queue_status import LocalQueue, LocalQueueStatus, QueueStatus
from cotenant.api.resources.queues import Queue
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.api.schema.structural import Schema, structural
from cotenant.api.validation.rules import Model, StatusModel, TransitionRule, validation

HEADER = "# Generated from the models in operator/cotenant/api by `make crds`. Do not edit.\n"


SPEC = "What is wanted. What is, and why, stands in `status`."


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with `-o wide` only."""

    def document(self) -> dict[str, Any]:
        priority = {"priority": 1} if self.wide else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **priority}


@dataclass(frozen=True, slots=True)
class CustomResource:
    model: type[Model]
    status: type[StatusModel]
    plural: str
    short: tuple[str, ...]
    namespaced: bool
    columns: tuple[Column, ...]
    transitions: tuple[TransitionRule, ...] = ()

    @property
    def kind(self) -> str:
        return self.model.__name__


AGE = Column("Age", ".metadata.creationTimestamp", "date")

RESOURCES = (
    CustomResource(
        model=TrainingJob,
        status=TrainingJobStatus,
        plural="trainingjobs",
        short=("tj",),
        namespaced=True,
        transitions=TrainingJob.TRANSITIONS,
        columns=(
            Column("Phase", ".status.phase"),
            Column("Queue", ".spec.queue"),
            Column("Workers", ".status.workers"),
            Column("GPUs", ".status.gpus"),
            Column("Progress", ".status.progress.summary"),
            Column("Reason", ".status.reason"),
            AGE,
            Column("Attempts", ".status.attempts", "integer", wide=True),
            Column("Isolation", ".status.isolation", wide=True),
            Column("Compute", ".status.isolationLevels.compute", wide=True),
            Column("Message", ".status.message", wide=True),
        ),
    ),
    CustomResource(
        model=Queue,
        status=QueueStatus,
        plural="queues",
        short=("q",),
        namespaced=False,
        columns=(
            Column("Parent", ".spec.parent"),
            Column("Weight", ".spec.weight", "integer"),
            Column("Used", ".status.used"),
            Column("Borrowed", ".status.borrowed"),
            Column("Running", ".status.running", "integer"),
            Column("Pending", ".status.pending", "integer"),
            AGE,
            Column("Lent", ".status.lent", wide=True),
            Column("Share", ".status.share", wide=True),
            Column("Budget left", ".status.budget.left", wide=True),
        ),
    ),
    CustomResource(
        model=LocalQueue,
        status=LocalQueueStatus,
        plural="localqueues",
        short=("lq",),
        namespaced=True,
        columns=(
            Column("Guaranteed", ".status.guaranteed"),
            Column("Used", ".status.used"),
            Column("Borrowed", ".status.borrowed"),
            Column("Free", ".status.free"),
            Column("Used here", ".status.usedHere"),
            Column("Running", ".status.running", "integer"),
            Column("Pending", ".status.pending", "integer"),
            AGE,
        ),
    ),
    CustomResource(
        model=GPUNode,
        status=GPUNodeStatus,
        plural="gpunodes",
        short=("gn",),
        namespaced=False,
        columns=(
            Column("GPUs", ".status.summary"),
            Column("Health", ".status.health"),
            Column("Node", ".status.node"),
            Column("Driver", ".status.driverVersion"),
            Column("Isolation", ".status.isolation"),
            Column("Compute", ".status.isolationLevels.compute", wide=True),
            Column("Simulated", ".status.simulated", "boolean"),
            Column("Heartbeat", ".status.heartbeat", "date"),
            AGE,
        ),
    ),
)


def document(resource: CustomResource) -> dict[str, Any]:
    """The CustomResourceDefinition."""
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _root(resource)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.document() for column in resource.columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": list(resource.short),
                "categories": ["cotenant"],
            },
            "versions": [version],
        },
    }


def to_yaml(resource: CustomResource) -> str:
    body = yaml.safe_dump(document(resource), sort_keys=False, width=120, allow_unicode=True)
    return f"{HEADER}{body}"


def files() -> dict[str, str]:
    """File name → text of every CRD, as they stand in crds/ and in the chart."""
    return {f"{resource.plural}.yaml": to_yaml(resource) for resource in RESOURCES}


def _root(resource: CustomResource) -> Schema:
    """Schema of the whole object: `metadata` is the API server's own, the rest is the model's."""
    made = structural(resource.model)
    status = structural(resource.status, spec=False)
    spec = {"spec": {"description": SPEC, **made["properties"]["spec"]}} if "spec" in made["properties"] else {}
    root: Schema = {
        "type": "object",
        "description": made["description"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            **spec,
            "status": status,
        },
    }
    if spec:
        root["required"] = ["spec"]
    rules = [*made.get("x-kubernetes-validations", ()), *(validation(rule) for rule in resource.transitions)]
    if rules:
        root["x-kubernetes-validations"] = rules
    return root
