"""A change of the cluster in words: as the operator reads it, and its answer as a person does."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.errors import UserError
from cotenant.cli.queries.cluster_whatif import proposal, sentences


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ("queue team-b gpus +4", {"queue": "team-b", "change": {"gpus": "+4"}}),
        ("queue team-b gpus -2 H100", {"queue": "team-b", "change": {"gpus": "-2"}, "gpuClass": "H100"}),
        (
            "queue team-b gpus +4 H100 limit +4 H100",
            {"queue": "team-b", "change": {"gpus": "+4", "limit": "+4"}, "gpuClass": "H100"},
        ),
        ("queue team-b weight 3 limit 9", {"queue": "team-b", "change": {"weight": 3, "limit": "9"}}),
        ("node n1 drain", {"node": "n1", "act": "Drain"}),
        ("node n1 add", {"node": "n1", "act": "Add"}),
        ("node n1 add 3", {"node": "n1", "act": "Add", "count": 3}),
        ("setting tenure_s 86400", {"setting": "tenure_s", "value": "86400"}),
    ],
)
def test_words_are_a_question(words: str, spec: dict[str, Any]) -> None:
    assert proposal(words.split()) == spec


@pytest.mark.parametrize(
    "words", ["queue team-b gpus", "queue a gpus 1 H100 limit 2 A100", "node n1 drain 2", "node n1 add x", "setting a"]
)
def test_words_that_make_no_question_are_refused_with_examples(words: str) -> None:
    with pytest.raises(UserError) as refused:
        proposal(words.split())
    assert refused.value.exit_code == 2


def test_a_negative_amount_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["whatif", "queue", "team-b", "gpus", "-2", "--kubeconfig", "none"]) == 2
    assert "there is no none" in capsys.readouterr().err


def test_the_answer_has_a_list_for_each_thing_that_would_change() -> None:
    job = {"job": "red/more", "asks": "2 GPUs"}
    status = {
        "starts": [job | {"why": "on n1"}],
        "evicted": [{"job": "a job of another tenant", "asks": "1 GPU of H100", "why": "it has a lower priority"}],
        "counts": {"starts": 12, "evicted": 1},
        "waiting": {"before": 14, "after": 3},
        "command": "kubectl patch queue team-b",
    }
    assert list(sentences({"status": status}, "queue team-b gpus +4")) == [
        "queue team-b gpus +4",
        "12 jobs would start now:",
        "  red/more, 2 GPUs: on n1",
        "  and 11 more",
        "1 job would be evicted:",
        "  a job of another tenant, 1 GPU of H100: it has a lower priority",
        "Jobs that wait: 14 now, 3 with it.",
        "To do it: kubectl patch queue team-b",
    ]


def test_a_change_that_changes_nothing_says_so() -> None:
    assert "No running or waiting job would be affected." in sentences(
        {"status": {"waiting": {"before": 0, "after": 0}}}, "node n1 add"
    )


def test_guarantees_that_the_gpus_do_not_back_are_told() -> None:
    status = {
        "waiting": {"before": 0, "after": 0},
        "unbackedGuarantees": [
            {"queue": "team-a", "guaranteed": "2", "effective": "1.333"},
            {"queue": "team-c", "guaranteed": "1", "effective": "0.666"},
            {"queue": "team-b", "class": "H100", "zone": "z1", "guaranteed": "4", "effective": "2.666"},
        ],
    }
    assert list(sentences({"status": status}, "queue team-b gpus +2"))[-4:] == [
        "All guarantees together would exceed the GPUs, so each counts for less:",
        "  team-a: 1.333 instead of 2 GPUs",
        "  team-c: 0.666 instead of 1 GPU",
        "  team-b: 2.666 instead of 4 GPUs of H100 in z1",
    ]
