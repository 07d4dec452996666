"""The end of a pod: a line in its log, and the termination message that the operator reads."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path

from cotenant import names
from cotenant.contract import Contract, Termination
from cotenant_worker.checkpoints import local_store
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.supervision.commands import Finish


def log_line(text: str) -> None:
    print(f"cotenant: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the pod's log


def write_termination(termination: Termination, env: Mapping[str, str]) -> None:
    path = env.get("COTENANT_TERMINATION_LOG", names.TERMINATION_PATH)
    with contextlib.suppress(OSError):
        Path(path).write_text(termination.to_json())


def last_saved(contract: Contract, board: ProgressBoard) -> int | None:
    """The step of the newest complete checkpoint; None if none is known."""
    found = local_store.newest(contract.checkpoint)
    return found.step if found else board.saved_step


def termination_of(contract: Contract, board: ProgressBoard, finish: Finish) -> Termination:
    """The termination message of this pod. Results and steps come from rank 0's pod only."""
    head = contract.node_rank == 0
    progress = board.progress()
    return Termination(
        node_rank=contract.node_rank,
        attempt=contract.attempt,
        code=finish.code,
        reason=finish.reason,
        message=finish.message,
        rank=finish.rank,
        signal=finish.signal,
        pod=finish.pod,
        results=board.results() if head else {},
        step=progress.step if head else 0,
        of=progress.of if head else 0,
        last_checkpoint_step=last_saved(contract, board),
        staged_bytes=progress.staged_bytes if head else 0,
        staging_bytes=progress.staging_bytes if head else 0,
        staging_s=progress.staging_s if head else 0.0,
        restarts=progress.restarts if head else 0,
        tail=tuple(finish.tail),
        warnings=board.report_warnings() if head else (),
    )
