"""Entry of a pod: parses and validates the contract, then runs the launcher or a parameter server's pod."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cotenant import names
from cotenant.contract import Contract, ContractError, Role, Termination, needs_ray
from cotenant_worker.host import layout
from cotenant_worker.host.container import allow_open_files, write_no_core_files
from cotenant_worker.host.process_title import show_as_ours
from cotenant_worker.progress.termination import log_line, write_termination


def own_ip(env: Mapping[str, str]) -> str:
    return env.get(names.ENV_POD_IP) or "127.0.0.1"


def own_environment() -> dict[str, str]:
    """The variables of this container. In the C locale Python adds LC_CTYPE, which other programs did not ask for."""
    env = dict(os.environ)
    with contextlib.suppress(OSError):
        if b"LC_CTYPE=" not in Path("/proc/self/environ").read_bytes():
            env.pop("LC_CTYPE", None)
    return env


async def _run(contract: Contract, env: Mapping[str, str]) -> int:
    """Run this kind of pod. Each imports only its own half, because imports of process 1 delay the ranks."""
    if contract.role is Role.WORKER:
        from cotenant_worker.host.workspace import named_there
        from cotenant_worker.pid1.launcher import Launcher
        from cotenant_worker.ranks.device_environment import apart
        from cotenant_worker.ranks.environment import code_path
        from cotenant_worker.ranks.foreign_launchers import with_default_config, with_variables

        command = named_there(contract.command, Path(code_path(contract)), layout.work_dir())
        job = replace(contract, command=with_default_config(with_variables(command, env), env))
        return await Launcher(apart(job, env), env, own_ip(env)).run()
    from cotenant_worker.parameter_server.pod import ServerPod

    return await ServerPod(contract, env, own_ip(env)).run()


def main() -> int:
    """Run the pod and return its exit code. An invalid contract ends it before anything starts."""
    env = own_environment()
    show_as_ours("cotenant")
    allow_open_files()
    write_no_core_files()
    try:
        contract = own_contract(Contract.from_environment(env))
        check(contract, env)
    except ContractError as error:
        log_line(f"cannot start: {error}")
        write_termination(Termination(0, 0, names.EXIT_BAD_CONTRACT, "BadContract", str(error)), env)
        return names.EXIT_BAD_CONTRACT
    state = layout.state_dir()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    for stale in (layout.socket_path(), layout.preempt_file(), *state.glob("rank-*")):
        stale.unlink(missing_ok=True)
    return asyncio.run(_run(contract, env))


def own_contract(contract: Contract) -> Contract:
    """The contract by which this pod works: that of the attempt, or what it is to the evaluator."""
    behind = contract.node_rank - len(contract.pods) - len(contract.servers)
    if contract.evaluator is None or behind != 0:
        return contract
    from cotenant_worker.pid1.evaluator import as_job_of_one

    return as_job_of_one(contract, contract.evaluator)


def check(contract: Contract, env: Mapping[str, str]) -> None:
    """Validate what the contract's shape does not. Raises ContractError, which names the field."""
    if not contract.pods or not all(pod.ranks for pod in contract.pods):
        raise ContractError("pods: every pod needs at least one rank")
    pods = len(contract.pods) + len(contract.servers)
    if not 0 <= contract.node_rank < pods:
        raise ContractError(f"node_rank: {contract.node_rank} is not one of the {pods} pods")
    if (contract.strategy == "ParameterServer") != bool(contract.servers):
        raise ContractError(f"servers: strategy {contract.strategy} has {len(contract.servers)} of them")
    ranks = [rank.rank for pod in contract.pods for rank in pod.ranks]
    if ranks != list(range(len(ranks))):
        raise ContractError(f"pods: ranks must be 0 to {len(ranks) - 1} in order, not {ranks}")
    if contract.mode in ("command", "rayTrain") and not contract.command:
        raise ContractError(f"command: mode {contract.mode} needs one")
    module, _, function = contract.entrypoint.partition(":")
    if contract.mode == "entrypoint" and not (module and function):
        raise ContractError(f"entrypoint: {contract.entrypoint!r} is not module:function")
    if contract.mode not in ("command", "entrypoint", "rayTrain"):
        raise ContractError(f"mode: {contract.mode!r} is not command, entrypoint or rayTrain")
    secret = contract.servers or needs_ray(contract.mode, contract.world_size)
    if secret and not env.get(names.ENV_RAY_TOKEN):
        raise ContractError(f"{names.ENV_RAY_TOKEN} is not set: the job's processes would be open to everybody")
    if pods > 1 and not env.get(names.ENV_POD_IP):
        raise ContractError(f"{names.ENV_POD_IP} is not set: the pods could not find each other")
