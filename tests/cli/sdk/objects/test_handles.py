"""Sweeps and sessions without an event loop."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from cotenant.controller.client import kube
from cotenant.sdk.background_loop import BackgroundLoop
from cotenant.sdk.objects.async_session import AsyncSession
from cotenant.sdk.objects.async_sweep import AsyncSweep
from cotenant.sdk.objects.handles import SessionHandle, SweepHandle
from tests.cli.sdk.served_kube import ServedKube

METADATA = {"name": "one", "namespace": "team-a", "uid": "u1"}


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    made = BackgroundLoop()
    yield made
    made.close()


def test_a_sweep_is_read_and_stopped(loop: BackgroundLoop) -> None:
    served = ServedKube()
    status = {"phase": "Succeeded", "trials": {"0": {"value": 0.5}}, "best": {"trial": 0, "job": "one-0", "value": 0.5}}
    served.kube.put(kube.SWEEPS, {"metadata": METADATA, "spec": {}, "status": status})
    sweep = SweepHandle(AsyncSweep(served, "team-a", "one", "u1"), loop)  # type: ignore[arg-type]
    assert (sweep.phase, repr(sweep)) == ("Succeeded", "Sweep(team-a/one)")
    best = sweep.best()
    assert best == sweep.result(5)
    assert best is not None
    assert (best.job, [one.value for one in sweep.trials()]) == ("one-0", [0.5])
    sweep.stop()
    assert served.kube.stored(kube.SWEEPS, "one", "team-a")["spec"] == {"suspend": True}  # type: ignore[index]
    sweep.delete()
    assert served.kube.stored(kube.SWEEPS, "one", "team-a") is None


def test_a_session_is_opened_on_this_machine_and_a_shell_is_not(loop: BackgroundLoop) -> None:
    served = ServedKube()
    document = {"metadata": METADATA, "spec": {"application": "JupyterLab"}, "status": {"phase": "Running"}}
    served.kube.put(kube.SESSIONS, document)
    prints = (
        sys.executable,
        "-c",
        "import sys; print('http://127.0.0.1:1/', *sys.argv[1:]); print('Forwarding from 127.0.0.1:1')",
    )
    session = SessionHandle(AsyncSession(served, "team-a", "one", "u1"), loop, prints)  # type: ignore[arg-type]
    assert session.ready(5) == {"phase": "Running"}
    with session.opened() as address:
        assert address == "http://127.0.0.1:1/"
    served.kube.put(kube.SESSIONS, document | {"spec": {"application": "Shell"}})
    with pytest.raises(ValueError, match="kubectl cotenant session open one"):
        session.opened()
