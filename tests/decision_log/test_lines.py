"""The log as text: what is written is read as the same value, and what cannot be read is skipped and counted."""

from __future__ import annotations

import json

import pytest

from cotenant.decision_log.cycles import ActionTaken, CycleRecord, ReasonGiven
from cotenant.decision_log.lines import LineError, Reader, from_line, to_line
from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.timelines import Happening, Timeline

RUN = RunRecord(
    namespace="red",
    name="train",
    uid="u1",
    queue="red",
    outcome="Failed",
    tail=("a", "ü"),
    results={"loss": 0.5, "note": "x", "steps": 3},
    use=MeasuredUse(samples=2, held_mib=10),
    timeline=Timeline(happenings=(Happening(at=1.5, what="Waits", mentions=("blue",)),), gpu_class="H100"),
)
CYCLE = CycleRecord(
    at=12.25,
    digest="d",
    reasons={"NoQuota": 2},
    actions=(ActionTaken(action="Admit", job="red/a", nodes=(("n1", 2),)),),
    verdicts=(ReasonGiven(job="red/b", reason="NoQuota", message="no"),),
)


@pytest.mark.parametrize("record", [RUN, CYCLE], ids=["a run", "a cycle"])
def test_a_record_is_one_line_and_the_same_when_it_is_read(record: RunRecord | CycleRecord) -> None:
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line) == record


def test_a_line_says_what_it_is_and_of_which_version() -> None:
    document = json.loads(to_line(CYCLE))
    assert (document["kind"], document["version"], document["actions"][0]["nodes"]) == ("Cycle", 1, [["n1", 2]])


def test_what_a_newer_program_has_added_is_ignored_and_what_an_older_one_did_not_have_is_empty() -> None:
    document = json.loads(to_line(RUN)) | {"mood": "good"}
    del document["use"]
    assert from_line(json.dumps(document)) == from_line(to_line(RUN)).__class__(
        **{name: getattr(RUN, name) for name in RUN.__slots__ if name != "use"}
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (to_line(RUN)[:-5], "not JSON"),
        ("[]", "neither"),
        ('{"kind":"Run","version":2}', "version 2"),
        ('{"kind":"Run","version":1}', "namespace is missing"),
        ('{"kind":"Cycle","version":1,"at":"soon","digest":"d"}', "at: "),
        ('{"kind":"Cycle","version":1,"at":1,"digest":"d","jobs":true}', "jobs: bool does not fit"),
    ],
    ids=["half of one", "a list", "newer", "without a name", "a text for a time", "a truth for a number"],
)
def test_what_is_no_record_is_refused_with_why_and_skipped(line: str, says: str) -> None:
    with pytest.raises(LineError, match=says):
        from_line(line)
    reader = Reader()
    assert list(reader.records([line, "", to_line(CYCLE)])) == [CYCLE]
    assert reader.skipped == 1
