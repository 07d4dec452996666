"""What rank 0's pod publishes."""

import json
import math
from typing import Any

import pytest

from cotenant.contract import Progress
from cotenant_worker.progress.progress_board import ProgressBoard, mean
from cotenant_worker.supervision.rank_reports import (
    CheckpointSaved,
    CheckpointStarted,
    CollectiveBackend,
    MemoryPeak,
    PreflightTimes,
    ProgressWarning,
    RankReport,
    ResultsReport,
    StepReport,
    VisibleGpus,
)
from tests.support.well_formed import well_formed


def report(board: ProgressBoard, rank: int, step: int, at: float, **metrics: float) -> None:
    board.record(StepReport(rank, step, of=100, metrics=metrics, at_monotonic_s=at), at)


def test_metrics_are_averaged_over_the_ranks_that_report_them() -> None:
    board = ProgressBoard()
    report(board, 0, 1, 10.0, loss=1.0, only_here=5.0)
    report(board, 1, 1, 10.0, loss=3.0)
    assert board.progress().metrics == {"loss": 2.0, "only_here": 5.0}


def test_the_rate_is_measured_at_rank_0_over_the_last_reports() -> None:
    board = ProgressBoard()
    for step in range(5):
        report(board, 0, step * 10, 100.0 + step)
    progress = board.progress()
    assert (progress.step, progress.of, progress.rate, progress.state) == (40, 100, 10.0, "training")


def test_a_restart_does_not_make_the_rate_negative() -> None:
    board = ProgressBoard()
    report(board, 0, 50, 1.0)
    report(board, 0, 60, 2.0)
    board.began(1)
    report(board, 0, 40, 3.0)
    report(board, 0, 45, 4.0)
    assert board.progress().rate == 5.0


def test_counted_steps_yield_to_a_program_that_reports_by_itself() -> None:
    board = ProgressBoard()
    board.record(StepReport(0, 7, counted=True, at_monotonic_s=1.0), 1.0)
    assert board.progress().step == 7
    report(board, 0, 3, 2.0)
    board.record(StepReport(0, 8, counted=True, at_monotonic_s=3.0), 3.0)
    assert board.progress().step == 3


def test_numbers_of_results_are_averaged_and_text_is_rank_0s() -> None:
    board = ProgressBoard()
    report(board, 0, 1, 1.0, loss=0.5)
    board.record(ResultsReport(1, {"accuracy": 0.9, "note": "one"}), 1.0)
    board.record(ResultsReport(0, {"accuracy": 1.0, "note": "zero"}), 1.0)
    assert board.results() == {"loss": 0.5, "accuracy": 0.95, "note": "zero"}


def check(board: ProgressBoard, rank: int, own_ms: float) -> None:
    board.record(PreflightTimes(rank, 2.0, 1 << 20, own_ms, "cuda"), 1.0)


def test_a_rank_that_is_far_slower_by_itself_is_named_with_its_gpu() -> None:
    board = ProgressBoard()
    board.record(VisibleGpus(2, ("GPU-c",)), 1.0)
    for rank, own_ms in enumerate((10.0, 11.0, 60.0)):
        check(board, rank, own_ms)
    progress = board.progress()
    assert progress.warnings == ("rank 2 (GPU-c) needs 60.0 ms for what others do in 11.0 ms: suspect",)
    assert (progress.slow_ranks, progress.checked_on) == ({"2": (60.0, 11.0)}, "cuda")


def test_a_new_start_forgets_who_was_slow() -> None:
    board = ProgressBoard()
    for rank, own_ms in enumerate((10.0, 60.0)):
        check(board, rank, own_ms)
    board.began(1)
    assert board.progress().slow_ranks == {}


@pytest.mark.parametrize("own", [(10.0, 12.0, 29.0), (1.0, 1.0, 15.0), (50.0,)], ids=["a little", "tiny", "alone"])
def test_a_rank_that_is_a_little_slower_is_not(own: tuple[float, ...]) -> None:
    board = ProgressBoard()
    for rank, own_ms in enumerate(own):
        check(board, rank, own_ms)
    assert board.progress().warnings == ()


def test_what_cannot_be_averaged_is_left_out() -> None:
    board = ProgressBoard()
    report(board, 0, 1, 1.0, loss=float("nan"), accuracy=0.5)
    assert board.progress().metrics == {"accuracy": 0.5}


def test_a_lost_metric_is_named_until_it_is_a_number_again() -> None:
    board = ProgressBoard()
    report(board, 0, 1, 1.0, loss=0.5, norm=float("inf"))
    report(board, 1, 1, 1.0, loss=float("nan"), norm=2.0)
    assert board.progress().lost_metrics == ("loss is NaN", "norm is infinite")
    report(board, 0, 2, 2.0, norm=3.0)
    report(board, 1, 2, 2.0, loss=0.4)
    assert board.progress().lost_metrics == ()


