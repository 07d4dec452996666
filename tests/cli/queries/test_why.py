"""What `cotenant why` prints for the operator's answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cotenant.cli.errors import UserError
from cotenant.cli.queries import why
from cotenant.cli.queries.why import sentences
from cotenant.cli.terminal.object_names import ObjectName
from tests.cli.tenants.cluster import PlayedCluster

AHEAD: list[dict[str, Any]] = [
    {"job": "a job of another tenant", "asks": "4 GPUs of H100", "why": "it is older"},
    *({"job": f"red/j{number}", "asks": "1 GPU", "why": "it has a higher priority"} for number in range(6)),
]
WAITS: dict[str, Any] = {
    "standing": "Waiting",
    "queue": "team-a",
    "asks": "4 GPUs",
    "reason": "WaitingForGPUs",
    "message": "Needs 4 GPUs. Queue team-a allows it, but it does not fit now.",
    "needsChange": False,
}


def printed(*, wide: bool = False, **status: Any) -> list[str]:
    return list(sentences({"metadata": {"name": "train", "namespace": "red"}, "status": status}, wide=wide))


def test_a_job_that_waits_has_its_reason_its_line_its_start_and_what_helps() -> None:
    lines = printed(
        **WAITS,
        position=10,
        ahead=AHEAD,
        aheadMore=2,
        estimatedStart="2020-01-01T00:00:00Z",
        latestStart="2020-01-01T00:00:00Z",
        wouldStartIf="a worker asked for 2 GPUs",
        change={"spec.gpu.count": 2, "spec.gpu.zones": None},
    )
    assert [line for line in lines if not line.startswith("Starts at about")] == [
        "red/train waits in queue team-a for 4 GPUs: WaitingForGPUs",
        "Needs 4 GPUs. Queue team-a allows it, but it does not fit now.",
        "Place 10 in line. Before it:",
        "  a job of another tenant, 4 GPUs of H100: it is older",
        *(f"  red/j{number}, 1 GPU: it has a higher priority" for number in range(4)),
        "  and 4 more",
        "Would start now if a worker asked for 2 GPUs.",
        "  spec.gpu.count: 2",
        "  spec.gpu.zones: (left out)",
    ]


def test_wide_lists_all_that_the_answer_has() -> None:
    lines = printed(**WAITS, position=8, ahead=AHEAD, wide=True)
    assert (len([line for line in lines if line.startswith("  ")]), "more" in "".join(lines)) == (7, False)


RUNS = {"phase": "Running", "reason": "Running"}
BLOCKED = {"phase": "Starting", "reason": "FailedMount", "message": "configmap c not found"}


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (WAITS | {"position": 1}, "It is the next to start."),
        (WAITS | {"position": 1}, "There is no estimate of its start yet."),
        (
            WAITS | {"startsByBasis": "There is no latest start, because it has to borrow."},
            "There is no latest start, because it has to borrow.",
        ),
        (WAITS | {"needsChange": True}, "Waiting alone does not help."),
        (
            WAITS | {"reason": "ExceedsLimit"},
            "An administrator may grant more for some time:"
            " kubectl cotenant quota request gpus=N --for 7d --reason WHY -n red",
        ),
        (
            WAITS | {"position": 1, "leaving": [{"job": "a job of another tenant", "asks": "2 GPUs"}]},
            "  leaving for it: a job of another tenant, 2 GPUs",
        ),
        ({"standing": "Admitted"}, "red/train does not wait: it has GPUs, and starts or runs."),
        ({"standing": "Admitted", "attempt": RUNS}, "red/train does not wait: it has GPUs, and is Running."),
        (
            {"standing": "Admitted", "attempt": BLOCKED},
            "red/train does not wait: it has GPUs, and is Starting (FailedMount).",
        ),
        ({"standing": "Admitted", "attempt": BLOCKED}, "configmap c not found"),
        ({"standing": "Admitted", "attempt": BLOCKED, "message": "Queue red was deleted."}, "configmap c not found"),
        ({"standing": "Admitted", "attempt": BLOCKED, "message": "Queue red was deleted."}, "Queue red was deleted."),
        ({"standing": "Leaving"}, "red/train does not wait: it was asked to give its GPUs back."),
        ({"standing": "Away"}, "red/train does not wait: it is on another cluster."),
        (WAITS | {"elsewhere": "It is also in line on cluster west"}, "It is also in line on cluster west"),
        ({"standing": "Succeeded"}, "red/train does not wait: it is Succeeded."),
        ({"standing": "Invalid", "returnsIf": "its spec is mended"}, "It is in line again when its spec is mended"),
        (
            {"standing": "Suspended", "returnsIf": "spec.suspend is false: kubectl cotenant resume red/train"},
            "To have it in line again: kubectl cotenant resume red/train",
        ),
        ({"standing": "Suspended", "ifResumed": "it would wait: no"}, "Resumed now, it would wait: no"),
        ({"standing": "Suspended", "wouldStartIf": "it is resumed"}, "Would start now if it is resumed."),
    ],
    ids=[
        "next",
        "no estimate yet",
        "no latest start",
        "needs a change",
        "a quota stops it",
        "somebody leaves",
        "admitted",
        "running",
        "what keeps it from running",
        "what keeps it from running in words",
        "what keeps it from running although its queue was deleted",
        "its queue was deleted",
        "leaving",
        "on another cluster",
        "in line on another cluster too",
        "ended",
        "invalid",
        "suspended",
        "suspended and would wait",
        "suspended and would start",
    ],
)
def test_every_standing_has_its_sentence(status: dict[str, Any], line: str) -> None:
    assert line in printed(**status)


def test_an_operator_that_has_not_seen_a_new_job_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "ASKED_S", 0)
    cluster: Any = PlayedCluster()
    cluster.job("train")
    path = "/namespaces/red/explanations/train"
    with pytest.raises(UserError, match="has not seen red/train yet: ask again") as late:
        why.explanation(cluster, ObjectName("red", "train"))
    assert (late.value.exit_code, len(cluster.asked)) == (5, why.ASKED_MAX)
    with pytest.raises(UserError) as gone:
        why.explanation(cluster, ObjectName("red", "nobody"))
    assert (gone.value.exit_code, len(cluster.asked)) == (3, why.ASKED_MAX + 1)
    cluster.answers[path] = {"metadata": {}, "status": WAITS}
    assert why.explanation(cluster, ObjectName("red", "train"))["status"] == WAITS


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/tenants.md"])
def test_the_pages_show_what_is_printed(page: str) -> None:
    shown = re.search(r"\$ kubectl cotenant why digits-2\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert shown is not None
    status: dict[str, Any] = WAITS | {
        "asks": "2 workers × 0.4 GPU",
        "message": "Needs 2 workers × 0.4 GPU. Queue team-a allows it, but none of 2 workers fits now:"
        " 8 of 8 GPUs are in use.",
        "position": 3,
        "ahead": [
            {
                "job": "a job of another tenant",
                "asks": "4 GPUs of H100",
                "why": "it is inside the guarantee of its queue",
            },
            {"job": "team-a/digits-1", "asks": "1 GPU", "why": "it is older"},
        ],
        "estimatedStart": "2020-01-01T00:00:00Z",
        "latestStart": "2020-01-01T00:00:00Z",
        "wouldStartIf": "it asked for 1 worker",
        "change": {"spec.workers": 1},
    }
    told = list(sentences({"metadata": {"name": "digits-2", "namespace": "team-a"}, "status": status}, wide=False))
    times = re.compile(r"(at about|by) \S.*?(?=, nine|\.$)")
    assert [times.sub(r"\1 …", line) for line in shown[1].splitlines()] == [times.sub(r"\1 …", line) for line in told]
