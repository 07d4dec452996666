"""The way from a kubeconfig to the API of questions, and what its refusals are to a person and to a script."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.cli import main
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.connection import Connection
from cotenant.sdk.api_session import ApiSession
from cotenant.sdk.errors import AccessDeniedError
from cotenant.sdk.kubeconfig import load

ANSWER = {"kind": "Explanation", "metadata": {"name": "a", "namespace": "red"}, "status": {"standing": "Admitted"}}


class ApiServer(HTTPServer):
    """Answers every request with `answer`, and keeps what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: tuple[int, bytes] = 200, json.dumps(ANSWER).encode()
        self.asked: list[tuple[str, str | None]] = []
        self.accepted = ""
        """The only token that is not refused; empty: every token."""
        self.date = ""
        """The header `Date` of each answer; empty: the time of this machine."""


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        code, body = self.server.answer
        if self.server.accepted not in ("", self.headers.get("Authorization", "").removeprefix("Bearer ")):
            code, body = 401, b'{"kind": "Status", "message": "Unauthorized"}'
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return self.server.date or super().date_time_string(timestamp)

    def log_message(self, *_: Any) -> None:
        """Nothing goes to the terminal."""


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def kubeconfig(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    clusters = [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}]
    users = [{"name": name, "user": {"token": f"token-of-{name}"}} for name in ("alice", "bob")]
    contexts = [
        {"name": "usual", "context": {"cluster": "c", "user": "alice", "namespace": "red"}},
        {"name": "other", "context": {"cluster": "c", "user": "bob"}},
    ]
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump({"clusters": clusters, "users": users, "contexts": contexts, "current-context": "usual"})
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "there-is-none"))
    return path


def path_of(namespace: str, name: str) -> str:
    return f"/apis/query.cotenant.dev/v1alpha1/namespaces/{namespace}/explanations/{name}"


@pytest.mark.parametrize(
    ("words", "path", "token"),
    [
        (["a"], path_of("red", "a"), "alice"),
        (["a", "-n", "blue"], path_of("blue", "a"), "alice"),
        (["green/a", "-n", "blue"], path_of("green", "a"), "alice"),
        (["tj/a"], path_of("red", "a"), "alice"),
        (["trainingjob.cotenant.dev/a"], path_of("red", "a"), "alice"),
        (["a", "--context", "other"], path_of("default", "a"), "bob"),
        (["a?watch=1"], path_of("red", "a%3Fwatch%3D1"), "alice"),
    ],
)
def test_the_namespace_and_the_person_are_those_of_kubectl(
    api: ApiServer, kubeconfig: Path, words: list[str], path: str, token: str
) -> None:
    assert main.main(["why", *words, "--kubeconfig", str(kubeconfig)]) == 0
    assert api.asked == [(path, f"Bearer token-of-{token}")]


def test_the_age_of_a_job_is_by_the_clock_of_the_cluster(
    api: ApiServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "ahead", timedelta())
    status = {"standing": "Admitted", "queue": "red", "submittedAt": "2100-01-01T00:00:00Z"}
    items = [{"metadata": {"name": "a", "namespace": "red"}, "status": status}]
    api.answer, api.date = (200, json.dumps({"items": items}).encode()), "Fri, 01 Jan 2100 00:10:00 GMT"
    assert main.main(["ps", "--kubeconfig", str(kubeconfig)]) == 0
    assert capsys.readouterr().out.split()[-1] == "10m"


@pytest.fixture
def plugged(kubeconfig: Path, tmp_path: Path) -> Path:
    """The same kubeconfig with a plugin that gives `t1`, then `t2` and so on, and does not say for how long."""
    runs = str(tmp_path / "runs")
    code = f"import json; open({runs!r}, 'a').write('.'); n = len(open({runs!r}).read())"
    code += "; print(json.dumps({'status': {'token': f't{n}'}}))"
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"] = [{"name": "alice", "user": {"exec": {"command": sys.executable, "args": ["-c", code]}}}]
    kubeconfig.write_text(yaml.safe_dump(document))
    return kubeconfig


@pytest.mark.parametrize(
    ("accepted", "code", "tokens"), [("t1", 0, ["t1"]), ("t2", 0, ["t1", "t2"]), ("t3", 4, ["t1", "t2"])]
)
def test_a_plugin_is_asked_once_more_if_its_token_is_refused(
    api: ApiServer, plugged: Path, accepted: str, code: int, tokens: list[str]
) -> None:
    api.accepted = accepted
    assert main.main(["why", "a", "--kubeconfig", str(plugged)]) == code
    assert [authorization for _, authorization in api.asked] == [f"Bearer {token}" for token in tokens]


def test_a_log_that_is_opened_again_asks_the_plugin_once_more(api: ApiServer, plugged: Path) -> None:
    api.accepted, api.answer = "t2", (200, b"step 1\n")
    connection = Connection(load(str(plugged), None), "red", timeout_s=5.0)
    assert b"".join(connection.stream("/log", endless=True)) == b"step 1\n"


