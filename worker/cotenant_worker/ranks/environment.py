"""The environment of one rank, computed from the contract and the group it joins. Pure.

Variables of a rank's place override what a user put into the pod's environment: a rank cannot choose its own rank, GPUs
or rendezvous. All other variables are defaults (`_defaults`). One table serves torch, TensorFlow, JAX, Accelerate and
Horovod, so the launcher has no special case for a framework.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from cotenant import names
from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant, Role
from cotenant_worker.host import layout
from cotenant_worker.host.addresses import at
from cotenant_worker.messaging.hmac_handshake import secret_of
from cotenant_worker.ranks import device_environment, framework_environment
from cotenant_worker.ranks.foreign_launchers import program_behind
from cotenant_worker.supervision.hangs import hang_timeout_s
from cotenant_worker.supervision.worker_group import RankAssignment, WorkerGroup

_DROPPED_PREFIXES = (
    "RAY_AUTH_",
    "RAY_ADDRESS",
    "RAY_ENABLE_K8S_TOKEN_AUTH",
    "RAY_USE_TLS",
    "RAY_TLS_",
    "COTENANT_CONTRACT",
    "TORCHELASTIC_",
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_ess",
    "SLURM_",
    "PMI_",
    "PMIX_",
    "HOROVOD_GLOO_RENDEZVOUS_",
    "HOROVOD_ELASTIC",
)
"""Inherited variables that would mislead a rank: Ray's token and cluster do not belong to the tenant, and no other
launcher started the rank. What only tunes a launcher of the program's own (`OMPI_MCA_btl`) stays.
"""


def choose_collective(contract: Contract) -> tuple[str, str]:
    """(`nccl` or `gloo`, a warning or empty). NCCL needs real GPUs, and one for each rank of the job."""
    grants = [gpu for pod in contract.pods for rank in pod.ranks for gpu in rank.gpus]
    wanted = contract.collective
    if wanted == "gloo":
        return "gloo", ""
    problem = ""
    if not grants or any(not rank.gpus for pod in contract.pods for rank in pod.ranks):
        problem = "there are ranks without a GPU"
    elif any(gpu.simulated for gpu in grants):
        problem = "the GPUs are simulated"
    elif (resource := device_environment.resource_of(contract)) not in device_environment.WITH_NCCL:
        problem = f"devices of {resource} have no NCCL"
    elif max(Counter(gpu.uuid for gpu in grants).values()) > 1:
        problem = "several ranks of this job hold shares of one physical GPU, which NCCL refuses"
    if not problem:
        return "nccl", ""
    return "gloo", f"collective: nccl was asked for, but {problem}; gloo is used" if wanted == "nccl" else ""


def grant_of(pod: PodGrant, rank: int) -> RankGrant:
    return next(grant for grant in pod.ranks if grant.rank == rank)


def shares_pod_gpus(contract: Contract, pod: PodGrant) -> bool:
    """True if ranks of this pod see the GPUs of all its ranks, as under torchrun, and choose by LOCAL_RANK.

    This is the default for commands that begin with torchrun, in which LOCAL_RANK chooses the right one.
    """
    chosen = contract.platform.get("gpuVisibility")
    if chosen:
        return bool(chosen == "Pod")
    different = len(device_environment.pod_uuids(pod)) == len(pod.ranks)
    one_each = different and all(len(rank.gpus) == 1 for rank in pod.ranks)
    return one_each and program_behind(contract).shows_all_gpus


def visible_gpus(contract: Contract, pod: PodGrant, grant: RankGrant) -> tuple[GpuGrant, ...]:
    """GPUs that CUDA shows to one rank, in its order. Of two shares of one GPU the smaller one counts."""
    if not shares_pod_gpus(contract, pod):
        return grant.gpus
    found: dict[str, GpuGrant] = {}
    for gpu in (gpu for rank in pod.ranks for gpu in rank.gpus):
        if gpu.uuid not in found or gpu.memory_mib < found[gpu.uuid].memory_mib:
            found[gpu.uuid] = gpu
    return tuple(found.values())


def base_environment(
    inherited: Mapping[str, str], contract: Contract, *, cpus: int, interface: str = ""
) -> dict[str, str]:
    """Variables that all ranks of this pod share. They are known before the group is, so the fork server can start with
    them.
    """
    env = {key: value for key, value in inherited.items() if not key.startswith(_DROPPED_PREFIXES)}
    ranks = max(1, len(contract.pods[contract.node_rank].ranks))
    env.setdefault("OMP_NUM_THREADS", str(threads_of_a_rank(contract, cpus // ranks)))
    for name, value in _defaults(contract, interface).items():
        env.setdefault(name, value)
    path = [str(layout.HOOK_DIR), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = ":".join(part for part in path if part)
    env[layout.ENV_CODE_DIR] = code_path(contract)
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if device_environment.resource_of(contract):
        env.pop(device_environment.VISIBLE, None)  # an image's own: AMD's runtime heeds it too
    env["COTENANT_JOB"] = contract.job
    env["COTENANT_NAMESPACE"] = contract.namespace
    env["COTENANT_UID"] = contract.uid
    env["COTENANT_ATTEMPT"] = str(contract.attempt)
    env[layout.ENV_SECRET] = secret_of(inherited.get(names.ENV_RAY_TOKEN, ""), contract.uid, contract.attempt)
    env[layout.ENV_COLLECTIVE] = choose_collective(contract)[0]
    env[layout.ENV_PRECISION] = contract.precision
    env[layout.ENV_STATE] = str(layout.state_dir())
    env[layout.ENV_PREEMPT_FILE] = str(layout.preempt_file())
    # The conductor names the rank that hangs, which `all_reduce` itself cannot: it waits a little longer.
    env.setdefault("COTENANT_REDUCE_TIMEOUT_S", f"{hang_timeout_s(contract) + 60:.0f}")
    env["COTENANT_PREFLIGHT"] = str(int(contract.platform.get("preflight", True)))
    if contract.checkpoint:
        env[layout.ENV_CHECKPOINT_DIR] = contract.checkpoint.path
        env["COTENANT_CHECKPOINT_INTERVAL_S"] = str(contract.checkpoint.interval_s)
    if contract.data:
        env[layout.ENV_DATA_DIR] = contract.data[0].folder
    return env


def threads_of_a_rank(contract: Contract, available: int) -> int:
    """Threads of each rank of this pod: the CPUs that the job requests for a worker, at most those that exist.

    A chief that is alone in its pod has those that are requested for it.

    A pod without a CPU limit sees all cores of its node, which it shares with other jobs.
    """
    asked = int(contract.platform.get("cpuMilli", 1000))
    if [one.rank for one in contract.pods[contract.node_rank].ranks] == [0]:
        asked = int(contract.platform.get("chiefCpuMilli", asked))
    return max(1, min(asked // 1000, available))


_INTERFACES: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE")


def _defaults(contract: Contract, interface: str) -> dict[str, str]:
    """Variables that the job may override. `interface` leads to the peers; empty if unknown."""
    return {
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        # Ray lets its workers give way to all else of the machine; here they are the job.
        "RAY_worker_niceness": "0",
        "ACCELERATE_MIXED_PRECISION": {"fp32": "no"}.get(contract.precision, contract.precision),
        # submitit's tasks save at SIGUSR2, as Slurm sends it, and pass over SIGTERM.
        "SUBMITIT_PREEMPT_SIGNAL": "TERM",
        **(dict.fromkeys(_INTERFACES, interface) if interface else {}),
        **framework_environment.defaults(contract),
        **({"GRPC_ENABLE_FORK_SUPPORT": "0"} if contract.world_size > 1 else {}),
    }


def code_path(contract: Contract) -> str:
    """The directory that contains the job's code."""
    return str(contract.platform.get("codePath", "/workspace"))


