"""A session made, awaited, stopped and started anew from Python."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.controller.client import kube
from cotenant.sdk.async_client import AsyncClient
from cotenant.sdk.errors import InvalidJobError, JobFailedError, JobTimeoutError
from cotenant.sdk.objects.async_session import AsyncSession
from tests.cli.sdk.served_kube import ServedKube


def put(served: ServedKube, *, suspend: bool = False, **status: Any) -> AsyncSession:
    metadata = {"name": "nb", "namespace": "team-a", "uid": "u1"}
    served.kube.put(kube.SESSIONS, {"metadata": metadata, "spec": {"suspend": suspend}, "status": status})
    return AsyncSession(served, "team-a", "nb", "u1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "spec"),
    [
        ({}, {"gpu": {"count": 1}}),
        ({"gpu": "1/4"}, {"gpu": {"memoryFraction": "0.25"}}),
        ({"profile": "small"}, {"profile": "small"}),
        ({"profile": "small", "gpu": 1}, {"profile": "small", "gpu": {"count": 1}}),
        (
            {"image": "lab:1", "volume": "home", "spec": {"idleTimeout": "30m"}},
            {"gpu": {"count": 1}, "image": "lab:1", "volume": {"claimName": "home"}, "idleTimeout": "30m"},
        ),
    ],
)
async def test_a_session_is_what_was_asked_for(
    client: AsyncClient, served: ServedKube, asked: dict[str, Any], spec: dict[str, Any]
) -> None:
    await client.session("JupyterLab", name="nb", **asked)
    document = served.kube.stored(kube.SESSIONS, "nb", "team-a")
    assert document is not None
    assert document["spec"] == {"application": "JupyterLab", "queue": "vision"} | spec


async def test_an_application_that_is_none_is_refused_before_anything_is_sent(
    client: AsyncClient, served: ServedKube
) -> None:
    with pytest.raises(InvalidJobError, match=r"spec\.application"):
        await client.session("RStudio", name="nb")
    with pytest.raises(InvalidJobError, match="gpu"):
        await client.session("Shell", name="nb", gpu="3/2")
    assert served.asked == []


async def test_one_that_does_not_come_to_run_says_why(served: ServedKube) -> None:
    assert (await put(served, phase="Running", port=8888).ready(5))["port"] == 8888
    with pytest.raises(JobFailedError, match="IdleTimeout: it was idle"):
        await put(served, phase="Suspended", reason="IdleTimeout", message="it was idle").ready(5)
    with pytest.raises(JobTimeoutError, match="has not come to run after 0 s"):
        await put(served, phase="Pending").ready(0)


async def test_the_status_from_before_it_was_resumed_is_not_its_end(served: ServedKube) -> None:
    session = put(served, suspend=True, phase="Suspended", observedGeneration=1)
    assert session.has_come(await session.document())
    await session.resume()
    assert not session.has_come(await session.document())


async def test_one_that_was_stopped_goes_on_and_one_that_ended_is_started_anew(served: ServedKube) -> None:
    session = put(served, suspend=True, phase="Suspended", job="nb-session")
    await session.resume()
    assert served.kube.stored(kube.SESSIONS, "nb", "team-a")["spec"] == {"suspend": False}  # type: ignore[index]
    job = {"metadata": {"name": "nb-session", "namespace": "team-a", "uid": "j1"}, "status": {"phase": "Running"}}
    served.kube.put(kube.TRAINING_JOBS, job)
    await put(served, phase="Failed", job="nb-session").resume()
    assert served.kube.stored(kube.TRAINING_JOBS, "nb-session", "team-a") is not None, "it runs again already"
    served.kube.put(kube.TRAINING_JOBS, job | {"status": {"phase": "Failed"}})
    await put(served, phase="Failed", job="nb-session").resume()
    assert served.kube.stored(kube.TRAINING_JOBS, "nb-session", "team-a") is None