async def test_the_sdk_asks_the_plugin_once_more_too(api: ApiServer, plugged: Path) -> None:
    session = ApiSession(load(str(plugged), None))
    api.answer = 200, b'{"items": []}'
    try:
        for api.accepted in ("t1", "t2"):
            assert await session.request("GET", "/api") == {"items": []}
        api.accepted = "t4"
        with pytest.raises(AccessDeniedError, match="Unauthorized"):
            await session.request("GET", "/api")
    finally:
        await session.close()
    assert [authorization for _, authorization in api.asked] == [f"Bearer t{n}" for n in (1, 1, 2, 2, 3)]


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ((404, b"404 page not found"), (5, "this cluster's operator answers no such questions")),
        ((404, b'{"kind": "Status", "message": "job not found"}'), (3, "job not found")),
        (
            (404, b'{"kind": "Status", "message": "trainingjobs.cotenant.dev \\"a\\" not found"}'),
            (3, "cotenant: there is no job a in namespace red: `kubectl get trainingjobs -n red` lists those"),
        ),
        ((403, b'{"kind": "Status", "message": "User cannot get"}'), (4, "User cannot get")),
        (
            (
                403,
                b'{"kind": "Status", "message": "User \\"al\\" cannot get resource x in the namespace \\"b\\"",'
                b' "details": {"kind": "explanations"}}',
            ),
            (4, 'The ClusterRole view in that namespace allows it: ask whoever manages "b".'),
        ),
        (
            (403, b'{"kind": "Status", "message": "User cannot list", "details": {"kind": "queuetrees"}}'),
            (4, "Your own queue: `kubectl cotenant offer`"),
        ),
        (
            (403, b'{"kind": "Status", "message": "User cannot patch resource", "details": {"kind": "quotarequests"}}'),
            (4, "Ask an administrator, who is bound to the ClusterRole cotenant-administrator."),
        ),
        (
            (403, b'{"kind": "Status", "message": "cannot list at the cluster scope", "details": {"kind": "runs"}}'),
            (4, "Without -A you see your own namespace"),
        ),
        (
            (422, b'{"kind": "Status", "message": "spec.gpu: is 2; write `spec.gpu: {}`; spec.env[0].name: is 3"}'),
            (1, "cotenant: spec.gpu: is 2; write `spec.gpu: {}`\nspec.env[0].name: is 3"),
        ),
        ((401, b'{"kind": "Status", "message": "Unauthorized"}'), (4, "Unauthorized")),
        ((503, b"service unavailable\n"), (5, "its leader may be changing: ask again in some seconds")),
        ((500, b"<html>"), (1, "refused the question (500): <html>")),
        (
            (502, b'{"kind": "Status", "reason": "BadGateway", "message": "cluster west: it does not answer"}'),
            (5, "cotenant: cluster west: it does not answer"),
        ),
        (
            (
                429,
                b'{"kind": "Status", "reason": "TooManyRequests", "message": "Cannot evict pod", "details": {"causes":'
                b' [{"reason": "DisruptionBudget", "message": "The disruption budget all needs 2 healthy pods"}]}}',
            ),
            (1, "a PodDisruptionBudget does not allow it now (The disruption budget all needs 2 healthy pods)"),
        ),
    ],
    ids=[
        "no such API",
        "another answer",
        "no such job",
        "may not",
        "may not in that namespace",
        "may not see queues",
        "may not answer requests",
        "may not see all namespaces",
        "a line for each field",
        "unknown",
        "no leader",
        "broken",
        "another cluster",
        "a disruption budget",
    ],
)
def test_every_refusal_has_a_sentence_and_an_exit_code(
    api: ApiServer,
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    answer: tuple[int, bytes],
    refusal: tuple[int, str],
) -> None:
    api.answer = answer
    exit_code = main.main(["why", "a", "--kubeconfig", str(kubeconfig)])
    code, sentence = refusal
    assert (exit_code, sentence in capsys.readouterr().err) == (code, True)


@pytest.mark.parametrize("words", [["a/b/c"], ["red/"], [""]])
def test_what_is_no_name_is_refused_before_anybody_is_asked(
    api: ApiServer, kubeconfig: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main.main(["why", *words, "--kubeconfig", str(kubeconfig)]) == 2
    assert (api.asked, "give NAME, or NAMESPACE/NAME" in capsys.readouterr().err) == ([], True)


def test_without_a_cluster_the_message_names_the_way_to_one(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["why", "a"]) == 2
    assert "set KUBECONFIG, or give --kubeconfig" in capsys.readouterr().err


def test_an_api_server_that_is_not_there_is_named(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace("http://127.0.0.1:", "http://127.0.0.1:1"))
    assert main.main(["why", "a", "--kubeconfig", str(kubeconfig)]) == 5
    assert "is not reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "first"),
    [("json", "{"), ("yaml", "kind: Explanation"), ("name", "trainingjob.cotenant.dev/a"), ("text", "red/a does not")],
)
def test_an_answer_is_printed_as_asked(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], form: str, first: str
) -> None:
    assert main.main(["why", "a", "-o", form, "--kubeconfig", str(kubeconfig)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(first), out
    if form in {"json", "yaml"}:
        assert yaml.safe_load(out) == ANSWER
