"""Prepares a pod before its ranks start: the collective, the command line, checkpoints, limits of GPU memory."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

from cotenant import names
from cotenant.contract import Contract
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import log_line
from cotenant_worker.ranks.environment import choose_collective, code_path
from cotenant_worker.ranks.memory_limits import JAX_FRACTION, GpusUnusableError, memory_limits_of
from cotenant_worker.ranks.rank_processes import LocalRanks
from cotenant_worker.ray_cluster.processes import RayProcesses
from cotenant_worker.supervision.commands import Finish

_LOOKS: Final = 10
_LOOK_S: Final = 0.2
"""Another pod makes the same folder at the same time. A parallel file system may show it here a moment later."""


def publish_choices(contract: Contract, board: ProgressBoard, command_warning: str) -> None:
    """Show where the choice differs from what the job asks. `command_warning` is empty if its command fits."""
    board.collective, warning = choose_collective(contract)
    board.warn("collective", warning)
    board.warn("command", command_warning)
    if command_warning:
        log_line(command_warning)


def refuse_unreadable_code(contract: Contract) -> Finish | None:
    """A verdict if this user may not read the folder of the job's code: programs would start in an empty folder."""
    code = Path(code_path(contract))
    if not code.is_dir() or os.access(code, os.R_OK | os.X_OK):
        return None
    found = code.stat()
    text = (
        f"runtime.code: user {os.getuid()} may not read {code}, which belongs to user {found.st_uid}"
        f" (mode {stat.S_IMODE(found.st_mode):o}). Let everybody read it: chmod -R a+rX"
    )
    return Finish(names.EXIT_BAD_CONTRACT, "CodeNotReadable", text)


async def prepare_checkpoint_folder(contract: Contract) -> Finish | None:
    """Make the folder that `COTENANT_CHECKPOINT_DIR` names. Returns a verdict if it is not writable.

    A program may expect the folder to exist. And it learns now, not at its first save, that it cannot write.
    """
    path = contract.checkpoint.path if contract.checkpoint else ""
    if not path or "://" in path:
        return None
    try:
        await asyncio.to_thread(_write_into, Path(path))
    except OSError as error:
        text = f"checkpoint.path: nothing can be written to {path}: {error.strerror or error}"
        if isinstance(error, PermissionError):
            groups = ", ".join(str(group) for group in sorted({os.getgid(), *os.getgroups()}))
            text += f". The pod's user is {os.getuid()}, its groups are {groups}: let one of them write there"
        return Finish(names.EXIT_BAD_CONTRACT, "CheckpointNotWritable", text)
    return None


def _write_into(folder: Path) -> None:
    for _ in range(_LOOKS):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            break
        except FileExistsError:
            time.sleep(_LOOK_S)
    with tempfile.TemporaryFile(dir=folder) as file:  # unnamed: no other rank's listing of steps shows it
        file.write(b"0")


async def apply_memory_limits(
    contract: Contract, board: ProgressBoard, ranks: LocalRanks, ray: RayProcesses
) -> Finish | None:
    """Limit the GPU memory of ranks and, in mode `rayTrain`, of Ray. Returns a verdict if the pod must not start."""
    try:
        limits, problems = await asyncio.to_thread(memory_limits_of, contract)
    except GpusUnusableError as error:
        return Finish(names.EXIT_GPUS_UNUSABLE, "GPUsUnusable", str(error))
    for key, text in problems:
        board.warn(key, text)
        log_line(text)
    if isinstance(limits, str):
        return Finish(names.EXIT_QUOTA, "Quota", limits)
    ranks.limits = limits
    if contract.mode == "rayTrain":
        ray.limits = min(limits.values(), key=lambda env: env.get(JAX_FRACTION, "1"), default={})
    return None
