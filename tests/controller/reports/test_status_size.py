"""The largest status that a program can bring about: far below what etcd takes, and taken by every JSON reader."""

from __future__ import annotations

import json

import orjson
import pytest

from cotenant.api.conversion.placements import from_placement
from cotenant.api.resources.placement_status import Isolation
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.contract import Progress, Termination, progress_bounds
from cotenant.controller.informers.pods.pod_record import Exit
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.failure_classification import exit_status
from cotenant.controller.lifecycle.policies.retries import exit_message
from cotenant.controller.lifecycle.progress import final_progress, progress_update
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, placement_on, pod
from tests.support.well_formed import well_formed

ETCD_BYTES_MAX = 1_536 << 10
PROGRAM_BYTES_MAX = 128 << 10
"""Of a status without its placement."""
LONGEST = ("\U0001f600", "\u20ac", "\u202e", "\x01", "\ud800", '"', "\\", "a")
"""Characters that take the most, in one encoding or another."""


def largest_progress(char: str, ranks: int) -> bytes:
    """A progress that is as large as the bounds allow."""
    text = char * 5000
    document = {
        "state": "s" * 32,
        "collective": "c" * 32,
        "step": 2**53 - 1,
        "of": 2**53 - 1,
        "rate": 1e-300,
        "metrics": {f"{char * 100}{number:03}": -1.7976931348623157e308 for number in range(64)},
        "warnings": [text] * 2,
        "observed_gpus": {str(rank): ["G" * 80] * 4 for rank in range(ranks)},
        "memory_peak_mib": {str(rank): 1 << 40 for rank in range(ranks)},
        "last_checkpoint_at": 4e9,
        "updated_at": 4e9,
    }
    return json.dumps(document, ensure_ascii=char in "\ud800").encode()


def largest_termination(char: str) -> str:
    return Termination(
        0, 1, 1, "R" * 64, message=char * 2000, results={f"{n}": char * 200 for n in range(5)}, tail=(char * 300,) * 20
    ).to_json()


@pytest.mark.parametrize("char", LONGEST, ids=ascii)
def test_the_largest_status_that_a_program_can_bring_about_is_bounded(char: str) -> None:
    ranks = 5_000
    body = largest_progress(char, ranks)
    assert len(body) <= progress_bounds(ranks).bytes_max
    progress = well_formed(Progress.from_json(body, ranks))
    shown = progress_update(None, progress, T0)
    termination = well_formed(Termination.from_json(largest_termination(char)))
    head = pod(0, end=Exit(code=1, reason="Error", at=T0, termination=termination))
    last = exit_status(head)
    status = TrainingJobStatus(
        phase=Phase.RUNNING,
        placement=from_placement(placement_on(("n1", 1)), admitted_at=T0, isolation=Isolation.NONE),
    )
    message = exit_message(last)
    evicted = status_transitions.evicting(
        status, LifecycleEvent.CRASHED, kind=last.reason, message=message, now=T0, last_exit=last
    )
    ended = status_transitions.finished(
        status.model_copy(update={"eviction": evicted.eviction, "conditions": evicted.conditions}),
        LifecycleEvent.GAVE_UP,
        reason=last.reason,
        message=message,
        milli=1000,
        over_at=T0,
        now=T0,
        progress=final_progress(shown, [termination], state="failed", now=T0),
        last_exit=last,
        results=termination.results,
    )
    written = orjson.dumps(ended.to_document())
    assert len(written) < PROGRAM_BYTES_MAX < ETCD_BYTES_MAX / 2
    assert json.loads(written) == orjson.loads(written)
    assert TrainingJobStatus.model_validate(json.loads(written)).to_document() == ended.to_document()


def test_a_message_is_plain_and_short_wherever_it_was_quoted_from() -> None:
    status = TrainingJobStatus(phase=Phase.RUNNING)
    changed = status_transitions.explained(status, reason="\x1b[31m" * 100, message="\u202e" * 9000, now=T0)
    assert changed.reason is not None
    assert changed.message is not None
    assert (len(changed.reason), len(changed.message)) == (128, 4000)
    assert changed.reason.isprintable()
    assert changed.message.isprintable()
    assert {(one.reason, one.message) for one in changed.conditions} == {(changed.reason, changed.message)}
