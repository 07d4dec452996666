"""A metric that is no number any more is a warning, until it is one again."""

from __future__ import annotations

import math

from cotenant_worker.progress.lost_metrics import LostMetrics


def test_a_lost_metric_is_told_with_its_rank_its_step_and_its_last_value() -> None:
    lost = LostMetrics()
    assert list(lost.record(1, 2, {"loss": 0.5, "rate": 0.1})) == []
    assert list(lost.record(1, 3, {"loss": math.nan, "rate": 0.1})) == [
        ("lost-loss", "loss is NaN since step 3 (rank 1); it was 0.5 at step 2")
    ]
    assert list(lost.record(1, 4, {"loss": math.nan})) == []
    assert list(lost.record(0, 5, {"loss": math.nan})) == [
        ("lost-loss", "loss is NaN since step 3 (2 ranks, rank 1 first); it was 0.5 at step 2")
    ]
    assert list(lost.record(1, 6, {"loss": 0.4})) == [
        ("lost-loss", "loss is NaN since step 5 (rank 0); it was 0.4 at step 6")
    ]
    assert list(lost.record(0, 6, {"loss": 0.4})) == [("lost-loss", "")]


def test_a_metric_that_never_was_a_number() -> None:
    [(_, text)] = LostMetrics().record(0, 1, {"loss": math.inf})
    assert text == "loss is no finite number since step 1 (rank 0)"
