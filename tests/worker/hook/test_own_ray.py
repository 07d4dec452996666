"""`ray.init` of a program that runs once per rank. A stand-in for Ray's module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import own_ray
from cotenant_worker.hook.cotenant_shim.launcher_client import launcher


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    monkeypatch.setattr(launcher, "warn", lambda key, text: texts.append(f"{key}: {text}"))
    return texts


def hooked(monkeypatch: pytest.MonkeyPatch, ranks: int, **env: str) -> Any:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    own = {"COTENANT_RANK": "0", "COTENANT_RANKS": str(ranks)} if ranks else {}
    for name, value in {**own, **env}.items():
        monkeypatch.setenv(name, value)
    module = SimpleNamespace(init=lambda address=None, **options: (address, options))
    own_ray.after_ray_worker(module)
    return module.init


@pytest.mark.parametrize(
    ("ranks", "given", "env"),
    [
        pytest.param(1, None, {}, id="the only rank"),
        pytest.param(1, "auto", {}, id="the only rank, whose script may have started a cluster"),
        pytest.param(0, "auto", {}, id="a program of mode rayTrain, which is no rank"),
        pytest.param(2, "10.9.9.9:6379", {}, id="a cluster that the program knows"),
        pytest.param(2, None, {"RAY_ADDRESS": "10.9.9.9:6379"}, id="one that its environment names"),
    ],
)
def test_a_ray_that_is_meant_so_is_started_as_the_program_says(
    monkeypatch: pytest.MonkeyPatch, warned: list[str], ranks: int, given: str | None, env: dict[str, str]
) -> None:
    assert hooked(monkeypatch, ranks, **env)(given, num_cpus=2) == (given, {"num_cpus": 2})
    assert warned == []


@pytest.mark.parametrize("given", [None, "local"])
def test_ranks_that_each_start_a_ray_of_their_own_are_told(
    monkeypatch: pytest.MonkeyPatch, warned: list[str], given: str | None
) -> None:
    assert hooked(monkeypatch, 2)(given) == (given, {})
    [text] = warned
    assert text.startswith("ray-clusters: each of the 2 ranks starts a Ray cluster of its own")
    assert "runtime.rayTrain: true" in text


def test_the_jobs_own_ray_is_not_found_and_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match=r"rank 0 finds no Ray cluster.*set runtime\.rayTrain: true"):
        hooked(monkeypatch, 2)("auto")


class RayTaskError(Exception):
    """As Ray's: the exception of a task, with its traceback as text."""

    __module__ = "ray.exceptions"

    def __init__(self, cause: BaseException, traceback_str: str) -> None:
        super().__init__(traceback_str)
        self.cause, self.traceback_str = cause, traceback_str


class WorkerGroupError(Exception):
    __module__ = "ray.train.v2.api.exceptions"

    def __init__(self, failures: dict[int, BaseException]) -> None:
        super().__init__("Training failed due to worker errors")
        self.worker_failures = failures


REMOTE = 'ray::load()\n  File "/opt/lib.py", line 3, in call\n  File "/workspace/train.py", line 9, in load\nValueError'
EMPTY = ValueError("empty")
FRAMES = [("/opt/lib.py", 3, "call"), ("/workspace/train.py", 9, "load")]


@pytest.mark.parametrize(
    ("error", "found"),
    [
        pytest.param(RayTaskError(EMPTY, REMOTE), (EMPTY, FRAMES), id="of a task"),
        pytest.param(
            WorkerGroupError({1: RuntimeError("later"), 0: RayTaskError(EMPTY, REMOTE)}),
            (EMPTY, FRAMES),
            id="of the first worker of Ray Train",
        ),
        pytest.param(EMPTY, (EMPTY, []), id="any other"),
    ],
)
def test_of_an_exception_that_ray_brings_the_programs_own_is_told(error: BaseException, found: Any) -> None:
    assert own_ray.brought(error) == found
