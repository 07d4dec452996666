"""`cotenant session`: which writes follow from the words, and which sessions are told apart."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.errors import EXIT_REFUSED
from cotenant.cli.tenants.access import session

OURS = "/apis/cotenant.dev/v1beta1/namespaces/red/sessions/nb"
JOB = "/apis/cotenant.dev/v1beta1/namespaces/red/trainingjobs/nb-session"


class Recorded:
    """One session, and its job if that is there."""

    namespace = "red"

    def __init__(self, phase: str, *, suspend: bool = False, job_phase: str | None = None) -> None:
        self.writes: list[tuple[str, str, Any]] = []
        self.session = {
            "metadata": {"name": "nb", "namespace": "red", "resourceVersion": "7", "uid": "u1"},
            "spec": {"application": "JupyterLab", "queue": "red", "suspend": suspend, "volume": {"claimName": "home"}},
            "status": {"phase": phase, "job": "nb-session", "message": "it says why"},
        }
        self.job_phase = job_phase

    def read(self, path: str) -> Any:
        if path == OURS:
            return self.session
        if path == JOB and self.job_phase is not None:
            return {"metadata": {"name": "nb-session", "uid": "j1"}, "status": {"phase": self.job_phase}}
        assert path == OURS.removesuffix("/nb"), path
        return {"items": [self.session]}

    def patch(self, path: str, body: Any) -> Any:
        self.writes.append(("PATCH", path, body))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.writes.append((method, path, body))


def typed(monkeypatch: pytest.MonkeyPatch, there: Recorded, *words: str) -> list[tuple[str, str, Any]]:
    for place in ("tenants.access.session", "terminal.object_names"):
        monkeypatch.setattr(f"cotenant.cli.{place}.connect", lambda _: there)
    monkeypatch.setattr(session, "exists", lambda *_: there.job_phase is not None)
    assert main.main(["session", *words]) == 0
    return there.writes


DELETED = ("DELETE", JOB, {"preconditions": {"uid": "j1"}})


def suspended(value: bool) -> tuple[str, str, Any]:
    return "PATCH", OURS, {"metadata": {"uid": "u1"}, "spec": {"suspend": value}}


@pytest.mark.parametrize(
    ("there", "words", "writes"),
    [
        (Recorded("Running"), "stop nb", [suspended(True)]),
        (Recorded("Running"), "stop session.cotenant.dev/nb", [suspended(True)]),
        (Recorded("Running"), "stop ses/red/nb", [suspended(True)]),
        (Recorded("Suspended", suspend=True), "stop red/nb", []),
        (Recorded("Suspended", suspend=True, job_phase="Suspended"), "resume nb", [suspended(False)]),
        (Recorded("Running", job_phase="Running"), "resume nb", []),
        (Recorded("Ended", job_phase="Succeeded"), "resume nb", [DELETED]),
        (
            Recorded("Suspended", suspend=True, job_phase="Failed"),
            "resume nb",
            [DELETED, suspended(False)],
        ),
    ],
    ids=[
        "stop",
        "as -o name prints it",
        "by its short name",
        "stopped before",
        "resume",
        "runs",
        "start anew what ended",
        "and what was suspended then",
    ],
)
def test_stop_and_resume_write_what_is_missing_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, there: Recorded, words: str, writes: list[tuple[str, str, Any]]
) -> None:
    assert typed(monkeypatch, there, *words.split()) == writes


def test_the_list_shows_what_each_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(monkeypatch, Recorded("Running"), "list") == []
    assert capsys.readouterr().out.split()[-7:] == ["red/nb", "JupyterLab", "red", "Running", "-", "-", "-"]


@pytest.mark.parametrize("phase", ["Suspended", "Ended", "Failed"])
def test_one_that_will_not_run_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], phase: str
) -> None:
    there = Recorded(phase, suspend=phase == "Suspended", job_phase="Failed")
    monkeypatch.setattr("cotenant.cli.terminal.object_names.connect", lambda _: there)
    assert main.main(["session", "open", "nb"]) == EXIT_REFUSED
    assert capsys.readouterr().err == f"cotenant: red/nb is {phase}: it says why\n"


@pytest.mark.parametrize("phase", ["Suspended", "Ended", "Failed"])
def test_one_that_was_resumed_a_moment_ago_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], phase: str
) -> None:
    monkeypatch.setattr("cotenant.cli.terminal.object_names.connect", lambda _: Recorded(phase))
    monkeypatch.setattr(session, "exists", lambda *_: False)
    assert main.main(["session", "open", "nb", "--timeout", "0"]) == EXIT_REFUSED
    assert f"red/nb is {phase} after 0 s: it says why" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("application", "text"),
    [
        ("JupyterLab", "http://127.0.0.1:9/sessions/red/nb/app/lab?token=t"),
        ("CodeServer", "http://127.0.0.1:9/sessions/red/nb/app/   password: t"),
        ("Program", "http://127.0.0.1:9/sessions/red/nb/app/"),
    ],
)
def test_the_address_has_what_the_application_asks_for(application: str, text: str) -> None:
    assert session.address(application, {"path": "/sessions/red/nb/app/", "token": "t"}, 9) == text
