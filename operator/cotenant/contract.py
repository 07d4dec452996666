"""What the operator tells a worker pod, and what the pod tells back. Stdlib only: both sides import it.

One JSON document each way, so that the two sides can never disagree about a list of variables:
the operator writes a `Contract` into the environment variable `COTENANT_CONTRACT`, or into several of them where it is
longer than Linux lets one variable be; rank 0's pod serves `Progress`; every pod leaves a `Termination` in its
termination message.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Self

from cotenant import names

PART: Final = 100_000
"""Characters of one variable. Linux starts no program with a variable, or an argument, of 128 KiB."""
PACKED: Final = "zlib:"
"""How a long document begins: compressed, in base64. The grants of a thousand ranks are mostly repetition."""

Mode = Literal["command", "entrypoint", "rayTrain"]
Collective = Literal["auto", "nccl", "gloo"]
Precision = Literal["fp32", "bf16", "fp16"]
Strategy = Literal["AllReduce", "ParameterServer"]


def needs_ray(mode: Mode, ranks: int) -> bool:
    """A single rank has no peers: it runs without Ray, and so without a token."""
    return ranks > 1 or mode == "rayTrain"


class ContractError(ValueError):
    """The document is not a contract of this version. The message names the field."""


@dataclass(frozen=True, slots=True)
class GpuGrant:
    """One GPU, or a share of it, that one rank holds."""

    uuid: str
    memory_mib: int
    compute_milli: int
    whole: bool
    simulated: bool = False


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
    platform: dict[str, Any] = field(default_factory=dict)
    """Reserved for options of the launcher (preflight, telemetry sinks)."""
    version: int = 1

    @property
    def world_size(self) -> int:
        return sum(len(pod.ranks) for pod in self.pods)

    @property
    def server(self) -> int | None:
        """Which parameter server this pod is; None in a pod of ranks."""
        index = self.node_rank - len(self.pods)
        return index if index >= 0 else None

    def to_json(self) -> str:
        document = asdict(self)
        if not self.servers:
            del document["servers"]  # an image from before there were such pods reads every other job
        return json.dumps(document, sort_keys=True, separators=(",", ":"))

    def to_environment(self) -> dict[str, str]:
        """The variables that carry it: one as JSON, as long as it fits."""
        text = self.to_json()
        if len(text) > PART:
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
            try:
                text = zlib.decompress(base64.b64decode(text[len(PACKED) :], validate=True)).decode()
            except (binascii.Error, zlib.error) as error:
                raise ContractError(f"{names.ENV_CONTRACT} cannot be unpacked: {error}") from error
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse; raises ContractError that names what is wrong."""
        try:
            raw: dict[str, Any] = json.loads(text)
        except json.JSONDecodeError as error:
            raise ContractError(f"COTENANT_CONTRACT is not JSON: {error}") from error
        if not isinstance(raw, dict) or raw.get("version") != 1:
            raise ContractError("COTENANT_CONTRACT must be an object with version 1")
        try:
            raw["pods"] = tuple(
                PodGrant(
                    host=pod["host"],
                    ranks=tuple(
                        RankGrant(rank=rank["rank"], gpus=tuple(GpuGrant(**gpu) for gpu in rank["gpus"]))
                        for rank in pod["ranks"]
                    ),
                )
                for pod in raw["pods"]
            )
            raw["command"] = tuple(raw.get("command", ()))
            raw["servers"] = tuple(raw.get("servers", ()))
            if raw.get("checkpoint") is not None:
                raw["checkpoint"] = CheckpointSpec(**raw["checkpoint"])
            return cls(**raw)
        except (KeyError, TypeError) as error:
            raise ContractError(f"COTENANT_CONTRACT: {error}") from error


def _variable(part: int) -> str:
    return names.ENV_CONTRACT if part == 0 else f"{names.ENV_CONTRACT}_{part + 1}"


@dataclass(frozen=True, slots=True)
class Progress:
    """What rank 0's pod answers at `GET /progress`."""

    state: str
    """`starting`, `rendezvous`, `training`, `saving`, `done`."""
    step: int = 0
    of: int = 0
    """Total steps; 0 when the program has not said."""
    rate: float = 0.0
    """Steps per second, over the last reports."""
    metrics: dict[str, float] = field(default_factory=dict)
    last_checkpoint_step: int | None = None
    last_checkpoint_at: float | None = None
    """Unix seconds."""
    collective: str = ""
    """What was chosen: `nccl` or `gloo`."""
    warnings: tuple[str, ...] = ()
    observed_gpus: dict[str, list[str]] = field(default_factory=dict)
    """rank of the placement (as text) → the UUIDs that this rank's process really sees."""
    memory_peak_mib: dict[str, int] = field(default_factory=dict)
    slow_ranks: dict[str, tuple[float, float]] = field(default_factory=dict)
    """rank of the placement (as text) → milliseconds of its own work in the check before step 0, and of the usual
    rank: far slower."""
    checked_on: str = ""
    """What that check used: `cuda` or `cpu`."""
    updated_at: float = 0.0

    @property
    def remaining_s(self) -> float | None:
        """Until the last step at the present rate; nothing while the end or the rate is not known."""
        return max(0, self.of - self.step) / self.rate if self.of > 0 and self.rate > 0 else None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        raw["warnings"] = tuple(raw.get("warnings", ()))
        raw["slow_ranks"] = {rank: (own, usual) for rank, (own, usual) in raw.get("slow_ranks", {}).items()}
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in raw.items() if key in known})


@dataclass(frozen=True, slots=True)
class Termination:
    """The JSON in a pod's termination message (at most 4,096 bytes; `to_json` trims the tail to fit)."""

    node_rank: int
    attempt: int
    code: int
    reason: str
    """`Completed`, `UserError`, `OutOfMemory`, `OutOfGPUMemory`, `ExitedEarly`, `HungCollective`, `Stalled`,
    `RendezvousTimeout`, `RayDied`, `PeerLost`, `Quota`, `BadContract` or `Preempted`."""
    message: str = ""
    rank: int | None = None
    """The first rank that failed of its own accord, or nothing."""
    pod: int | None = None
    """The node rank of that rank's pod: every pod of the gang tells the same story."""
    signal: int | None = None
    results: dict[str, float | int | str] = field(default_factory=dict)
    """Rank 0's pod only: the final metrics, all-reduced."""
    step: int = 0
    """Rank 0's pod only: the last step that rank 0 reported, and how many there are in all, if it said so."""
    of: int = 0
    last_checkpoint_step: int | None = None
    tail: tuple[str, ...] = ()
    """The last lines that the failing rank printed."""

    def to_json(self) -> str:
        document = asdict(self)
        text = json.dumps(document, sort_keys=True)
        while len(text.encode()) > 4000 and document["tail"]:
            document["tail"] = document["tail"][1:]
            text = json.dumps(document, sort_keys=True)
        while len(text.encode()) > 4000 and document["message"]:  # a character may take twelve bytes
            document["message"] = document["message"][: len(document["message"]) * 2 // 3]
            text = json.dumps(document, sort_keys=True)
        return text

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        raw["tail"] = tuple(raw.get("tail", ()))
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in raw.items() if key in known})
