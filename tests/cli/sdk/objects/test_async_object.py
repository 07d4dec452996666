"""What all objects of a namespace have in common, from Python."""

from __future__ import annotations

import pytest

from cotenant.controller.client import kube
from cotenant.sdk.errors import MissingObjectError
from cotenant.sdk.objects.async_object import AsyncObject
from cotenant.sdk.objects.async_session import AsyncSession
from cotenant.sdk.objects.async_sweep import AsyncSweep
from tests.cli.sdk.served_kube import ServedKube


@pytest.mark.parametrize(("kind", "resource"), [(AsyncSweep, kube.SWEEPS), (AsyncSession, kube.SESSIONS)])
async def test_one_that_came_later_under_the_same_name_is_another(
    kind: type[AsyncObject], resource: kube.Resource
) -> None:
    served = ServedKube()
    served.kube.put(resource, {"metadata": {"name": "one", "namespace": "team-a", "uid": "u2"}, "spec": {}})
    first = kind(served, "team-a", "one", "u1")  # type: ignore[arg-type]
    with pytest.raises(MissingObjectError, match=f"another {kind.KIND} has its name now"):
        await first.document()
    with pytest.raises(MissingObjectError, match="was deleted before it"):
        await first.wait(5)
