"""What `offer`, `queues`, `ps` and `whatif` print, and what they ask."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.queries import offer, ps, queues, whatif

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def test_an_offer_is_a_line_for_each_class() -> None:
    classes = [
        {"class": "H100", "guaranteed": 2, "borrowable": 1, "largestGang": 3, "onOneNode": 2, "largestShare": "1"}
    ]
    items = [{"metadata": {"name": "team-a"}, "status": {"classes": classes}}]
    assert list(offer.cells({"items": items})) == [("team-a", "H100", "2", "1", "3", "2", "1")]


QUEUE: dict[str, Any] = {
    "metadata": {"name": "team-a"},
    "status": {
        "depth": 1,
        "guaranteed": "4",
        "used": "6",
        "borrowed": "2",
        "holding": 3,
        "waiting": 1,
        "broken": "",
        "quotas": [
            {"class": "H100", "limit": "8", "guaranteed": "4", "effective": "4", "used": "6"},
            {"class": None, "limit": None, "guaranteed": "4", "effective": "2", "used": "1"},
        ],
        "share": {
            "terms": [{"class": "H100", "borrowed": "2", "capacity": "16", "ppm": 125_000}],
            "pastPpm": 5_000,
            "weight": 2,
            "ppm": 65_000,
        },
    },
}


def test_a_queue_is_a_line_below_its_parent() -> None:
    assert queues.cells(QUEUE) == ("  team-a", "4", "6", "2", "8 H100", "3", "1", "6.50 %")


def test_the_arithmetic_of_a_share_is_told_line_by_line() -> None:
    assert list(queues.arithmetic(QUEUE)) == [
        "",
        "team-a",
        "  H100: guaranteed 4, uses 6: 4 of its own + 2 borrowed, may hold 8",
        "  any class: guaranteed 4 (of which 2 are there), uses 1: 1 of its own, may borrow whatever is lent",
        "  borrows 2 of 16 (H100): 12.50 %",
        "  12.50 % + 0.50 % by past borrowing, / weight 2",
        "  = 6.50 %: the lower share goes first",
    ]


def test_a_job_is_a_line_with_its_place_and_its_start() -> None:
    job = {
        "metadata": {"name": "train", "namespace": "red"},
        "status": {
            "standing": "Waiting",
            "queue": "team-a",
            "asks": "4 GPUs",
            "position": 2,
            "reason": "WaitingForGPUs",
            "estimatedStart": "2026-01-01T12:20:00Z",
            "submittedAt": "2026-01-01T11:00:00Z",
        },
    }
    cells = ps.cells(job, NOW)
    assert cells[:5] == ("train", "Waiting", "team-a", "4 GPUs", "2")
    assert cells[5].endswith("(in 20 min)")
    assert cells[6:] == ("WaitingForGPUs", "60m")


@pytest.mark.parametrize(
    ("attempt", "reason", "shown"),
    [
        ({"phase": "Running", "reason": "Running"}, "", ""),
        ({"phase": "Starting", "reason": "Admitted"}, "", ""),
        ({"phase": "Starting", "reason": "FailedMount"}, "", "FailedMount"),
        ({"phase": "Starting", "reason": "FailedMount"}, "QueueMissing", "FailedMount"),
        ({"phase": "Running", "reason": "Running"}, "QueueMissing", "QueueMissing"),
        ({}, "", ""),
    ],
    ids=["it runs", "it starts", "a volume is missing", "a volume is missing and so is its queue",
         "its queue was deleted", "an older operator"],
)  # fmt: skip
def test_a_job_that_holds_gpus_has_the_reason_why_it_does_not_run_or_may_lose_them(
    attempt: dict[str, str], reason: str, shown: str
) -> None:
    status = {"standing": "Admitted", "queue": "team-a", "attempt": attempt, "reason": reason}
    assert ps.cells({"metadata": {"name": "train"}, "status": status}, NOW)[6] == shown


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        (
            {"user": "ann", "priority": 10, "nodes": ["n1", "n2", "n3", "n4"]},
            ("ann", "10", "", "", "", "", "", "", "n1,n2,n3 and 1 more", ""),
        ),
        ({"nodes": ["n1"], "wouldStartIf": "x"}, ("", "", "", "", "", "", "", "", "n1", "x")),
        (
            {"roles": {"worker": 2}, "waitedSeconds": 90, "ranSeconds": 600, "leftSeconds": 7200},
            ("", "", "", "90s", "10m", "2h", "", "", "", ""),
        ),
        (
            {"roles": {"chief": 1, "worker": 3, "parameter-server": 2, "evaluator": 1}, "evaluator": "Restarting"},
            ("", "", "chief, 3 workers, 2 parameter servers, evaluator (Restarting)", "", "", "", "", "", "", ""),
        ),
        (
            {"roles": {"worker": 1, "evaluator": 1}, "evaluator": "Running"},
            ("", "", "worker, evaluator", "", "", "", "", "", "", ""),
        ),
        (
            {"use": {"measuredGPUs": 4, "idleGPUs": 1, "memoryPeakMiB": 12_595, "memoryHeldMiB": 40_960}},
            ("", "", "", "", "", "", "1 of 4", "12.3 of 40.0 GiB", "", ""),
        ),
        (
            {"use": {"memoryPeakMiB": 0, "memoryHeldMiB": 40_960}},
            ("", "", "", "", "", "", "", "0.0 of 40.0 GiB", "", ""),
        ),
        ({}, ("",) * 10),
    ],
)
def test_wide_lines_say_whose_a_job_is_what_it_does_and_where_it_lies(
    status: dict[str, Any], cells: tuple[str, ...]
) -> None:
    assert ps.wide_cells(status) == cells


def answer(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train", "namespace": "red"}, "status": {"asks": "2 GPUs", **status}}


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        (
            {"outcome": "Starts", "nodes": {"n1": 2}},
            ["red/train would start now for 2 GPUs, workers on n1 (2)."],
        ),
        (
            {
                "outcome": "StartsAfterEvictions",
                "nodes": {"n1": 2},
                "victims": [{"job": "a job of another tenant", "asks": "2 GPUs of H100", "why": "it is lower"}],
                "delayed": [{"job": "red/next", "asks": "1 GPU", "why": "it would start now"}],
                "delayedMore": 3,
            },
            [
                "red/train would start for 2 GPUs on n1 (2), as soon as others have left:",
                "  would have to leave: a job of another tenant, 2 GPUs of H100: it is lower",
                "  delayed by it: red/next, 1 GPU: it would start now",
                "  and 3 more",
            ],
        ),
        (
            {"outcome": "Waits", "reason": "WaitingForGPUs", "message": "Needs 2.", "wouldStartIf": "it asked for 1"},
            ["red/train would wait for 2 GPUs: WaitingForGPUs", "Needs 2.", "Would start now if it asked for 1."],
        ),
    ],
    ids=["starts", "after evictions", "waits"],
)
def test_every_outcome_of_a_proposal_has_its_sentences(status: dict[str, Any], lines: list[str]) -> None:
    assert list(whatif.sentences(answer(**status))) == lines


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("gpu.memoryFraction=0.1", ("spec.gpu.memoryFraction", "0.1")),
        ("gpu.count=2", ("spec.gpu.count", 2)),
        ("spec.gpu.memory=16Gi", ("spec.gpu.memory", "16Gi")),
        ("gpu.zones=null", ("spec.gpu.zones", None)),
        ('gpu.classes=["H100"]', ("spec.gpu.classes", ["H100"])),
    ],
)
def test_a_field_is_set_as_json_or_as_text(text: str, change: tuple[str, object]) -> None:
    assert whatif.change_of(text) == change


@pytest.mark.parametrize("words", [[], ["job", "-f", "x.yaml"], ["job", "--set", "gpu.count"], ["job", "--set", "=2"]])
def test_a_question_that_is_none_is_refused_before_anybody_is_asked(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["whatif", *words]) == 2
    assert "give " in capsys.readouterr().err


def test_jobs_that_are_set_aside_come_last_with_what_brings_them_back() -> None:
    waiting = {"standing": "Waiting", "queue": "team-a", "asks": "1 GPU", "submittedAt": "2026-01-01T11:00:00Z"}
    stopped = {
        "standing": "Suspended",
        "queue": "team-a",
        "message": "spec.suspend is true: the job waits until it is set to false\nmore",
        "returnsIf": "spec.suspend is false: kubectl cotenant resume red/stopped",
    }
    broken = {
        "standing": "Invalid",
        "queue": "team-a",
        "message": "workers must be 1 or more",
        "returnsIf": "its spec is mended",
    }
    jobs = [
        {"metadata": {"name": "stopped", "namespace": "red"}, "status": stopped},
        {"metadata": {"name": "broken", "namespace": "red"}, "status": broken},
        {"metadata": {"name": "train", "namespace": "red"}, "status": waiting},
    ]
    lines = ps.as_table(sorted(jobs, key=ps.order), NOW, wide=False, namespaces=False).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["NAME", "train", "broken", "stopped"]
    assert lines[4:] == [
        "broken: workers must be 1 or more; back in line when its spec is mended",
        "stopped: spec.suspend is true: the job waits until it is set to false; kubectl cotenant resume red/stopped",
    ]


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ([], ["runs", "waits", "other"]),
        (["--waiting"], ["waits", "other"]),
        (["--queue", "team-a"], ["runs", "waits"]),
        (["--user", "ann"], ["runs", "other"]),
        (["--queue", "team-a", "--user", "ann", "--waiting"], []),
    ],
)
def test_a_list_of_jobs_is_narrowed_by_queue_user_and_standing(flags: list[str], left: list[str]) -> None:
    args = main.build_parser().parse_args(["ps", *flags])
    jobs = {
        "runs": {"standing": "Admitted", "queue": "team-a", "user": "ann"},
        "waits": {"standing": "Waiting", "queue": "team-a", "user": "bob"},
        "other": {"standing": "Waiting", "queue": "team-b", "user": "ann"},
    }
    assert [name for name, status in jobs.items() if ps.chosen(status, args)] == left
