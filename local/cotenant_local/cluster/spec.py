"""The spec of a cluster: nodes, their size and GPUs, what is reachable from outside. From flags or a YAML file.

Parsed once, at the door; everything behind it reads `ClusterSpec`. `docs/local-cluster.md` shows a file.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from cotenant_local.cluster import quantities
from cotenant_local.host.errors import LocalError
from cotenant_local.runtime.containers.images import repository

Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)")
MAX_NODES: Final = 64


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuSpec(StrictModel):
    """Simulated GPUs: an annotation on the Node, which an agent that simulates publishes."""

    count: int = Field(ge=1, le=16)
    gpu_class: str = Field(alias="class", min_length=1, max_length=63)
    memory: str = "80Gi"
    memory_limits: bool = Field(default=False, alias="memoryLimits")
    """The hook of NVIDIA's toolkit is played on a stand-in for the driver: the folder `gpu-driver` of the node."""

    @field_validator("memory")
    @classmethod
    def _whole_mebibytes(cls, value: str) -> str:
        if quantities.to_bytes(value) < 2**20:
            raise ValueError("is less than 1Mi")
        return value


class NodeSpec(StrictModel):
    name: Label
    cpu: int | None = Field(default=None, ge=1, le=4096)
    """Whole CPUs; the machine's when absent."""
    memory: str | None = None
    ephemeral_storage: str | None = Field(default=None, alias="ephemeralStorage")
    """Of the disk below the state folder; all of it when absent, and never more."""
    pods: int = Field(default=110, ge=1, le=250)
    zone: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    resources: dict[str, int] = {}
    """Extended resources, for example {"example.com/dongle": 2}."""
    gpus: GpuSpec | None = None

    @field_validator("memory")
    @classmethod
    def _enough_memory(cls, value: str | None) -> str | None:
        if value is not None and quantities.to_bytes(value) < 64 * 2**20:
            raise ValueError("is less than 64Mi")
        return value

    @field_validator("ephemeral_storage")
    @classmethod
    def _amount(cls, value: str | None) -> str | None:
        if value is not None:
            quantities.to_bytes(value)
        return value

    @field_validator("taints")
    @classmethod
    def _taints(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for taint in value:
            if not TAINT.fullmatch(taint):
                raise ValueError(f"{taint!r} is not KEY[=VALUE]:NoSchedule|PreferNoSchedule|NoExecute")
        return value

    @field_validator("resources")
    @classmethod
    def _resources(cls, value: dict[str, int]) -> dict[str, int]:
        for name, amount in value.items():
            if "/" not in name or amount < 0:
                raise ValueError(f"{name!r}: {amount} is not an extended resource such as example.com/dongle: 2")
        return value


class ForwardSpec(StrictModel):
    """A port of a Service, reachable on 127.0.0.1 of the machine as long as the cluster is up."""

    service: str = Field(pattern=r"^[a-z0-9-]+/[a-z0-9-]+:[0-9]+$")
    """NAMESPACE/NAME:PORT"""
    port: int = Field(default=0, ge=0, le=65535)
    """On 127.0.0.1; 0 takes a free one, which `cotenant local status` shows."""


class ImageSpec(StrictModel):
    """One image more: one of this project's, with folders of this machine and variables added."""

    like: Literal["operator", "agent", "worker", "tools"] = "worker"
    paths: tuple[str, ...] = ()
    """Folders of this machine, shown read-only at the same place."""
    env: dict[str, str] = {}
    """On top of what the image had, for example {"PYTHONPATH": "/opt/jax"}."""

    @field_validator("paths")
    @classmethod
    def _folders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            if not Path(path).is_absolute():
                raise ValueError(f"{path!r} is not an absolute path")
        return value


class ClusterSpec(StrictModel):
    nodes: tuple[NodeSpec, ...] = ()
    images: dict[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._/:-]*[a-z0-9]$")], ImageSpec] = {}
    """Repository → image, beside this project's own. Any tag of the repository is this image."""
    forwards: tuple[ForwardSpec, ...] = ()
    oldest: bool = False
    """The control plane of the oldest Kubernetes that Cotenant promises to run on. Such a cluster has no nodes."""
    ip_family: Literal["IPv4", "IPv6"] = Field(default="IPv4", alias="ipFamily")
    """Of nodes, pods and Services; the machine itself reaches the API server on 127.0.0.1 either way."""
    api_port: int = Field(default=0, ge=0, le=65535)
    """Of the API server on 127.0.0.1; 0 takes a free one."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [node.name for node in self.nodes]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"nodes: {', '.join(twice)}: named more than once")
        images = [repository(name) for name in self.images]
        if twice := sorted({name for name in images if images.count(name) > 1}):
            raise ValueError(f"images: {', '.join(twice)}: named more than once; any tag is the same image")
        if names and self.oldest:
            raise ValueError("nodes: a cluster of the oldest Kubernetes has a control plane and no nodes")
        if len(names) > MAX_NODES:
            raise ValueError(f"nodes: {len(names)} are more than {MAX_NODES}")
        return self


def uniform(nodes: int, gpus: int, gpu_class: str, gpu_memory: str) -> ClusterSpec:
    """A cluster of `nodes` nodes of the same kind, from flags."""
    of_each = {"count": gpus, "class": gpu_class, "memory": gpu_memory} if gpus else None
    return parse({"nodes": [{"name": f"node-{i + 1}", "gpus": of_each} for i in range(nodes)]}, "command line")


def load(path: Path) -> ClusterSpec:
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise LocalError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(document, dict):
        raise LocalError(f"{path}: want a mapping with `nodes:`, got {type(document).__name__}.")
    return parse(document, str(path))


def parse(document: dict[str, Any], source: str) -> ClusterSpec:
    """`count: N` on a node makes N of it, named NAME-1 to NAME-N."""
    try:
        return ClusterSpec.model_validate({**document, "nodes": _expand(document.get("nodes") or [])})
    except (ValidationError, ValueError) as error:
        raise LocalError(f"{source}: {_validation_message(error)}") from error


def _expand(nodes: Any) -> list[Any]:
    if not isinstance(nodes, list):
        raise ValueError("nodes: want a list")
    expanded: list[Any] = []
    for node in nodes:
        if not isinstance(node, dict) or "count" not in node:
            expanded.append(node)
            continue
        rest = {key: value for key, value in node.items() if key != "count"}
        if not isinstance(node["count"], int) or not 0 <= node["count"] <= MAX_NODES:
            raise ValueError(f"nodes: count: want a number from 0 to {MAX_NODES}, got {node['count']!r}")
        expanded += [{**rest, "name": f"{rest.get('name', 'node')}-{i + 1}"} for i in range(node["count"])]
    return expanded


def _validation_message(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    problems = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"]).replace("gpu_class", "class")
        problems.append(f"{where}: {fault['msg']}" if where else str(fault["msg"]))
    return "; ".join(problems)
