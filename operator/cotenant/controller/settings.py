"""Every knob of the operator as one frozen value, read once at the start from the environment and the command line.

The Helm chart writes the environment; `cotenant operator --help` lists the same names. A value that makes no sense is
refused at the start, by name, not discovered in the middle of the night.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from cotenant.core.policy import Policy

PREFIX = "COTENANT_"
LOG_LEVELS = ("debug", "info", "warning", "error")


class SettingsError(ValueError):
    """A setting makes no sense; the message names it and says what would."""


def setting(default: Any, about: str) -> Any:
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Field `worker_image` is the variable `COTENANT_WORKER_IMAGE` and the flag `--worker-image`."""

    namespace: str = setting("cotenant-system", "namespace of the operator: its Lease, and whom workers let in")
    identity: str = setting("", "name of this process in the Lease; if empty, its host name and a random part")
    lease_name: str = setting("cotenant-operator", "name of the Lease that the replicas compete for")
    worker_image: str = setting("ghcr.io/cotenant/worker:latest", "image of jobs that name none")
    port: int = setting(8080, "port of /healthz, /readyz and /metrics; 0 takes any free one")
    host: str = setting("0.0.0.0", "address that the probes and metrics are served on")
    log_level: str = setting("info", "what is logged: debug, info, warning or error, and what is worse")

    batch_window_s: float = setting(0.1, "how long news may gather before a scheduling cycle starts")
    tick_s: float = setting(5.0, "the longest pause between two cycles")
    resync_s: float = setting(300.0, "everything is listed anew this often, should a watch have gone quiet")
    writes_in_flight: int = setting(24, "API writes at the same time")

    start_timeout_s: float = setting(300.0, "a gang whose pods are not all up by then is released and placed elsewhere")
    node_lost_s: float = setting(60.0, "a gang leaves a node whose kubelet has not answered for this long")
    exclude_s: float = setting(900.0, "how long a job avoids a node that failed to start it")
    platform_retries: int = setting(5, "restarts of a job that are not its fault, before it is given up")
    progress_s: float = setting(5.0, "how often rank 0 is asked for progress, and the most often it is written")
    verdict_s: float = setting(30.0, "how often the wording of an unchanged reason may be rewritten in a job's status")
    queue_s: float = setting(5.0, "how often the status of a Queue is written at most")
    events_per_s: float = setting(50.0, "Kubernetes Events at most; more are dropped and counted")

    restart_cost_s: int = setting(60, "work that one eviction costs a job on top of what it had not saved")
    protected_runtime_s: int = setting(0, "no job is evicted for another before it has run this long")
    share_history_percent: int = setting(50, "how much past borrowing weighs beside present borrowing")
    history_half_life_s: int = setting(
        86_400, "after this time past borrowing counts half, where a tree of queues says nothing"
    )
    reserve_within_s: int = setting(3_600, "GPUs are kept for a waiting job that will start within this; 0: never")
    moves: int = setting(4, "jobs that one cycle may move to make room, in queues that allow it")

    reserve_head_mib: int = setting(768, "memory on top of the request of the ranks, in the pod of rank 0")
    reserve_mib: int = setting(384, "the same in the other pods")
    runtime_class: str = setting("nvidia", "RuntimeClass of pods on nodes with real GPUs")
    tolerations: str = setting(
        '[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]', "tolerations of worker pods, JSON"
    )
    server_tolerations: str = setting("[]", "tolerations of parameter servers' pods, JSON: taints of CPU nodes")
    pod_priority_class: str = setting("", "PriorityClass of worker pods; empty takes the cluster's default")
    image_pull_secrets: str = setting("", "names of Secrets for pulling images, comma separated")
    scratch_mib: int = setting(51200, "size of /tmp of a worker pod")
    dns_namespace: str = setting(
        "kube-system", "namespace of the DNS that workers may ask; empty allows any, on port 53"
    )
    egress_cidrs: str = setting("", "networks that workers may reach besides their own job, comma separated")
    cluster_domain: str = setting("cluster.local", "DNS domain of the cluster")

    def __post_init__(self) -> None:
        for knob in fields(self):
            value = getattr(self, knob.name)
            if isinstance(value, (int, float)) and value < 0:
                raise SettingsError(f"{_variable(knob.name)}={value} is negative; give 0 or more")
        for knob_name in ("tick_s", "resync_s", "start_timeout_s", "writes_in_flight", "history_half_life_s"):
            if getattr(self, knob_name) == 0:
                raise SettingsError(f"{_variable(knob_name)} must be above 0")
        for knob_name in ("tolerations", "server_tolerations"):
            if not isinstance(self._parsed(knob_name), list):
                raise SettingsError(f"{_variable(knob_name)} must be a JSON list of tolerations")
        if self.log_level not in LOG_LEVELS:
            raise SettingsError(f"{_variable('log_level')}={self.log_level!r} must be one of {', '.join(LOG_LEVELS)}")

    @property
    def toleration_list(self) -> list[dict[str, Any]]:
        """Of pods with ranks."""
        return self._parsed("tolerations")

    @property
    def server_toleration_list(self) -> list[dict[str, Any]]:
        return self._parsed("server_tolerations")

    def _parsed(self, knob_name: str) -> list[dict[str, Any]]:
        try:
            parsed: list[dict[str, Any]] = json.loads(getattr(self, knob_name) or "[]")
        except json.JSONDecodeError as error:
            raise SettingsError(f"{_variable(knob_name)} is not JSON: {error}") from error
        return parsed

    @property
    def policy(self) -> Policy:
        """What of it the decisions are made by."""
        return Policy(
            restart_cost_s=self.restart_cost_s,
            protected_runtime_s=self.protected_runtime_s,
            share_history_percent=self.share_history_percent,
            reserve_within_s=self.reserve_within_s,
            moves=self.moves,
        )

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None) -> Self:
        """Flags win over the environment, the environment over the defaults."""
        values: dict[str, Any] = {}
        for knob in fields(cls):
            raw = (flags or {}).get(knob.name)
            if raw is None:
                raw = environment.get(_variable(knob.name))
            if raw is None:
                continue
            convert: Callable[[Any], Any] = type(knob.default)
            try:
                values[knob.name] = convert(raw)
            except ValueError as error:
                raise SettingsError(f"{_variable(knob.name)}={raw!r} is not a {convert.__name__}") from error
        if not values.get("identity"):
            values["identity"] = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        return cls(**values)


def _variable(name: str) -> str:
    return PREFIX + name.upper()
