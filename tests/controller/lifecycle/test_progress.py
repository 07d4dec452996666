"""What rank 0 answers, as the status shows it. Pure."""

from typing import Any

import pytest

from cotenant.api.resources.staging_status import StagingStatus
from cotenant.api.resources.trainingjob_status import CheckpointStatus
from cotenant.api.scalars.fields import moment
from cotenant.contract import Progress, Termination
from cotenant.controller.lifecycle.progress import coarse, final_progress, progress_update, summary
from tests.controller.builders import T0


@pytest.mark.parametrize(
    ("step", "of", "rate", "text", "remaining"),
    [
        (0, 0, 0.0, "", None),
        (7, 0, 2.0, "7", None),
        (120, 400, 0.0, "120/400 (30 %)", None),
        (120, 400, 7.0, "120/400 (30 %), 40s left", 40),
        (120, 400, 3.0, "120/400 (30 %), 1m30s left", 94),
        (120, 400, 0.5, "120/400 (30 %), 9m left", 560),
        (120, 100_000, 1.0, "120/100000 (0 %), 27h44m left", 99_880),
        (400, 400, 2.0, "400/400 (100 %)", 0),
        (500, 400, 2.0, "500/400 (100 %)", 0),
    ],
    ids=str,
)
def test_the_table_says_how_far_and_how_long(step: int, of: int, rate: float, text: str, remaining: int | None) -> None:
    said = summary(Progress(state="training", step=step, of=of, rate=rate))
    assert (said.summary, said.remaining_seconds) == (text, remaining)


@pytest.mark.parametrize(
    ("step", "text"), [(120, "120/400 (30 %), 40s left, loss is NaN"), (0, "0/400 (0 %), loss is NaN")]
)
def test_the_table_says_that_a_metric_is_lost(step: int, text: str) -> None:
    progress = Progress(state="training", step=step, of=400, rate=7.0 if step else 0.0, lost_metrics=("loss is NaN",))
    assert summary(Progress.from_json(progress.to_json())).summary == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1, 1), (59, 59), (60, 60), (61, 60), (69, 60), (299, 290), (300, 300), (359, 300), (3600, 3600)],
)
def test_remaining_time_is_shown_by_tens_of_seconds_from_a_minute_on_and_by_minutes_from_five(
    seconds: int, shown: int
) -> None:
    assert coarse(seconds) == shown


def test_progress_that_the_status_has_already_is_not_written_again() -> None:
    progress = Progress(state="training", step=7, of=10)
    first = progress_update(None, progress, T0)
    assert first is not None
    assert first.updated_at == moment(T0)
    assert progress_update(first, progress, T0 + 60) is None
    moved = progress_update(first, Progress(state="training", step=8, of=10), T0 + 60)
    assert moved is not None
    assert (moved.step, moved.updated_at) == (8, moment(T0 + 60))


def test_progress_of_which_the_status_has_as_much_as_fits_is_not_written_again() -> None:
    long = Progress(state="training", step=1, metrics={f"{'m' * 120}{n}": 0.5 for n in range(500)})
    written = progress_update(None, long, T0)
    assert written is not None
    read_back = type(written).model_validate(written.to_document())
    assert len(read_back.metrics) < 500
    assert progress_update(read_back, long, T0 + 5) is None


def test_the_time_of_progress_is_that_of_the_launcher_where_it_has_one() -> None:
    written = progress_update(None, Progress(state="training", updated_at=T0 + 5), T0 + 60)
    assert written is not None
    assert written.updated_at == moment(T0 + 5)


def test_the_last_step_is_that_of_the_termination_and_without_one_what_was_known() -> None:
    known = summary(Progress(state="training", step=7, of=10, metrics={"loss": 0.5}))
    ended = Termination(node_rank=0, attempt=1, code=0, reason="", step=10, of=10)
    final = final_progress(known, [ended], state="done", now=T0)
    assert final is not None
    assert (final.step, final.percent, final.state, final.metrics) == (10, 100, "done", {"loss": 0.5})
    assert final.updated_at == moment(T0)
    silent = Termination(node_rank=0, attempt=1, code=0, reason="")
    for without in ([], [silent]):
        assert final_progress(known, without, state="failed", now=T0 + 1) == known.model_copy(
            update={"state": "failed", "updated_at": moment(T0 + 1)}
        )
        assert final_progress(known, without, state="training", now=T0 + 1) is known
        assert final_progress(None, without, state="failed", now=T0) is None


def test_what_was_left_out_of_the_results_is_a_warning_at_the_end() -> None:
    known = summary(Progress(state="training", step=7, warnings=("slow",)))
    ended = Termination(node_rank=0, attempt=1, code=0, reason="", warnings=("slow", "results.a was left out"))
    final = final_progress(known, [ended], state="done", now=T0)
    assert final is not None
    assert (final.step, final.state, final.warnings) == (7, "done", ("slow", "results.a was left out"))


def test_the_data_of_a_short_program_is_told_whole_at_the_end_though_the_last_poll_came_before() -> None:
    polled = summary(Progress(state="staging", staged_bytes=24, staging_bytes=80, staging_s=2.0))
    ended = Termination(0, 1, 0, "Completed", staged_bytes=80, staging_bytes=80, staging_s=4.5)
    final = final_progress(polled, [ended], state="done", now=T0)
    assert final is not None
    assert final.staging == StagingStatus(fetched_bytes=80, of_bytes=80, bytes_per_second=17, seconds=4)