@pytest.mark.parametrize(
    ("messages", "want"),
    [
        ([VisibleGpus(1, ("GPU-a",))], {"observed_gpus": {"1": ["GPU-a"]}}),
        ([VisibleGpus(0, ("GPU-c",), grant=2)], {"observed_gpus": {"2": ["GPU-c"]}}),
        (
            [MemoryPeak(0, 5), MemoryPeak(0, 3)],
            {"memory_peak_mib": {"0": 5}},
        ),
        ([CheckpointStarted(0, 9)], {"state": "saving"}),
        ([CheckpointSaved(0, 9)], {"last_checkpoint_step": 9, "last_checkpoint_at": 1.0}),
        ([ProgressWarning("a", "slow")], {"warnings": ("slow",)}),
        ([ProgressWarning("a", "slow"), ProgressWarning("a", "")], {"warnings": ()}),
    ],
)
def test_each_message_has_its_place(messages: list[RankReport], want: dict[str, Any]) -> None:
    board = ProgressBoard()
    for message in messages:
        board.record(message, 1.0)
    progress = board.progress()
    assert {name: getattr(progress, name) for name in want} == want


def test_ranks_that_have_said_nothing_of_steps_run_and_those_that_have_train() -> None:
    board = ProgressBoard()
    board.began(0)
    states = [board.state]
    board.started()
    states.append(board.state)
    report(board, 0, 1, 1.0)
    board.started()
    assert [*states, board.state] == ["rendezvous", "running", "training"]


@pytest.mark.parametrize(
    ("chosen", "used", "warned"), [("nccl", "nccl", False), ("gloo", "gloo", False), ("nccl", "gloo", True)]
)
def test_the_collective_is_the_one_that_the_program_really_uses(chosen: str, used: str, warned: bool) -> None:
    board = ProgressBoard(collective=chosen)
    board.record(CollectiveBackend(0, used), 1.0)
    progress = board.progress()
    assert (progress.collective, [text[:27] for text in progress.warnings]) == (
        used,
        ["the program asks for gloo: "[:27]] if warned else [],
    )


def test_infinities_of_both_signs_and_steps_of_a_thousand_digits_stop_nothing() -> None:
    board = ProgressBoard()
    for rank, loss in enumerate((float("inf"), float("-inf"))):
        report(board, rank, 10**1000, 1.0 + rank, loss=loss, big=1e308)
    report(board, 0, -5, 3.0, loss=float("inf"))
    progress = board.progress()
    assert (progress.step, progress.metrics) == (0, {"big": 1e308})
    assert json.loads(progress.to_json())["step"] == 0


def test_results_of_all_kinds_are_kept_as_a_status_can_hold_them() -> None:
    board = ProgressBoard()
    board.record(ResultsReport(0, {"seed": 2**60, "loss": float("inf"), "file": "caf\udce9"}), 1.0)
    board.record(ResultsReport(1, {"seed": 2**60, "loss": 0.5}), 1.0)
    assert board.results() == {"seed": 2**60, "loss": "inf", "file": "caf\\udce9"}
    assert board.report_warnings() == (
        "results.file has characters that cannot be shown; they are written as \\x1b is",
        "results.loss is kept as text: JSON has no such number",
    )
    assert board.shown_warnings() == board.report_warnings()


def test_what_a_program_reports_without_end_is_bounded() -> None:
    board = ProgressBoard()
    for number in range(1000):
        report(board, 0, number, float(number), **{f"metric {number}": 1.0})
        board.record(ResultsReport(0, {f"result {number}": 1}), 1.0)
        board.warn(f"{number:04}", "x" * 1000)
    assert list(board.progress().metrics) == sorted(f"metric {number}" for number in range(64))
    assert list(board.ranks[0].results) == [f"result {number}" for number in range(64)]
    assert board.progress().warnings == ("x" * 399 + "…",) * 15 + ("and 49 more warnings",)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3, 3], 3), ([1.0, 2.0], 1.5), ([2**60], 2**60), ([1e308, 1.1e308], math.nan), ([math.inf, -math.inf], math.nan)],
)
def test_a_mean_is_a_number_or_none(values: list[float], expected: float) -> None:
    assert mean(values) == pytest.approx(expected, nan_ok=True, abs=0)


def test_amounts_of_a_thousand_digits_leave_the_rest_of_the_answer_readable() -> None:
    board = ProgressBoard(state="training")
    board.record(MemoryPeak(0, 10**1000), 1.0)
    board.record(CheckpointSaved(0, 10**1000), 1.0)
    found = well_formed(Progress.from_json(board.progress().to_json()))
    assert (found.state, found.last_checkpoint_step) == ("training", 2**53 - 1)
