"""The termination message of a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.contract import CheckpointSpec, Termination
from cotenant_worker.checkpoints import local_store
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.progress.termination import last_saved, log_line, termination_of, write_termination
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.rank_reports import ResultsReport, StepReport
from tests.support.pod_sandbox import contract

FINISH = Finish(1, "UserError", "ValueError: no", rank=2, signal=6, tail=("Traceback", "ValueError: no"), pod=1)
ALL_PODS: dict[str, Any] = {
    "attempt": 3,
    "code": 1,
    "reason": "UserError",
    "message": "ValueError: no",
    "rank": 2,
    "signal": 6,
    "pod": 1,
    "last_checkpoint_step": 40,
    "tail": ("Traceback", "ValueError: no"),
}


def board_at_step_50() -> ProgressBoard:
    board = ProgressBoard(saved_step=40)
    board.record(StepReport(0, 50, of=100), 1.0)
    board.record(ResultsReport(0, {"accuracy": 0.5}), 2.0)
    return board


@pytest.mark.parametrize(
    ("node_rank", "own"),
    [
        pytest.param(0, {"results": {"accuracy": 0.5}, "step": 50, "of": 100}, id="rank 0's pod"),
        pytest.param(1, {"results": {}, "step": 0, "of": 0}, id="another pod"),
    ],
)
def test_every_pod_has_the_verdict_and_rank_0s_the_results(node_rank: int, own: dict[str, Any]) -> None:
    job = contract([1, 1], node_rank=node_rank, attempt=3)
    assert termination_of(job, board_at_step_50(), FINISH) == Termination(node_rank=node_rank, **ALL_PODS, **own)


def test_the_newest_checkpoint_on_the_volume_counts_before_what_was_reported(tmp_path: Path) -> None:
    job = contract([1], checkpoint=CheckpointSpec(str(tmp_path)))
    board = board_at_step_50()
    assert last_saved(job, board) == 40
    local_store.save(tmp_path, 45, lambda directory: (directory / "model").touch())
    assert last_saved(job, board) == 45


def test_no_step_is_saved_where_no_checkpoint_is_known() -> None:
    assert last_saved(contract([1]), ProgressBoard()) is None


def test_the_message_is_written_where_the_kubelet_reads_it(tmp_path: Path) -> None:
    termination = Termination(node_rank=0, attempt=1, code=0, reason="Completed")
    write_termination(termination, {"COTENANT_TERMINATION_LOG": str(tmp_path / "termination")})
    assert Termination.from_json((tmp_path / "termination").read_text()) == termination


def test_a_pod_ends_also_where_the_message_cannot_be_written(tmp_path: Path) -> None:
    termination = Termination(node_rank=0, attempt=1, code=0, reason="Completed")
    write_termination(termination, {"COTENANT_TERMINATION_LOG": str(tmp_path / "missing" / "termination")})
    assert list(tmp_path.iterdir()) == []


def test_lines_of_the_launcher_are_known_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    log_line("the pod ends")
    assert capsys.readouterr().err == "cotenant: the pod ends\n"


def test_what_could_not_be_kept_of_the_results_is_told_by_rank_0s_pod() -> None:
    board = ProgressBoard()
    board.record(ResultsReport(0, {"file": "caf\udce9"}), 1.0)
    board.warn("slow-1", "rank 1 is slow")
    told = [termination_of(contract([1, 1], node_rank=rank), board, FINISH) for rank in (0, 1)]
    assert [one.warnings for one in told] == [board.report_warnings(), ()]
    assert Termination.from_json(told[0].to_json()) == told[0]