def rank_environment(
    contract: Contract, group: WorkerGroup, assignment: RankAssignment, script: str = ""
) -> dict[str, str]:
    """The variables of one rank. They override all others. `script` is the text of the shell script that it runs."""
    pod = contract.pods[assignment.pod]
    grant = grant_of(pod, assignment.grant)
    local = group.of_pod(assignment.pod)
    pods = list(dict.fromkeys(each.pod for each in group.ranks))
    gpus = visible_gpus(contract, pod, grant)
    counted = shares_pod_gpus(contract, pod) or device_environment.counts_in_pod(grant.gpus)
    env = {
        "RANK": str(assignment.rank),
        "WORLD_SIZE": str(group.size),
        # A rank that sees only its own GPU is a machine of its own to its program: `cuda:LOCAL_RANK` must exist.
        # Where CUDA shows nothing anyway, ranks count inside their pod, as under torchrun.
        "LOCAL_RANK": str(assignment.local_rank if counted else 0),
        "LOCAL_WORLD_SIZE": str(len(local) if counted else 1),
        "GROUP_RANK": str(pods.index(assignment.pod) if counted else assignment.rank),
        "NODE_RANK": str(pods.index(assignment.pod) if counted else assignment.rank),
        "GROUP_WORLD_SIZE": str(len(pods) if counted else group.size),
        **horovod_cross_axis(group, assignment, counted=counted),
        "ROLE_RANK": str(assignment.rank),
        "ROLE_WORLD_SIZE": str(group.size),
        "ROLE_NAME": "default",
        "COTENANT_ROLE": role_of(contract, assignment.rank),
        "MASTER_ADDR": group.master_addr,
        "MASTER_PORT": str(group.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(group.restart_count),
        "TORCHELASTIC_MAX_RESTARTS": str(contract.platform.get("retries", 0)),
        "TORCHELASTIC_RUN_ID": contract.uid,
        **device_environment.visibility(pod, gpus),
        "COTENANT_RANK": str(assignment.rank),
        "COTENANT_RANKS": str(group.size),
        "COTENANT_MASTER": at(group.master_addr, group.master_port),
        "COTENANT_POD_RANKS": str(len(local)),
        "COTENANT_NODES": str(len(pods)),
        "COTENANT_GRANT": str(assignment.grant),
        "COTENANT_REDUCE_ADDR": at(group.master_addr, group.reduce_port),
        layout.ENV_GENERATION: str(group.generation),
        layout.ENV_GPU_MEM: str(min((gpu.memory_mib for gpu in grant.gpus), default=0) << 20),
        # An evaluator looks for the newest checkpoint again and again: none is chosen for it.
        layout.ENV_RESUME_FROM: "" if role_of(contract, assignment.rank) == Role.EVALUATOR else group.resume_from,
    }
    if contract.servers:
        env["COTENANT_PS_ADDRS"] = ",".join(f"{host}:{layout.SERVER_PORT}" for host in contract.servers)
    if shares_pod_gpus(contract, pod):
        env["JAX_LOCAL_DEVICE_IDS"] = str(
            assignment.local_rank
        )  # else every process of a pod would take all of its GPUs
    env |= (
        framework_environment.tensorflow(contract, group, assignment)
        | framework_environment.jax(group, assignment)
        | framework_environment.horovod(env, group)
    )
    if starts_its_own_ranks(contract, grant):
        read = set(_READ_BY_A_SHELL.findall(script))
        env = {name: value for name, value in env.items() if name in read or not _TORCHRUN.fullmatch(name)}
    return env


_TORCHRUN: Final = re.compile("RANK|WORLD_SIZE|LOCAL_(RANK|WORLD_SIZE)|NODE_RANK|(GROUP|ROLE|TORCHELASTIC)_.*")
_READ_BY_A_SHELL: Final = re.compile(r"\$\{?(RANK|WORLD_SIZE|NODE_RANK|LOCAL_RANK|LOCAL_WORLD_SIZE)\b")
"""How a script for several machines tells a launcher its place: `torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK`."""


def role_of(contract: Contract, rank: int | None) -> str:
    """What the program of a rank is to the job: `worker`, `chief` or `evaluator`."""
    of_rank = Role.CHIEF if rank == 0 and contract.platform.get("chief") else Role.WORKER
    return str(contract.platform.get("role", of_rank.value))


def starts_its_own_ranks(contract: Contract, grant: RankGrant) -> bool:
    """True for the only rank of a job with several GPUs, if its command is no launcher's.

    ultralytics, Lightning and others then start one process for each GPU, unless torchrun's variables say that this is
    done.
    """
    alone = contract.mode == "command" and contract.world_size == 1 and not contract.workers_min
    return alone and len(grant.gpus) > 1 and not program_behind(contract).launcher


def horovod_cross_axis(group: WorkerGroup, assignment: RankAssignment, *, counted: bool) -> dict[str, str]:
    """Horovod's third axis: the ranks with the same local rank, one on every machine with that many ranks."""
    peers = [each.rank for each in group.ranks if each.local_rank == assignment.local_rank or not counted]
    return {"HOROVOD_CROSS_RANK": str(peers.index(assignment.rank)), "HOROVOD_CROSS_SIZE": str(len(peers))}


def train_driver_environment(contract: Contract, ray: Mapping[str, str], ip: str) -> dict[str, str]:
    """Environment of a program of mode `rayTrain`: the job's Ray cluster, where it saves, and its name.

    The run's name is the job's UID, so a later attempt continues where this one stopped.
    """
    return {
        **{name: value for name, value in ray.items() if name.startswith("RAY_")},
        "RAY_ADDRESS": at(ip, layout.RAY_PORT),
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
        # A start that takes longer is begun again. Only an elastic one gains by that: with fewer workers.
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30" if contract.workers_min else str(contract.rendezvous_timeout_s),
        "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "1",
        "COTENANT_RUN_NAME": contract.uid,
        "COTENANT_WORKERS": str(contract.world_size),
        "COTENANT_WORKERS_MIN": str(contract.workers_min or contract.world_size),
    }


RAY_TRAIN_VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "ROLE_RANK"),
    *("COTENANT_RANK", "COTENANT_MASTER"),
)
"""Variables that Ray Train sets in its workers. Its driver has none of them."""


def server_environment(inherited: Mapping[str, str], contract: Contract) -> dict[str, str]:
    """Environment of a parameter server's process, which runs no code of the tenant."""
    env = {key: value for key, value in inherited.items() if not key.startswith(_DROPPED_PREFIXES)}
    env[layout.ENV_SECRET] = secret_of(inherited.get(names.ENV_RAY_TOKEN, ""), contract.uid, contract.attempt)
    env["COTENANT_PS_UPDATE"] = str((contract.platform.get("parameterServer") or {}).get("update", "Synchronous"))
    return env
