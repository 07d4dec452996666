"""Reasons to wait, and verdicts made of them."""

from __future__ import annotations

from dataclasses import asdict

from cotenant.core.model.plan import Reason, Refusal


def test_for_these_reasons_waiting_alone_does_not_help() -> None:
    assert {reason.value for reason in Reason if reason.needs_change} == {
        "QueueNotFound",
        "NamespaceNotServed",
        "NoQuota",
        "ExceedsLimit",
        "PriorityNotAllowed",
        "QueueHeld",
        "ClassNotFound",
        "ClassNotShared",
        "ZoneNotFound",
        "ExceedsCluster",
    }


def test_a_verdict_is_the_refusal_plus_the_jobs_name() -> None:
    refusal = Refusal(reason=Reason.WAITING_FOR_GPUS, message="waits", evidence=(("asked", 1),))

    not_played_yet = {"estimated_start_at": None, "latest_start_at": None, "position": None, "ahead": ""}
    untold = {"starts_by": None, "starts_by_basis": "", "would_start_if": "", "change": ()}
    said = {name: value for name, value in asdict(refusal).items() if name not in {"or_space", "binding"}}
    assert asdict(refusal.verdict("red/a")) == {"job": "red/a", **said, **not_played_yet, **untold}
