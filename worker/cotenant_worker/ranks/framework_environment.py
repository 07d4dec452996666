"""The variables of TensorFlow, JAX and Horovod for one rank of a group. Pure; part of `environment`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cotenant_worker.host import layout
from cotenant_worker.host.addresses import at

if TYPE_CHECKING:
    from cotenant.contract import Contract
    from cotenant_worker.supervision.worker_group import RankAssignment, WorkerGroup

HOROVOD_TIMEOUT_S = 300
"""Instead of Horovod's 30 s: on a busy machine, ranks may be that far apart at their first step."""


def defaults(contract: Contract) -> dict[str, str]:
    """Variables that the job may override."""
    return {
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(HOROVOD_TIMEOUT_S),
        **({"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"} if contract.framework in ("jax", "keras") else {}),
    }


def tensorflow(contract: Contract, group: WorkerGroup, assignment: RankAssignment) -> dict[str, str]:
    """An evaluator is told of the ranks' cluster, and is no part of it, as TensorFlow has it."""
    if cluster := contract.platform.get("tensorflowCluster"):
        return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "evaluator", "index": 0}})}
    workers = [at(each.ip, layout.TF_PORT + each.local_rank) for each in group.ranks]
    if len(workers) == 1:
        return {}
    cluster = tensorflow_roles(contract, workers)
    tasks = [{"type": role, "index": index} for role, there in cluster.items() for index in range(len(there))]
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": tasks[assignment.rank]})}


def tensorflow_roles(contract: Contract, ranks: list[str]) -> dict[str, list[str]]:
    """TensorFlow's cluster of the ranks with these addresses. Role by role, they are in the order of ranks."""
    return {"chief": ranks[:1], "worker": ranks[1:]} if contract.platform.get("chief") else {"worker": ranks}


def jax(group: WorkerGroup, assignment: RankAssignment) -> dict[str, str]:
    """Variables for JAX, also for `keras.distribution.initialize()`, which passes Keras's own variables on to JAX."""
    coordinator = at(group.master_addr, group.coordinator_port)
    return {
        "JAX_COORDINATOR_ADDRESS": coordinator,
        "JAX_NUM_PROCESSES": str(group.size),
        "JAX_PROCESS_ID": str(assignment.rank),
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": coordinator,
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(group.size),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(assignment.rank),
    }


_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "grpc_proxy"})
_EXCEPTIONS: Final = ("no_proxy", "NO_PROXY", "no_grpc_proxy")


def past_proxies(env: Mapping[str, str], group: WorkerGroup) -> dict[str, str]:
    """Exceptions for the job's own pods, if the job names a proxy for the world outside.

    gRPC heeds such variables. Ranks of JAX and TensorFlow would look for each other behind the proxy, and abort.
    """
    if group.size < 2 or not any(name.lower() in _PROXIES for name in env):
        return {}
    own = ("localhost", "127.0.0.1", *dict.fromkeys(each.ip for each in group.ranks))
    given = env.get("no_proxy") or env.get("NO_PROXY", "")
    names = (name for name in _EXCEPTIONS if name in env or name != "no_grpc_proxy")
    return {name: ",".join(filter(None, (env.get(name) or given, *own))) for name in names}


def horovod(env: Mapping[str, str], group: WorkerGroup) -> dict[str, str]:
    """Variables for Horovod with Gloo as its controller, because MPI is not installed. A group of one needs no
    rendezvous.
    """
    where = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": group.master_addr,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(group.coordinator_port),
    }
    return {
        "HOROVOD_RANK": env["RANK"],
        "HOROVOD_SIZE": env["WORLD_SIZE"],
        "HOROVOD_LOCAL_RANK": env["LOCAL_RANK"],
        "HOROVOD_LOCAL_SIZE": env["LOCAL_WORLD_SIZE"],
        "HOROVOD_HOSTNAME": f"machine-{env['GROUP_RANK']}",
        "HOROVOD_CONTROLLER": "gloo",
        **(where if group.size > 1 else {}),
    }
