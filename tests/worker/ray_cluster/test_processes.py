"""How the end of Ray's processes becomes a verdict."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from cotenant_worker.host.processes import ChildWatcher
from cotenant_worker.ray_cluster.processes import RayProcesses, failure_line
from cotenant_worker.supervision.commands import Finish
from tests.support.pod_sandbox import contract


class RayNode:
    """Ray's node of a pod, played: it ends with `exit`. Its head is resolved."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.signals: list[int] = []

    @property
    def alive(self) -> bool:
        return not self.exit.done()

    def signal(self, number: int) -> None:
        self.signals.append(number)

    def processes(self, node_rank: int) -> RayProcesses:
        job = contract([1, 1], command=("x",), node_rank=node_rank, rendezvous_timeout_s=1)
        return RayProcesses(job, ChildWatcher(), {}, f"10.0.0.{node_rank + 1}")


@pytest.fixture
async def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RayNode:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    node = RayNode(tmp_path)
    monkeypatch.setattr(RayProcesses, "_spawn", lambda *_: node)
    monkeypatch.setattr(RayProcesses, "_resolve_head", AsyncMock(return_value="10.0.0.1"))
    return node


@pytest.mark.looptime
async def test_a_pod_that_ray_leaves_in_the_middle_of_joining_ends_with_the_jobs_patience(played: RayNode) -> None:
    began = asyncio.get_running_loop().time()
    finish = await played.processes(1).run()
    assert asyncio.get_running_loop().time() - began == 2.0
    assert (finish.reason, finish.message) == (
        "RendezvousTimeout",
        "this pod did not get into the job's Ray cluster at pod-0 within 2 s",
    )


LOG = "Traceback (most recent call last):\n\nConnectionError: no GCS   \n"
TAIL = ("Traceback (most recent call last):", "ConnectionError: no GCS")


@pytest.mark.parametrize(
    ("node_rank", "joined", "end", "want"),
    [
        pytest.param(
            *(0, True, (-9, "")),
            Finish(81, "RayDied", "the job's Ray cluster ended: its driver was killed by SIGKILL"),
            id="rank 0's pod",
        ),
        pytest.param(
            *(0, True, (1, LOG)),
            Finish(81, "RayDied", "the job's Ray cluster ended: ConnectionError: no GCS", tail=TAIL),
            id="rank 0's pod, with a reason in the log",
        ),
        pytest.param(
            *(1, False, (1, LOG)),
            Finish(
                80,
                "RendezvousTimeout",
                "this pod could not join the job's Ray cluster at pod-0: ConnectionError: no GCS",
                tail=TAIL,
            ),
            id="a pod that did not join",
        ),
        pytest.param(
            *(1, True, (3, "")),
            Finish(
                82,
                "PeerLost",
                "the pod of rank 0, pod-0, is gone, or this pod's part of the Ray cluster: its node ended with 3",
            ),
            id="a pod that had joined",
        ),
    ],
)
async def test_the_end_of_a_pods_node_is_a_verdict(
    played: RayNode, node_rank: int, joined: bool, end: tuple[int, str], want: Finish
) -> None:
    status, log = end
    (played.state / "ray.log").write_text(log)
    ray = played.processes(node_rank)
    if joined:
        ray.mark_joined()
    played.exit.set_result(status)
    assert await ray.run() == want


async def test_a_head_without_an_address_is_waited_for_until_the_rendezvous_timeout(
    played: RayNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayProcesses, "_resolve_head", AsyncMock(return_value=None))
    finish = await played.processes(1).run()
    assert finish == Finish(80, "RendezvousTimeout", "pod-0 had no address within 1 s")


@pytest.mark.parametrize(
    ("error", "names_dns"), [(socket.EAI_AGAIN, True), (socket.EAI_NONAME, False)], ids=["no answer", "no such name"]
)
async def test_a_dns_server_that_does_not_answer_is_told_with_the_settings_that_name_it(
    played: RayNode, monkeypatch: pytest.MonkeyPatch, error: int, names_dns: bool
) -> None:
    monkeypatch.setattr(RayProcesses, "_resolve_head", AsyncMock(return_value=None))
    ray = played.processes(1)
    ray._lookup_failed = socket.gaierror(error, "Temporary failure in name resolution")
    finish = await ray.run()
    assert (finish.code, finish.reason) == (80, "RendezvousTimeout")
    for setting in ("no DNS server answered", "dns_namespace", "dns_cidrs", "dns_ports"):
        assert (setting in finish.message) is names_dns


async def test_a_node_that_lives_is_drained_by_sigterm(played: RayNode) -> None:
    ray = played.processes(1)
    running = asyncio.create_task(ray.run())
    for _ in range(3):
        await asyncio.sleep(0)
    await ray.drain(deadline_s=0)
    played.exit.set_result(0)
    await running
    await ray.drain(deadline_s=0)
    assert played.signals == [signal.SIGTERM]


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
