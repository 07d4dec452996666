"""The operator's instructions to a worker pod, as JSON in its environment: its identity, its GPUs, its program."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, Self, cast

from cotenant import names
from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse, unpack
from cotenant.contract.strict_object import ContractError, StrictObject

PART: Final = 100_000
"""Characters of one variable. Linux starts no program with a variable, or an argument, of 128 KiB."""
PACKED: Final = "zlib:"
"""How a long document begins: compressed, in base64. The grants of a thousand ranks are mostly repetition."""
BOUNDS: Final = Bounds(bytes_max=4 << 20, depth_max=16, values_max=500_000)
"""Of the document as it is unpacked: ten thousand ranks take a third of it."""

Mode = Literal["command", "entrypoint", "rayTrain"]
Collective = Literal["auto", "nccl", "gloo"]
Precision = Literal["fp32", "bf16", "fp16"]
Strategy = Literal["AllReduce", "ParameterServer"]


class Role(StrEnum):
    """What a pod of an attempt does: its label, and COTENANT_ROLE of a program."""

    WORKER = "worker"
    CHIEF = "chief"
    """Rank 0 of a job that names it so. Of programs alone: its pod is one of workers."""
    PARAMETER_SERVER = "parameter-server"
    EVALUATOR = "evaluator"


def needs_ray(mode: Mode, ranks: int) -> bool:
    """A single rank has no peers: it runs without Ray, and so without a token."""
    return ranks > 1 or mode == "rayTrain"


@dataclass(frozen=True, slots=True)
class GpuGrant:
    """One GPU, or a share of it, that one rank holds."""

    uuid: str
    memory_mib: int
    compute_milli: int
    whole: bool
    simulated: bool = False
    resource: str = ""
    """Extended resource as which the kubelet gave it, such as `amd.com/gpu`: the UUID then names no device that a
    program could see. Empty: a GPU of CUDA."""


@dataclass(frozen=True, slots=True)
class RankGrant:
    rank: int
    gpus: tuple[GpuGrant, ...]


@dataclass(frozen=True, slots=True)
class PodGrant:
    """The ranks of one pod, in order; the pod's node rank is its index in `Contract.pods`."""

    host: str
    """Stable DNS name of the pod inside the job's headless Service."""
    ranks: tuple[RankGrant, ...]


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    path: str
    interval_s: int = 0
    """0 means: only when the program itself saves, and on preemption."""


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """The pod beside the ranks that measures what they save. It has no rank and no GPU."""

    host: str
    mode: Mode
    command: tuple[str, ...] = ()
    entrypoint: str = ""
    cpu_milli: int = 1000


@dataclass(frozen=True, slots=True)
class DataSource:
    """Data that is in `folder` before the ranks start."""

    address: str
    folder: str
    limit_bytes: int = 0
    """The most that may lie at the address; 0: no limit."""


