"""Settings of the operator as one frozen value, read once at the start from the environment and the command line.

The Helm chart writes the environment; `cotenant operator --help` lists the same names. A value that makes no sense is
refused at the start, by name, not discovered in the middle of the night. A model of pydantic and not of
pydantic-settings: `cotenant simulate` reads the environment of a Deployment and the chart's values in the same way, and
the variables of its own process must not leak into those.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from cotenant import names
from cotenant.api.scalars import pod_metadata
from cotenant.api.scalars.amounts import LONGEST_GRACE_S
from cotenant.api.scalars.networks import Networks, Ports
from cotenant.core.policy import Policy
from cotenant.decision_log.showback.prices import PriceList, price_list_of
from cotenant.serving.served_secrets import ServedSecrets

PREFIX = "COTENANT_"


class SettingsError(ValueError):
    """A setting makes no sense; the message names it and says what would."""


def _converted_by(kind: type[int] | type[float]) -> BeforeValidator:
    """Python's own conversion: pydantic's takes `1.0` for an int."""

    def convert(raw: Any) -> int | float:
        try:
            return kind(raw)
        except ValueError as error:
            raise PydanticCustomError("not_a_number", f"is not a {kind.__name__}") from error

    return BeforeValidator(convert)


def _tolerations(text: str) -> str:
    if not isinstance(_parsed(text), list):
        raise ValueError("must be a JSON list of tolerations")
    return text


def _parsed(text: str) -> list[dict[str, Any]]:
    try:
        parsed: list[dict[str, Any]] = json.loads(text or "[]")
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error
    return parsed


def _prices(text: str) -> str:
    price_list_of(text)
    return text


def _user_id(text: str) -> str:
    if text and not (text.isdecimal() and int(text) > 0):
        raise ValueError(f"is {text!r}; give the number of a user that is not root, or nothing")
    return text


UserId = Annotated[str, AfterValidator(_user_id)]
Prices = Annotated[str, AfterValidator(_prices)]
Whole = Annotated[int, _converted_by(int), Field(ge=0)]
PositiveWhole = Annotated[int, _converted_by(int), Field(gt=0)]
Number = Annotated[float, _converted_by(float), Field(ge=0)]
GracePeriodLimit = Annotated[int, _converted_by(int), Field(gt=0, le=LONGEST_GRACE_S)]
PositiveNumber = Annotated[float, _converted_by(float), Field(gt=0)]
Tolerations = Annotated[str, AfterValidator(_tolerations)]
TenantNamespaces = Literal["all", "labelled"]
MetricsReaders = Literal["authorized", "everybody"]
ForeignClaims = Literal["off", "ignored", "counted"]
LogLevel = Literal["debug", "info", "warning", "error"]


def setting(default: Any, about: str) -> Any:
    return Field(default=default, description=about)


class Settings(BaseModel):
    """Field `worker_image` is the variable `COTENANT_WORKER_IMAGE` and the flag `--worker-image`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str = setting(
        "cotenant-system", "namespace of the operator, in which its Lease is, and from which workers accept connections"
    )
    identity: str = setting("", "name of this process in the Lease; if empty, its host name and a random part")
    tenant_namespaces: TenantNamespaces = setting(
        "all", f"namespaces that a queue may serve: all, or those labelled {names.LABEL_TENANT}=true"
    )
    lease_name: str = setting("cotenant-operator", "name of the Lease that the replicas compete for")
    worker_image: str = setting("ghcr.io/cotenant/worker:latest", "image of jobs that name none")
    port: Whole = setting(8080, "port of /healthz and /readyz; 0 takes any free one")
    host: str = setting("::", "address of all servers; :: is every address, of IPv4 too")
    metrics_port: Whole = setting(names.METRICS_PORT, "port of /metrics; 0 takes any free one")
    metrics_readers: MetricsReaders = setting(
        "authorized", "who may read /metrics: accounts that may get that URL, or everybody"
    )
    metrics_certificate: str = setting("", "folder of tls.crt and tls.key for /metrics; if empty, without TLS")
    certificate_secrets: ServedSecrets = setting(
        "", "Secrets that the operator keeps filled with certificates, JSON: [{namespace, name, servers}]"
    )
    query_port: Whole = setting(names.QUERY_PORT, "port of the API of questions; 0 takes any free one")
    query_certificate: str = setting(
        "", "folder of tls.crt and tls.key for the API of questions; if empty, query_server_name counts"
    )
    query_server_name: str = setting(
        "", "name for which the operator makes the certificate of the API of questions; if empty too, it is not served"
    )
    query_address: str = setting("", "address under which the API server reaches this replica's questions")
    decision_log_folder: str = setting(
        "", "folder on a volume for the decision log; if empty, only its newest part is kept, in memory"
    )
    decision_log_mib: PositiveWhole = setting(
        512, "size of all files of the decision log together; the oldest are removed"
    )
    capsules_mib: Whole = setting(
        64, "size of the kept inputs of past decisions, for replays, in memory and again in the folder; 0: none"
    )
    capsule_every: Whole = setting(
        100, "inputs are kept of every n-th decision, and of all that evict; 0: only of those that evict"
    )
    prices: Prices = setting("", "price list as JSON: {currency, classes: [{gpuClass, perGPUHour, from, until}]}")
    log_level: LogLevel = setting("info", "lowest level that is logged: debug, info, warning or error")

    batch_window_s: Number = setting(0.1, "how long changes are gathered before a scheduling cycle starts, in seconds")
    tick_s: PositiveNumber = setting(5.0, "the longest pause between two cycles, in seconds")
    resync_s: PositiveNumber = setting(
        300.0, "pause between two full lists of all objects, in case a watch missed something, in seconds"
    )
    writes_in_flight: PositiveWhole = setting(24, "concurrent writes to the API server")

    start_timeout_s: PositiveNumber = setting(
        300.0, "a gang whose pods are not all up after this time is released and placed elsewhere"
    )
    max_grace_period_s: GracePeriodLimit = setting(
        600, "the longest grace period of any pod, whatever its job or the deleting person asks for; at most a day"
    )
    node_lost_s: Number = setting(60.0, "a gang leaves a node whose kubelet has not answered for this long")
    exclude_s: Number = setting(900.0, "how long a job avoids a node that failed to start it")
    platform_retries: Whole = setting(5, "restarts after platform faults in a row, before a job is given up")
    progress_s: Number = setting(
        5.0, "pause between two questions to rank 0 for its progress, and between two writes of it"
    )
    verdict_s: Number = setting(
        30.0, "the shortest pause between two new wordings of an unchanged reason in a job's status"
    )
    queue_s: Number = setting(5.0, "the shortest pause between two writes of a Queue's status")
    events_per_s: Number = setting(
        50.0, "at most this many Kubernetes Events per second; further ones are dropped and counted"
    )

    restart_cost_s: Whole = setting(60, "cost of one eviction in addition to the unsaved work, in seconds of work")
    protected_runtime_s: Whole = setting(
        300,
        "younger jobs are evicted only for a PriorityClass or a guarantee, not for priority or share",
    )
    share_history_percent: Whole = setting(50, "weight of past borrowing, in percent of that of present borrowing")
    history_half_life_s: PositiveWhole = setting(
        86_400, "half-life of past borrowing, for trees of queues that set none"
    )
    reserve_within_s: Whole = setting(
        3_600, "GPUs are reserved for a waiting job that will start within this time; 0: never"
    )
    collect_after_s: Whole = setting(
        1_800, "GPUs are reserved for a job that has waited this long, before priority and shares; 0: never"
    )
    tenure_s: Whole = setting(
        0,
        "after this time a job may leave for one that GPUs are reserved for, also inside a guarantee; 0: never",
    )
    moves: Whole = setting(4, "jobs that one cycle may move to make room, in queues that allow it")

    reserve_head_mib: Whole = setting(768, "memory on top of the request of the ranks, in the pod of rank 0")
    reserve_mib: Whole = setting(384, "memory on top of the request of the ranks, in the other pods")
    device_claims: ForeignClaims = setting(
        "ignored",
        "whether GPUs that ResourceClaims of others hold are counted; needs resource.k8s.io/v1. off: worker pods get no"
        " claims either, whatever their nodes offer",
    )
    runtime_class: str = setting("nvidia", "RuntimeClass of pods on nodes with real GPUs")
    tolerations: Tolerations = setting(
        '[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]', "tolerations of worker pods, JSON"
    )
    server_tolerations: Tolerations = setting("[]", "tolerations of parameter servers' pods, JSON: taints of CPU nodes")
    pod_priority_class: str = setting("", "PriorityClass of worker pods; empty takes the cluster's default")
    image_pull_secrets: str = setting("", "names of Secrets for pulling images, comma separated")
    pod_labels: pod_metadata.PodMetadata = setting(
        json.dumps(pod_metadata.LABELS), "labels of the pods of jobs, JSON; by default they opt out of service meshes"
    )
    pod_annotations: pod_metadata.PodMetadata = setting(
        json.dumps(pod_metadata.ANNOTATIONS),
        "annotations of the pods of jobs, JSON; by default they opt out of meshes and keep node autoscalers away",
    )
    namespace_labels: pod_metadata.LabelKeys = setting(
        "", "labels of their namespace that the pods of jobs carry too: keys such as cost-center, comma separated"
    )
    run_as_user: UserId = setting(
        "65532", "user and group of the pods of jobs; empty leaves both to the platform, or to the image"
    )
    scratch_mib: Whole = setting(51200, "size of /tmp of a worker pod")
    dns_namespace: str = setting(
        "kube-system,openshift-dns",
        "namespaces of the DNS pods that workers may ask, comma separated; empty allows any address, on dns_ports",
    )
    dns_cidrs: Networks = setting(
        "169.254.0.0/16", "addresses besides these pods that workers may ask for names: caches of nodes and of clouds"
    )
    dns_ports: Ports = setting(
        "53,5353",
        "ports that DNS servers listen on, as a NetworkPolicy sees them: those of the pods, not the Service's",
    )
    egress_cidrs: Networks = setting("", "networks that workers may reach besides their own job, comma separated")
    operator_cidrs: Networks = setting(
        "", "networks from which the operator asks for progress, where it has the network of its node; comma separated"
    )
    cluster_domain: str = setting("", "DNS domain of the cluster; empty: that of the operator's own pod")

    @property
    def price_list(self) -> PriceList:
        """What GPUs cost; empty where no prices are set."""
        return price_list_of(self.prices)

    @property
    def toleration_list(self) -> list[dict[str, Any]]:
        """Tolerations of pods with ranks."""
        return _parsed(self.tolerations)

    @property
    def server_toleration_list(self) -> list[dict[str, Any]]:
        return _parsed(self.server_tolerations)

    @property
    def serves_questions(self) -> bool:
        return bool(self.query_certificate or self.query_server_name)

    @property
    def labels_and_annotations(self) -> tuple[dict[str, str], dict[str, str]]:
        """What the administrator puts on the pods of jobs."""
        return pod_metadata.read(self.pod_labels), pod_metadata.read(self.pod_annotations)

    @property
    def policy(self) -> Policy:
        """Policy by which decisions are made."""
        return Policy(
            restart_cost_s=self.restart_cost_s,
            protected_runtime_s=self.protected_runtime_s,
            share_history_percent=self.share_history_percent,
            reserve_within_s=self.reserve_within_s,
            collect_after_s=self.collect_after_s,
            tenure_s=self.tenure_s,
            moves=self.moves,
        )

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ, flags: Mapping[str, Any] | None = None) -> Self:
        """Flags win over the environment, the environment over the defaults."""
        given = {name: environment[_variable(name)] for name in cls.model_fields if _variable(name) in environment}
        given |= {
            name: value for name, value in (flags or {}).items() if name in cls.model_fields and value is not None
        }
        if not given.get("identity"):
            given["identity"] = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError(_message(error.errors()[0])) from error


def _message(error: ErrorDetails) -> str:
    """Name the variable, what was given, and what is allowed."""
    name, given = str(error["loc"][0]), error["input"]
    variable = _variable(name)
    match error["type"]:
        case "greater_than" if float(given) == 0.0:
            return f"{variable} must be above 0"
        case "greater_than" | "greater_than_equal":
            return f"{variable}={given} is negative; give 0 or more"
        case "less_than_equal":
            return f"{variable}={given} is too much; give at most {error['ctx']['le']}"
        case "literal_error":
            return f"{variable}={given!r} must be one of {', '.join(get_args(Settings.model_fields[name].annotation))}"
        case "value_error":
            return f"{variable} {error['ctx']['error']}"
    return f"{variable}={given!r} {error['msg']}"


def _variable(name: str) -> str:
    return PREFIX + name.upper()
