"""Runtime of a TrainingJob's pods: program, code, environment, volumes. There is no free pod template."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from cotenant.api.resources.job_spec.env_vars import EnvVar
from cotenant.api.resources.job_spec.parameter_servers import ParameterServer
from cotenant.api.resources.job_spec.tracking import Tracking
from cotenant.api.resources.job_spec.volumes import Code, Volume
from cotenant.api.scalars.amounts import CpuAmount, Duration, HostMemory
from cotenant.api.scalars.fields import (
    Bool,
    ObjectName,
    Str,
    function_name,
    keyed_by,
    passed_on,
    text,
    whole,
)
from cotenant.api.validation.rules import Model, Rule

MAX_ARGUMENTS = 256
MAX_ENV = 128
MAX_PROGRAM_CHARS = 32_768
"""Characters of command, args and env together. A character takes at most six bytes of etcd, and an object has 1.5 MiB.
"""
MAX_VOLUMES = 32
MAX_PULL_SECRETS = 4
MAX_GPU_PROCESSES = 64


Image: TypeAlias = Annotated[
    Str, *text(r"^[a-zA-Z0-9][-a-zA-Z0-9._:/@]*$", "must be the name of an image, without spaces", longest=512)
]


class Framework(StrEnum):
    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    KERAS = "keras"
    JAX = "jax"
    ACCELERATE = "accelerate"
    HOROVOD = "horovod"


class Strategy(StrEnum):
    ALL_REDUCE = "AllReduce"
    PARAMETER_SERVER = "ParameterServer"


class Collective(StrEnum):
    AUTO = "auto"
    NCCL = "nccl"
    GLOO = "gloo"


class Precision(StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class GPUVisibility(StrEnum):
    RANK = "Rank"
    POD = "Pod"


class Resources(Model):
    """CPU and memory of the node for each worker: the pod's requests and limits."""

    cpu: CpuAmount = 1000
    """CPUs per worker."""
    memory: HostMemory = 4 * 1024**3
    """Memory of the node per worker. GPU memory is `gpu.memory`."""
    scratch: HostMemory | None = None
    """Space in /tmp per worker, for caches (HOME is /tmp) and temporary files. It is requested as ephemeral storage, so
    that a node has it. Default: what the operator gives every pod (50Gi), without a request.
    """


class PullSecret(Model):
    name: ObjectName
    """A Secret in the job's namespace, of the type `kubernetes.io/dockerconfigjson`."""


