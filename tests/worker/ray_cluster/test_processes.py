"""How the end of Ray's processes becomes a verdict."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from cotenant_worker.host.processes import ChildWatcher
from cotenant_worker.ray_cluster.processes import RayProcesses, failure_line
from tests.support.pod_sandbox import contract


async def test_a_pod_that_ray_leaves_in_the_middle_of_joining_ends_with_the_jobs_patience(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    job = contract([1, 1], command=("x",), node_rank=1, rendezvous_timeout_s=1)
    node = SimpleNamespace(exit=asyncio.get_running_loop().create_future(), alive=True)
    monkeypatch.setattr(RayProcesses, "_spawn", lambda *_: node)
    monkeypatch.setattr(RayProcesses, "_resolve_head", AsyncMock(return_value="10.0.0.1"))
    finish = await RayProcesses(job, ChildWatcher(), {}, "10.0.0.2").run()
    assert (finish.reason, finish.message) == (
        "RendezvousTimeout",
        "this pod did not get into the job's Ray cluster at pod-0 within 2 s",
    )


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param(("2026 INFO started", "cotenant: raylet ended with -9"), "raylet ended with -9", id="ours"),
        pytest.param(
            ("Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "ConnectionError: no GCS", ""),
            "ConnectionError: no GCS",
            id="the end of a traceback",
        ),
        pytest.param(
            ("ray.exceptions.RaySystemError: it broke",), "ray.exceptions.RaySystemError: it broke", id="dotted"
        ),
        pytest.param(("2026 INFO started", "  retrying"), "", id="nothing that explains it"),
    ],
)
def test_the_reason_is_found_in_the_last_lines_of_a_log(lines: tuple[str, ...], want: str) -> None:
    assert failure_line(lines) == want