@dataclass(frozen=True, slots=True)
class Contract:
    """Everything that a worker pod needs to know. `pods[0].ranks[0]` is rank 0 and its pod is the head."""

    job: str
    namespace: str
    uid: str
    attempt: int
    node_rank: int
    pods: tuple[PodGrant, ...]
    """Those of the ranks."""
    mode: Mode
    command: tuple[str, ...] = ()
    """Modes `command` and `rayTrain`: the program and its arguments."""
    entrypoint: str = ""
    """Mode `entrypoint`: `module:function`."""
    framework: str = ""
    strategy: Strategy = "AllReduce"
    collective: Collective = "auto"
    precision: Precision = "fp32"
    checkpoint: CheckpointSpec | None = None
    grace_s: int = 30
    """Seconds between SIGTERM and SIGKILL that the pod has."""
    rendezvous_timeout_s: int = 120
    workers_min: int = 0
    """Elastic jobs: the smallest world that may go on. 0 means: exactly the ranks of `pods`."""
    servers: tuple[str, ...] = ()
    """Host names of the parameter servers' pods, which have no rank and no GPU. Server i has the node rank after
    those of `pods`, plus i."""
    evaluator: EvaluatorSpec | None = None
    """Its node rank comes after those of the servers."""
    data: tuple[DataSource, ...] = ()
    """Fetched by each pod of ranks, and by the evaluator's, before their programs start."""
    platform: dict[str, Any] = field(default_factory=dict)
    """Reserved for options of the launcher (preflight, telemetry sinks)."""
    version: int = 1

    @property
    def world_size(self) -> int:
        return sum(len(pod.ranks) for pod in self.pods)

    @property
    def role(self) -> Role:
        """What this pod does. Raises IndexError for a node rank that the attempt does not have."""
        behind = self.node_rank - len(self.pods)
        if behind < 0:
            return Role.WORKER
        if behind < len(self.servers):
            return Role.PARAMETER_SERVER
        if behind == len(self.servers) and self.evaluator is not None:
            return Role.EVALUATOR
        raise IndexError(f"node_rank: {self.node_rank} is not one of the pods")

    @property
    def server(self) -> int | None:
        """Which parameter server this pod is; None in other pods."""
        return self.node_rank - len(self.pods) if self.role is Role.PARAMETER_SERVER else None

    def to_json(self) -> str:
        document = asdict(replace(self, pods=()))
        for later in ("servers", "data", "evaluator"):
            if not document[later]:
                del document[later]  # an image from before there were such fields reads every other job
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        # Fields are sorted. After this field there are only texts, whose quotes are escaped, and no objects. So the
        # last match is the field itself.
        before, _, after = text.rpartition(',"pods":[],')
        return f'{before},"pods":{_pods_json(self.pods)},{after}'

    def to_environment(self) -> dict[str, str]:
        """The variables that carry it: one as JSON, as long as it fits.

        With a dollar in it the document is packed: the kubelet would make one of two, and a variable of `$(NAME)`.
        """
        text = self.to_json()
        if len(text) > PART or "$" in text:
            text = PACKED + base64.b64encode(zlib.compress(text.encode())).decode()
        return {_variable(at // PART): text[at : at + PART] for at in range(0, len(text), PART)}

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Raises ContractError, as `from_json`."""
        parts: list[str] = []
        while (part := env.get(_variable(len(parts)))) is not None:
            parts.append(part)
        text = "".join(parts)
        if text.startswith(PACKED):
            unpacked = unpack(text[len(PACKED) :], BOUNDS.bytes_max)
            if isinstance(unpacked, Malformed):
                raise ContractError(f"{names.ENV_CONTRACT} cannot be unpacked: {unpacked.reason}")
            text = unpacked
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse; raises ContractError that names what is wrong."""
        raw = parse(text, BOUNDS)
        if isinstance(raw, Malformed):
            raise ContractError(f"{names.ENV_CONTRACT} {raw.reason}")
        if not isinstance(raw, dict) or raw.get("version") != 1:
            raise ContractError(f"{names.ENV_CONTRACT} must be an object with version 1")
        return cls._read(StrictObject(raw))

    @classmethod
    def _read(cls, document: StrictObject) -> Self:
        document.only(_CONTRACT_FIELDS)
        return cls(
            pods=tuple(_pod_grant(pod) for pod in document.objects("pods")),
            job=document.text("job"),
            namespace=document.text("namespace"),
            uid=document.text("uid"),
            attempt=document.whole("attempt"),
            node_rank=document.whole("node_rank"),
            mode=cast(Mode, document.text("mode")),
            command=document.texts("command"),
            entrypoint=document.text("entrypoint", ""),
            framework=document.text("framework", ""),
            strategy=cast(Strategy, document.text("strategy", "AllReduce")),
            collective=cast(Collective, document.text("collective", "auto")),
            precision=cast(Precision, document.text("precision", "fp32")),
            checkpoint=_checkpoint(document.object("checkpoint")) if document.has("checkpoint") else None,
            grace_s=document.whole("grace_s", 30),
            rendezvous_timeout_s=document.whole("rendezvous_timeout_s", 120),
            workers_min=document.whole("workers_min", 0),
            servers=document.texts("servers"),
            evaluator=_evaluator(document.object("evaluator")) if document.has("evaluator") else None,
            data=tuple(_data_source(one) for one in document.objects("data")) if document.has("data") else (),
            platform=document.mapping("platform"),
        )


def _pod_grant(pod: StrictObject) -> PodGrant:
    pod.only(_POD_FIELDS)
    ranks = tuple(_rank_grant(rank) for rank in pod.objects("ranks"))
    return PodGrant(host=pod.text("host"), ranks=ranks)


def _rank_grant(rank: StrictObject) -> RankGrant:
    rank.only(_RANK_FIELDS)
    return RankGrant(rank=rank.whole("rank"), gpus=tuple(_gpu_grant(gpu) for gpu in rank.objects("gpus")))


def _gpu_grant(gpu: StrictObject) -> GpuGrant:
    gpu.only(_GPU_FIELDS)
    return GpuGrant(
        uuid=gpu.uuid("uuid"),
        memory_mib=gpu.whole("memory_mib"),
        compute_milli=gpu.whole("compute_milli"),
        whole=gpu.flag("whole"),
        simulated=gpu.flag("simulated", default=False),
        resource=gpu.text("resource", ""),
    )


@lru_cache(maxsize=1)
def _pods_json(pods: tuple[PodGrant, ...]) -> str:
    """JSON of the pods. It is the same in all contracts of an attempt, so it is built once for all of them."""
    document = [asdict(pod) for pod in pods]
    for gpu in (gpu for pod in document for rank in pod["ranks"] for gpu in rank["gpus"]):
        if not gpu["resource"]:
            del gpu["resource"]  # an image from before there were such devices reads every other job
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


_POD_FIELDS: Final = frozenset(PodGrant.__dataclass_fields__)
_RANK_FIELDS: Final = frozenset(RankGrant.__dataclass_fields__)
_GPU_FIELDS: Final = frozenset(GpuGrant.__dataclass_fields__)
_CONTRACT_FIELDS: Final = frozenset(Contract.__dataclass_fields__)


def _checkpoint(spec: StrictObject) -> CheckpointSpec:
    spec.only(frozenset(CheckpointSpec.__dataclass_fields__))
    return CheckpointSpec(path=spec.text("path"), interval_s=spec.whole("interval_s", 0))


def _evaluator(spec: StrictObject) -> EvaluatorSpec:
    spec.only(frozenset(EvaluatorSpec.__dataclass_fields__))
    return EvaluatorSpec(
        host=spec.text("host"),
        mode=cast(Mode, spec.text("mode")),
        command=spec.texts("command"),
        entrypoint=spec.text("entrypoint", ""),
        cpu_milli=spec.whole("cpu_milli", 1000),
    )


def _data_source(source: StrictObject) -> DataSource:
    source.only(frozenset(DataSource.__dataclass_fields__))
    return DataSource(source.text("address"), source.text("folder"), source.whole("limit_bytes", 0))


def _variable(part: int) -> str:
    return names.ENV_CONTRACT if part == 0 else f"{names.ENV_CONTRACT}_{part + 1}"