class Runtime(Model):
    image: Image | None = None
    """Default: the operator's worker image."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=MAX_PULL_SECRETS)] = ()
    """Secrets in the job's namespace for pulling the image, in addition to those of the administrator."""
    command: (
        Annotated[tuple[Annotated[str, *passed_on(65536)], ...], Field(min_length=1, max_length=MAX_ARGUMENTS)] | None
    ) = None
    """A program that reads torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR …), run once per worker, unchanged."""
    args: Annotated[tuple[Annotated[str, *passed_on(65536)], ...], Field(max_length=MAX_ARGUMENTS)] | None = None
    """Arguments of `command`, after its own."""
    entrypoint: Annotated[Str, *function_name("train:main")] | None = None
    """A Python function, called once per worker in the worker's process."""
    ray_train: Bool = False
    """The command is a Ray Train driver: run once, on the job's own Ray cluster."""
    code: Code | None = None
    env: Annotated[tuple[EnvVar, ...], Field(max_length=MAX_ENV), *keyed_by("name")] = ()
    """Variables of the program, in addition to those that the operator sets."""
    volumes: Annotated[tuple[Volume, ...], Field(max_length=MAX_VOLUMES), *keyed_by("name")] = ()
    """Volumes of every pod."""
    framework: Framework | None = None
    """What the program trains with, if that decides how it is started."""
    strategy: Strategy = Strategy.ALL_REDUCE
    """How gradients are combined: by all-reduce among the workers, or by parameter servers."""
    parameter_server: ParameterServer | None = None
    """For strategy ParameterServer. Default: one server."""
    collective: Collective = Collective.AUTO
    """`gloo` also lets two workers of the job share one GPU, which NCCL refuses."""
    precision: Precision = Precision.FP32
    """Precision of the arithmetic, as the program is told: `context().precision`, and Accelerate by its own variable.
    """
    gpu_visibility: GPUVisibility | None = None
    """What a worker's program sees: its own GPUs, or those of all workers in its pod, from which it chooses by
    LOCAL_RANK. Default: Pod for a command that begins with torchrun if every worker has one GPU of its own, otherwise
    Rank.
    """
    gpu_processes: Annotated[int, *whole(1, MAX_GPU_PROCESSES)] = 1
    """Processes of a worker that use its GPU at the same time. Each gets an equal part of a share's memory."""
    hang_timeout: Duration | None = None
    """If a worker waits this long in a collective for one that does not come, the job is hung. Default: 10m."""
    stall_timeout: Duration | None = None
    """If no worker makes a step, a report or a collective for this long, the attempt ends. Default: never. After two
    minutes the status says where the workers stand.
    """
    tracking: Tracking | None = None

    @property
    def program_chars(self) -> int:
        """Characters of the program's command line and environment."""
        return sum(map(len, (*(self.command or ()), *(self.args or ()), *(one.value or "" for one in self.env))))

    @property
    def mode(self) -> Literal["command", "entrypoint", "rayTrain"]:
        """How the program is run, in the words of the pod's contract."""
        if self.entrypoint is not None:
            return "entrypoint"
        return "rayTrain" if self.ray_train else "command"

    @property
    def servers(self) -> ParameterServer | None:
        """The parameter servers; None with AllReduce."""
        if self.strategy is not Strategy.PARAMETER_SERVER:
            return None
        return self.parameter_server or ParameterServer.model_validate({})

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "(has(self.command) ? self.command.map(one, one.size()).sum() : 0)"
            " + (has(self.args) ? self.args.map(one, one.size()).sum() : 0)"
            " + (has(self.env) ? self.env.map(one, has(one.value) ? one.value.size() : 0).sum() : 0)"
            f" <= {MAX_PROGRAM_CHARS}",
            f"command, args and the values of env have more than {MAX_PROGRAM_CHARS} characters together, the most that"
            " fit into the object of a job; put long texts into files of code, or of a ConfigMap in volumes",
            lambda it: it.program_chars <= MAX_PROGRAM_CHARS,
        ),
        Rule(
            "",
            "has(self.command) != has(self.entrypoint)",
            "runtime takes exactly one of command and entrypoint; for a program write"
            ' `spec.runtime.command: ["python", "train.py"]`, for a function `spec.runtime.entrypoint: train:main`',
            lambda it: (it.command is None) != (it.entrypoint is None),
        ),
        Rule(
            "command",
            "self.size() == 0 || self[0].size() > 0",
            "the first word of command is the program to run; it must not be empty",
            lambda it: not it.command or it.command[0] != "",
            about_field=True,
        ),
        Rule(
            "args",
            "!has(self.args) || has(self.command)",
            "args belong to command; an entrypoint is called without arguments and reads its environment",
            lambda it: it.args is None or it.command is not None,
        ),
        Rule(
            "rayTrain",
            "!self.rayTrain || has(self.command)",
            "rayTrain needs command: the Ray Train driver that is run once",
            lambda it: not it.ray_train or it.command is not None,
        ),
        Rule(
            "parameterServer",
            "!has(self.parameterServer) || self.strategy == 'ParameterServer'",
            "parameterServer needs strategy: ParameterServer",
            lambda it: it.parameter_server is None or it.strategy is Strategy.PARAMETER_SERVER,
        ),
        Rule(
            "rayTrain",
            "!self.rayTrain || self.strategy == 'AllReduce'",
            "a Ray Train driver brings its own strategy; leave strategy out",
            lambda it: not it.ray_train or it.strategy is Strategy.ALL_REDUCE,
        ),
        Rule(
            "gpuVisibility",
            "!self.rayTrain || !has(self.gpuVisibility)",
            "Ray Train's workers get their GPUs from Ray; leave gpuVisibility out",
            lambda it: not it.ray_train or it.gpu_visibility is None,
        ),
        Rule(
            "hangTimeout",
            "!self.rayTrain || !has(self.hangTimeout)",
            "a Ray Train driver watches its own workers; leave hangTimeout out",
            lambda it: not it.ray_train or it.hang_timeout is None,
        ),
        Rule(
            "stallTimeout",
            "!self.rayTrain || !has(self.stallTimeout)",
            "a Ray Train driver watches its own workers; leave stallTimeout out",
            lambda it: not it.ray_train or it.stall_timeout is None,
        ),
        Rule(
            "volumes",
            "self.all(a, self.exists_one(b, b.mountPath == a.mountPath))",
            "two volumes have the same mountPath; give each a folder of its own, such as /data and /models",
            lambda it: len({volume.mount_path for volume in it.volumes}) == len(it.volumes),
            about_field=True,
        ),
    )
