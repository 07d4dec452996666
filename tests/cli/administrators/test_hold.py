"""A hold of a queue is a field that tenants cannot write; a hold of a job is a suspension, and says what it is not."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli import main

OURS = "/apis/cotenant.dev/v1beta1"


class Recorded:
    namespace = "red"

    def __init__(self, annotations: dict[str, str] | None = None) -> None:
        self.patches: list[tuple[str, Any]] = []
        self.annotations = annotations or {}
        self.reasons: list[Any] = []

    def read(self, path: str) -> dict[str, Any]:
        owner = {"kind": "Session", "name": "nb", "controller": True}
        owners = [owner] if path.endswith("nb-session") else []
        return {"metadata": {"uid": "u", "ownerReferences": owners, "annotations": self.annotations}, "spec": {}}

    def patch(self, path: str, body: Any) -> None:
        self.patches.append((path, body["spec"]))
        self.reasons.append((body.get("metadata") or {}).get("annotations"))


@pytest.mark.parametrize(
    ("words", "write", "printed"),
    [
        ("hold queue a --reason rebuilt", (f"{OURS}/queues/a", {"hold": "rebuilt"}), "no job of it starts: rebuilt"),
        ("release queue a", (f"{OURS}/queues/a", {"hold": None}), "its jobs start again"),
        ("hold job t", (f"{OURS}/namespaces/red/trainingjobs/t", {"suspend": True}), "its owner can resume it"),
        ("release job b/t", (f"{OURS}/namespaces/b/trainingjobs/t", {"suspend": False}), "b/t: resumed"),
    ],
)
def test_a_hold_is_one_write(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    write: tuple[str, dict[str, Any]],
    printed: str,
) -> None:
    recorded = Recorded()
    for place in ("administrators.hold", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{place}.connect", lambda _: recorded)
    assert main.main(words.split()) == 0
    assert recorded.patches == [write]
    assert printed in capsys.readouterr().out


REASON = "cotenant.dev/suspend-reason"


@pytest.mark.parametrize(
    ("words", "before", "written"),
    [
        ("hold job t --reason disk", {}, {REASON: "disk"}),
        ("hold job t", {}, None),
        ("hold job t", {REASON: "an older one"}, {REASON: None}),
        ("release job t", {REASON: "disk"}, {REASON: None}),
        ("resume t", {REASON: "disk"}, {REASON: None}),
    ],
)
def test_the_reason_of_a_hold_of_a_job_ends_with_the_hold(
    monkeypatch: pytest.MonkeyPatch, words: str, before: dict[str, str], written: Any
) -> None:
    recorded = Recorded(before)
    for place in ("administrators.hold", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{place}.connect", lambda _: recorded)
    if words.startswith("resume"):
        monkeypatch.setattr(recorded, "read", lambda path: Recorded.read(recorded, path) | {"spec": {"suspend": True}})
    assert main.main(words.split()) == 0
    assert recorded.reasons == [written]


@pytest.mark.parametrize(("verb", "instead"), [("hold", "stop"), ("release", "resume")])
def test_the_job_of_a_session_is_held_by_its_session(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, instead: str
) -> None:
    recorded = Recorded()
    for place in ("administrators.hold", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{place}.connect", lambda _: recorded)
    assert main.main([verb, "job", "nb-session"]) == 1
    assert f"kubectl cotenant session {instead} red/nb" in capsys.readouterr().err
    assert recorded.patches == []


def test_a_hold_of_a_queue_has_a_reason() -> None:
    with pytest.raises(SystemExit):
        main.main(["hold", "queue", "a"])


@pytest.mark.parametrize(
    ("verb", "said"),
    [("hold", "it saves and leaves; its owner can resume it"), ("release", "resume one job")],
)
def test_the_help_of_each_says_what_it_does(capsys: pytest.CaptureFixture[str], verb: str, said: str) -> None:
    with pytest.raises(SystemExit):
        main.main([verb, "--help"])
    assert said in " ".join(capsys.readouterr().out.split())
