"""`cotenant quota`: what is asked for is what is written, and an answer is for the object that was shown."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.errors import UserError
from cotenant.cli.tenants import quota

OURS = "/apis/cotenant.dev/v1beta1/namespaces/red/quotarequests"
SEEN: dict[str, Any] = {
    "metadata": {"name": "more", "namespace": "red", "uid": "u1", "resourceVersion": "7"},
    "spec": {"until": "2030-01-31T18:00:00Z", "reason": "a paper"},
    "status": {
        "phase": "Pending", "queue": "team", "asked": "4 GPUs", "message": "an administrator has to answer",
        "conditions": [
            {"type": "Approved", "status": "Unknown", "message": "-"},
            {"type": "WithinParents", "status": "False", "message": "queue top above may hold 6 GPU"},
        ],
    },
}  # fmt: skip


class Recorded:
    namespace = "red"

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, Any]] = []
        self.seen: dict[str, Any] = copy.deepcopy(SEEN)

    def read(self, path: str) -> Any:
        return {"items": [self.seen]} if path == OURS else self.seen

    def patch(self, path: str, body: Any) -> Any:
        self.writes.append(("PATCH", path, body))
        return body

    def call(self, method: str, path: str, body: Any) -> Any:
        if path == quota.WHO_AM_I:
            return {"status": {"userInfo": {"username": "grace"}}}
        self.writes.append((method, path, body))
        return {"metadata": {"name": "more-x1"}}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    made = Recorded()
    for place in ("tenants.quota", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{place}.connect", lambda _: made)
    return made


def test_a_request_is_one_document(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["quota", "request", "gpus=4,class=H100,guaranteed=2", "gpus=0.5,user=ann", "--until", "2030-01-31"]

    assert main.main([*words, "--reason", "a paper"]) == 0

    ((method, path, body),) = recorded.writes
    assert (method, path, body["kind"], body["metadata"]) == ("POST", OURS, "QuotaRequest", {"generateName": "more-"})
    assert body["spec"] == {
        "quotas": [{"gpus": 4, "gpuClass": "H100", "guaranteed": 2}, {"gpus": "0.5", "user": "ann"}],
        "until": "2030-01-31T23:59:59Z",
        "reason": "a paper",
    }
    assert "answers: kubectl cotenant quota approve red/more-x1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "approval"),
    [
        ("approve more", {"decision": "Approved", "by": "grace"}),
        (
            "approve red/more --until 2030-01-02T03:04:05+01:00",
            {"decision": "Approved", "by": "grace", "until": "2030-01-02T02:04:05Z"},
        ),
        ("deny more --message later", {"decision": "Denied", "by": "grace", "message": "later"}),
    ],
)
def test_an_answer_is_one_guarded_write_in_the_name_of_who_gives_it(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], words: str, approval: dict[str, str]
) -> None:
    assert main.main(["quota", *words.split()]) == 0

    guard = {"uid": "u1", "resourceVersion": "7"}
    assert recorded.writes == [("PATCH", f"{OURS}/more/status", {"metadata": guard, "status": {"approval": approval}})]
    warning = "warning: red/more: queue top above may hold 6 GPU\n"
    assert capsys.readouterr().err == (warning if words.startswith("approve") else "")


@pytest.mark.parametrize(
    ("phase", "words", "says"),
    [
        ("Pending", "deny more", "more is denied"),
        ("Granted", "deny more", "more is taken back"),
        ("Granted", "approve more", "granted already: `kubectl cotenant quota deny red/more`"),
        ("Expired", "approve more", "more is Expired and not answered any more"),
        ("Revoked", "approve more", "more is Revoked and not answered any more"),
    ],
)
def test_an_answer_says_what_it_came_to(
    recorded: Recorded, capsys: pytest.CaptureFixture[str], phase: str, words: str, says: str
) -> None:
    recorded.seen["status"]["phase"] = phase

    code = main.main(["quota", *words.split()])

    shown = capsys.readouterr()
    assert says in shown.out + shown.err
    assert len(recorded.writes) == (0 if code else 1), "what is over, or granted already, is left as it is"


def test_requests_are_listed_with_what_became_of_them(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["quota", "list"]) == 0

    header, row, against = capsys.readouterr().out.splitlines()
    assert header.split() == ["REQUEST", "PHASE", "QUEUE", "ASKED", "UNTIL"]
    assert row.split() == ["red/more", "Pending", "team", "4", "GPUs", "2030-01-31T18:00:00Z"]
    assert against == "red/more: queue top above may hold 6 GPU"
    recorded.seen["status"]["phase"] = "Denied"
    assert main.main(["quota", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2, "of one that is over nothing is said"


def test_a_namespace_without_requests_says_so() -> None:
    assert quota.listing([], wide=False) == "There are no requests here."


@pytest.mark.parametrize("text", ["4", "gpus=", "colour=red", "class=H100"])
def test_what_cannot_be_asked_for_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match="write for example gpus=4"):
        quota.more_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus=four", "gpus: 'four' is not well formed; write for example gpus=4"),
        ("gpus=0.4567", "gpus: '0.4567' has more than three decimals; write for example gpus=4"),
        ("gpus=2,guaranteed=1GPU", "guaranteed: '1GPU' is not well formed; write for example guaranteed=2"),
        ("gpus=2,memory=many", "memory: 'many' is not well formed; write for example memory=320Gi"),
    ],
)
def test_an_amount_that_is_none_is_refused_before_the_api_server_answers_with_a_form(text: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        quota.more_of(text)
    assert str(refused.value) == said


def test_what_is_no_name_of_a_request_is_refused_as_that(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["quota", "approve", "a/b/c"]) == 2
    assert "is not the name of a request: give NAME, or NAMESPACE/NAME" in capsys.readouterr().err
