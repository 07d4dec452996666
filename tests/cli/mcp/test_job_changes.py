"""What a change of a job would do, and what is not worth a proposal."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.mcp.job_changes import NoChangeError, effects

SESSION = {"kind": "Session", "name": "nb", "controller": True}
SAVED = {"summary": "40/90", "lastCheckpoint": {"step": 30}}


def job(phase: str, *, suspend: bool = False, owner: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    metadata = {"namespace": "red", "name": "a"} | ({"ownerReferences": [owner]} if owner else {})
    return {"metadata": metadata, "spec": {"suspend": suspend}, "status": {"phase": phase, **status}}


@pytest.mark.parametrize(
    ("action", "document", "shown"),
    [
        ("stop", job("Pending"), {"phase": "Pending"}),
        ("stop", job("Running"), {"phase": "Running", "itsWork": "no checkpoint is known: resume begins anew"}),
        (
            "stop",
            job("Running", progress=SAVED),
            {
                "phase": "Running",
                "progress": "40/90",
                "itsWork": "the checkpoint of step 30 is the last one known; resume goes on from there",
            },
        ),
        ("delete", job("Running"), {"phase": "Running", "itsWork": "no checkpoint is known: what it computed is lost"}),
        ("delete", job("Succeeded"), {"phase": "Succeeded"}),
        ("delete", job("Running", owner=SESSION), {"phase": "Running", "itsWork": "no checkpoint is known: what it"
                                                    " computed is lost"}),
        ("resume", job("Suspended", suspend=True), {"phase": "Suspended"}),
    ],
)  # fmt: skip
def test_a_proposal_tells_what_becomes_of_the_work(action: str, document: Any, shown: dict[str, str]) -> None:
    assert effects(document, action) == shown


@pytest.mark.parametrize(
    ("action", "document", "says"),
    [
        ("stop", job("Succeeded"), "red/a has finished (Succeeded): there is nothing to stop"),
        ("resume", job("Failed", suspend=True), "red/a has finished (Failed): there is nothing to resume"),
        ("stop", job("Suspended", suspend=True), "red/a was stopped before"),
        ("resume", job("Running"), "red/a was not stopped: it is Running"),
        ("resume", job("Suspended", suspend=True, owner=SESSION), "red/a is the job of session nb"),
        ("burn", job("Running"), "action: 'burn'; one of stop, resume, delete"),
    ],
)
def test_what_would_do_nothing_is_not_proposed(action: str, document: Any, says: str) -> None:
    with pytest.raises(NoChangeError) as refused:
        effects(document, action)
    assert str(refused.value).startswith(says)
