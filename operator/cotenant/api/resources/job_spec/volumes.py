"""Volumes that a job may mount, all of its own namespace: claims, ConfigMaps, Secrets, scratch space. No path of the
node.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, TypeAlias

from cotenant.api.scalars.amounts import VolumeSize
from cotenant.api.scalars.fields import Bool, ObjectName, Str, cel_text, text
from cotenant.api.validation.rules import Model, Rule

RESERVED_PATHS = r"^/(tmp|dev|proc|sys|etc|run|var/run|workspace|checkpoints)(/.*)?$"

SubPath: TypeAlias = Annotated[
    Str,
    *text(
        r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$",
        "must be a relative path without '..', such as \"runs/today\"",
        longest=256,
    ),
]
"""No part may start with a dot, so `..` cannot leave the volume."""


class ConfigMapSource(Model):
    name: ObjectName
    """A ConfigMap in the job's namespace."""


class SecretSource(Model):
    secret_name: ObjectName
    """A Secret in the job's namespace."""


class ClaimSource(Model):
    claim_name: ObjectName
    """A PersistentVolumeClaim in the job's namespace."""
    sub_path: SubPath | None = None
    """Only this folder of the volume."""


class EmptyDirSource(Model):
    size_limit: VolumeSize | None = None
    """If the pod stores more, it is evicted. Default: what the node has."""


class Code(Model):
    """Mounted read-only at /workspace, which is at the end of sys.path. The program starts in a writable folder that
    links to it.
    """

    config_map: ConfigMapSource | None = None
    """Files from a ConfigMap, one per key."""
    persistent_volume_claim: ClaimSource | None = None
    """Files from a volume."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "has(self.configMap) != has(self.persistentVolumeClaim)",
            "code takes exactly one of configMap and persistentVolumeClaim; write"
            " `spec.runtime.code: {configMap: {name: code}}` or"
            " `spec.runtime.code: {persistentVolumeClaim: {claimName: data}}`",
            lambda it: (it.config_map is None) != (it.persistent_volume_claim is None),
        ),
    )


class Volume(Model):
    name: Annotated[
        Str,
        *text(
            r"^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$",
            "must be at most 53 lower-case letters, digits and '-', such as \"data\"",
            longest=53,
        ),
    ]
    """Distinct among the job's volumes."""
    mount_path: Annotated[
        Str,
        *text(
            r"^(/[A-Za-z0-9_][-A-Za-z0-9_.]*)+$",
            "must be an absolute path below / without '..', such as \"/data\"",
            longest=256,
        ),
    ]
    """Path in every pod, not below a path that Cotenant or the system uses."""
    read_only: Bool = False
    """Mount it for reading only. ConfigMaps and Secrets always are."""
    persistent_volume_claim: ClaimSource | None = None
    """A volume that outlives the job."""
    config_map: ConfigMapSource | None = None
    """Files from a ConfigMap, one per key."""
    secret: SecretSource | None = None
    """Files from a Secret, one per key."""
    empty_dir: EmptyDirSource | None = None
    """Scratch space that is deleted with the pod."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "(has(self.persistentVolumeClaim) ? 1 : 0) + (has(self.configMap) ? 1 : 0) + (has(self.secret) ? 1 : 0)"
            " + (has(self.emptyDir) ? 1 : 0) == 1",
            "a volume takes exactly one of persistentVolumeClaim, configMap, secret and emptyDir; write one of"
            " them, such as `persistentVolumeClaim: {claimName: data}`, and leave the others out",
            lambda it: (
                [it.persistent_volume_claim, it.config_map, it.secret, it.empty_dir].count(None) == 3  # four sources
            ),
        ),
        Rule(
            "mountPath",
            f"!self.mountPath.matches({cel_text(RESERVED_PATHS)})",
            "this path is used by Cotenant or by the system; mount the volume elsewhere, such as at /data",
            lambda it: re.fullmatch(RESERVED_PATHS, it.mount_path) is None,
        ),
    )