def test_a_time_in_the_future_is_now() -> None:
    written = progress_update(None, Progress(state="training", updated_at=T0 + 1e6), T0)
    assert written is not None
    assert written.updated_at == moment(T0)


@pytest.mark.parametrize(("steps", "remaining_s"), [(3_650 * 86_400, 3_650 * 86_400), (3_650 * 86_400 + 1, None)])
def test_an_end_beyond_ten_years_is_no_estimate(steps: int, remaining_s: int | None) -> None:
    assert summary(Progress(state="training", step=0, of=steps, rate=1.0)).remaining_seconds == remaining_s


def test_an_end_in_a_thousand_years_is_no_estimate() -> None:
    said = summary(Progress(state="training", step=0, of=2**53 - 1, rate=1e-300))
    assert (said.summary, said.remaining_seconds) == ("0/9007199254740991 (0 %)", None)


@pytest.mark.parametrize(
    ("step", "at"), [(7, 1_000.0), (7, None), (None, 1_000.0)], ids=["both", "its step", "its time"]
)
def test_a_checkpoint_is_shown_as_far_as_the_launcher_knows_it(step: int | None, at: float | None) -> None:
    shown = summary(Progress(state="training", last_checkpoint_step=step, last_checkpoint_at=at)).last_checkpoint
    assert shown == CheckpointStatus(step=step, at=at)


def test_without_a_checkpoint_none_is_shown() -> None:
    assert summary(Progress(state="training")).last_checkpoint is None


def test_of_thousands_of_ranks_the_first_are_shown_and_a_warning_says_so() -> None:
    gpus = {str(rank): [f"GPU-{rank:036d}"] for rank in range(10_000)}
    peaks = {str(rank): 81_920 for rank in range(10_000)}
    said = summary(Progress(state="training", observed_gpus=gpus, memory_peak_mib=peaks, warnings=("slow",)))
    shown = len(said.observed_gpus)
    assert list(said.observed_gpus) == [str(rank) for rank in range(shown)]
    assert 200 < shown < len(said.memory_peak_mib) < 10_000
    assert said.warnings == ("slow", f"observedGpus and memoryPeakMiB show the first {shown} ranks of more")
    few = summary(Progress(state="training", observed_gpus={"10": ["b"], "9": ["a"]}))
    assert (list(few.observed_gpus), few.warnings) == (["9", "10"], ())


@pytest.mark.parametrize(("ranks_with_peak", "shown_peaks"), [(0, 0), (3, 3)])
def test_a_warning_says_so_where_one_of_both_lists_is_cut(ranks_with_peak: int, shown_peaks: int) -> None:
    gpus = {str(rank): [f"GPU-{rank:036d}"] for rank in range(10_000)}
    peaks = {str(rank): 81_920 for rank in range(ranks_with_peak)}
    said = summary(Progress(state="training", observed_gpus=gpus, memory_peak_mib=peaks))
    assert len(said.memory_peak_mib) == shown_peaks
    assert said.warnings == (f"observedGpus and memoryPeakMiB show the first {len(said.observed_gpus)} ranks of more",)


def test_a_rate_is_shown_by_thousandths() -> None:
    assert summary(Progress(state="training", rate=1.23456)).rate == 1.235


def test_the_first_of_one_step_is_a_share_of_it() -> None:
    assert summary(Progress(state="training", step=0, of=1)).summary == "0/1 (0 %)"


@pytest.mark.parametrize("told", [{"step": 7}, {"warnings": ("slow",)}, {"restarts": 2}], ids=str)
def test_what_a_launcher_left_behind_is_progress_though_it_never_answered(told: dict[str, Any]) -> None:
    ended = Termination(node_rank=0, attempt=1, code=1, reason="", **told)
    final = final_progress(None, [ended], state="failed", now=T0)
    assert final is not None
    assert {name: getattr(final, name) for name in told} == told


def test_the_newest_checkpoint_of_all_pods_is_the_last() -> None:
    ended = [
        Termination(node_rank=rank, attempt=1, code=143, reason="", last_checkpoint_step=step)
        for rank, step in enumerate((180, 100))
    ]
    final = final_progress(None, ended, state="stopped", now=T0)
    assert final is not None
    assert final.last_checkpoint == CheckpointStatus(step=180)
    timed = final.model_copy(update={"last_checkpoint": CheckpointStatus(step=180, at=T0)})
    again = final_progress(timed, ended, state="stopped", now=T0)
    assert again is not None
    assert again.last_checkpoint == CheckpointStatus(step=180, at=T0)


@pytest.mark.parametrize(
    ("last_uuid_chars", "ranks", "shown"), [(43, 256, 256), (44, 256, 255), (43, 257, 256)], ids=str
)
def test_ranks_are_shown_to_the_last_byte_of_their_room(last_uuid_chars: int, ranks: int, shown: int) -> None:
    """A rank with one UUID of 43 characters takes 64 bytes of 16 KiB."""
    gpus = {str(rank): ["G" * (last_uuid_chars if rank == ranks - 1 else 43)] for rank in range(ranks)}
    said = summary(Progress(state="training", observed_gpus=gpus))
    assert (len(said.observed_gpus), len(said.warnings)) == (shown, int(shown < ranks))


def test_the_last_warnings_are_kept() -> None:
    warnings = tuple(f"warning {number}" for number in range(33))
    assert summary(Progress(state="training", warnings=warnings)).warnings == warnings[1:]
    ended = Termination(node_rank=0, attempt=1, code=0, reason="", warnings=warnings)
    final = final_progress(None, [ended], state="done", now=T0)
    assert final is not None
    assert final.warnings == warnings[1:]
