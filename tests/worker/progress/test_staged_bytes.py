"""Bytes of several pods are told as one figure, and the wait ends with the last of them."""

from __future__ import annotations

from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.supervision.messages import PodStaging


def shown(board: ProgressBoard) -> tuple[str, int, int, float]:
    told = board.progress()
    return told.state, told.staged_bytes, told.staging_bytes, told.staging_s


def test_pods_are_added_up_and_the_last_one_ends_the_wait() -> None:
    board = ProgressBoard()
    board.record_staging(PodStaging(0, 10, 100), 1000.0)
    board.record_staging(PodStaging(1, 5, 100), 1001.0)
    assert shown(board) == ("staging", 15, 200, 1.0)
    board.record_staging(PodStaging(0, 100, 100, done=True), 1004.0)
    board.record_staging(PodStaging(0, 90, 100), 1005.0)  # from before its end, on a slower way
    assert shown(board) == ("staging", 105, 200, 4.0)
    board.record_staging(PodStaging(1, 100, 100, done=True), 1009.5)
    assert shown(board) == ("rendezvous", 200, 200, 9.5)
    board.state = "training"
    board.record_staging(PodStaging(1, 100, 100, done=True), 1020.0)
    assert shown(board) == ("training", 200, 200, 9.5)


def test_a_job_without_data_shows_none() -> None:
    assert shown(ProgressBoard()) == ("starting", 0, 0, 0.0)
