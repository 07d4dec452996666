"""A drain says what it would do, cordons, evicts the pods of jobs alone, and waits until they are really gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cotenant.cli.administrators import drain
from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.connection import Connection


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


class Cluster:
    """One node with the pods of two jobs; `left` says after how many looks they have left. `silent`: its agent is gone,
    and its last report stays."""

    def __init__(
        self, left: int = 1, *, refused: str = "", refusals: int = 99, code: int = EXIT_REFUSED, silent: bool = False
    ) -> None:
        """The eviction `refused` is refused `refusals` times."""
        self.left, self.refused, self.silent = left, refused, silent
        self.refusals, self.code = refusals, code
        self.done: list[tuple[str, Any]] = []

    def read(self, path: str) -> dict[str, Any]:
        if "/pods" in path:
            assert "fieldSelector=spec.nodeName=n1&labelSelector=app.kubernetes.io/managed-by=cotenant" in path
            running = {"status": {"phase": "Running"}}
            jobs = ("a", "b") if self.left >= 0 else ()
            pods = [{"metadata": metadata_of(job)} | running for job in jobs]
            return {"items": [*pods, {"metadata": {"namespace": "red", "name": "over"}, "status": {"phase": "Failed"}}]}
        self.left -= 1
        beat = "2020-01-01T00:00:00Z" if self.silent else "9999-01-01T00:00:00Z"
        holders = [{"namespace": "red", "job": "a"}] if self.left >= 0 or self.silent else []
        return {"status": {"heartbeat": beat, "holders": holders}}

    def patch(self, path: str, body: Any) -> None:
        self.done.append((path, body))

    def call(self, method: str, path: str, body: Any) -> None:
        if path == self.refused and self.refusals:
            self.refusals -= 1
            raise UserError("a budget forbids it", self.code)
        self.done.append((method, path))

    def post(self, _: str, body: Any) -> dict[str, Any]:
        raise UserError("no operator", EXIT_UNAVAILABLE)


def metadata_of(job: str) -> dict[str, Any]:
    return {"namespace": "red", "name": f"{job}-1-0", "labels": {"cotenant.dev/job": job}}


def evictions(*pods: str) -> list[tuple[str, str]]:
    return [("POST", f"/api/v1/namespaces/red/pods/{pod}/eviction") for pod in pods]


def test_pods_of_jobs_are_evicted_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(left=2)
    assert drain.drain(cast("Connection", cluster), "n1", 60.0) == 0
    assert cluster.done == [
        ("/api/v1/nodes/n1", {"spec": {"unschedulable": True}}), *evictions("a-1-0", "b-1-0")
    ]  # fmt: skip
    assert "no job holds anything" in capsys.readouterr().out


def test_what_does_not_leave_is_named_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert drain.drain(cast("Connection", Cluster(left=99)), "n1", 10.0) == 1
    assert "still held by red/a" in capsys.readouterr().out


def test_where_the_agent_is_silent_pods_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert drain.drain(cast("Connection", Cluster(left=99, silent=True)), "n1", 10.0) == 1
    assert "still held by red/a, red/b" in capsys.readouterr().out
    assert drain.drain(cast("Connection", Cluster(left=2, silent=True)), "n1", 60.0) == 0
    assert "no pod of a job is left; its agent is silent" in capsys.readouterr().out


def test_an_eviction_that_a_budget_forbids_is_tried_again_until_it_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster(left=3, refused="/api/v1/namespaces/red/pods/a-1-0/eviction", refusals=2)
    assert drain.drain(cast("Connection", cluster), "n1", 60.0) == 0
    assert cluster.done[1:] == evictions("b-1-0", "a-1-0")
    said = "red/a-1-0: a budget forbids it; it is tried again while this command waits"
    assert capsys.readouterr().err.count(said) == 1


def test_a_pod_that_has_left_by_itself_is_not_evicted_again(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(refused="/api/v1/namespaces/red/pods/a-1-0/eviction", code=EXIT_NOT_FOUND)
    assert drain.drain(cast("Connection", cluster), "n1", 60.0) == 0
    assert (cluster.done[1:], capsys.readouterr().err) == (evictions("b-1-0"), "")


def test_without_the_operator_a_drain_is_still_possible(capsys: pytest.CaptureFixture[str]) -> None:
    drain.tell(cast("Connection", Cluster()), "n1")
    assert "what it would do is not known: no operator" in capsys.readouterr().err
