"""The evaluator's pod: its launcher runs one program without peers, without a GPU and outside the job's group. Pure.

Such a pod is a job of one rank to the launcher. What makes it an evaluator is in the environment of its program:
COTENANT_ROLE, and a TF_CONFIG that names the ranks' addresses and its own task.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from cotenant.contract import Contract, EvaluatorSpec, PodGrant, RankGrant, Role
from cotenant_worker.host import layout
from cotenant_worker.ranks.environment import role_of
from cotenant_worker.ranks.framework_environment import tensorflow_roles
from cotenant_worker.supervision.commands import Finish

_OF_RANKS: Final = frozenset(
    {
        "parameterServer",
        "gpuVisibility",
        "gpuProcesses",
        "tracking",
        "chief",
        "chiefCpuMilli",
        "hangTimeoutSeconds",
        "stallTimeoutSeconds",
    }
)
"""Options that concern ranks alone. Two pods that write to one run of a tracker would mix their steps, and an evaluator
makes no steps while it waits for a checkpoint.
"""


def as_job_of_one(contract: Contract, own: EvaluatorSpec) -> Contract:
    """The contract by which the launcher of the job's evaluator works."""
    platform = {name: value for name, value in contract.platform.items() if name not in _OF_RANKS}
    return replace(
        contract,
        node_rank=0,
        pods=(PodGrant(own.host, (RankGrant(0, ()),)),),
        mode=own.mode,
        command=own.command,
        entrypoint=own.entrypoint,
        strategy="AllReduce",
        collective="gloo",
        workers_min=0,
        servers=(),
        evaluator=None,
        platform=platform
        | {"role": Role.EVALUATOR.value, "cpuMilli": own.cpu_milli, "tensorflowCluster": tensorflow_cluster(contract)},
    )


def told_of(contract: Contract, finish: Finish) -> Finish:
    """The verdict in words of the role: an evaluator is no rank, and it and a chief have resources of their own."""
    role = role_of(contract, finish.rank)
    if role == Role.CHIEF:
        return replace(finish, message=finish.message.replace(" resources.memory", " chief.resources.memory"))
    if role != Role.EVALUATOR:
        return finish
    message = re.sub(r"\brank 0\b", "the evaluator", finish.message)
    message = message.replace(" resources.memory", " evaluator.resources.memory")
    return replace(finish, message=message, rank=None)


def tensorflow_cluster(contract: Contract) -> dict[str, list[str]]:
    """The ranks as TensorFlow's cluster, by the names of their pods: their addresses are not known here."""
    ranks = [f"{pod.host}:{layout.TF_PORT + local}" for pod in contract.pods for local, _ in enumerate(pod.ranks)]
    return tensorflow_roles(contract, ranks)
