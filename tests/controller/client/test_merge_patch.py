"""The patch of a status holds what changed, and nothing else."""

from __future__ import annotations

from typing import Any

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.client.merge_patch import difference
from cotenant.controller.lifecycle import status_transitions
from cotenant.core.model.lifecycle import LifecycleEvent, Phase
from tests.controller.builders import T0, admitted


def merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396."""
    result = dict(old)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def test_a_patch_says_only_what_changed_and_reads_back_as_the_status() -> None:
    before = admitted(Phase.STARTING, ("n1", 1))
    after = status_transitions.moved(
        before, LifecycleEvent.WORKERS_READY, reason="Running", message="2 workers", now=T0 + 10
    )
    change = difference(before.to_document(), after.to_document())
    assert sorted(change) == ["conditions", "message", "phase", "reason"]
    assert TrainingJobStatus.model_validate(merged(before.to_document(), change)) == after


def test_what_is_gone_is_removed_by_the_patch() -> None:
    running = admitted(Phase.RUNNING, ("n1", 1))
    done = status_transitions.finished(
        running, LifecycleEvent.COMPLETED, reason="", message="", milli=400, over_at=T0 + 60, now=T0 + 60
    )
    change = difference(running.to_document(), done.to_document())
    assert change["placement"] is None
    assert TrainingJobStatus.model_validate(merged(running.to_document(), change)) == done


def test_a_status_that_did_not_change_needs_no_patch() -> None:
    status = admitted(Phase.RUNNING, ("n1", 1))
    assert difference(status.to_document(), status.to_document()) == {}
