"""The operator's own APIService: whom the API server trusts there, and who is told when it is not reached."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cotenant.controller.client.kube import API_SERVICES
from cotenant.controller.informers.job_record import JobId
from cotenant.controller.leader.leadership import Leadership
from cotenant.controller.lifecycle.observation import EventToRecord
from cotenant.controller.query_api.api_service import NAME, PATIENCE_S, ApiServiceKeeper
from cotenant.controller.query_api.own_certificate import OwnCertificate
from cotenant.controller.telemetry.metrics import Metrics
from cotenant.serving.self_signed import SelfSigned
from tests.support.fake_kube import FakeKube

BLOCKED = {
    "type": "Available",
    "status": "False",
    "reason": "FailedDiscoveryCheck",
    "message": "failing or missing response from https://10.1.2.3:10250: context deadline exceeded",
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Recorded(list[tuple[str, str]]):
    def record(self, job: JobId, event: EventToRecord, *, kind: str, api_version: str) -> None:
        assert (job.name, kind, api_version, event.warning) == (NAME, "APIService", "apiregistration.k8s.io/v1", True)
        self.append((event.reason, event.message))


class World:
    """A keeper, its clock, and what it told."""

    def __init__(self, condition: dict[str, Any] | None, own: OwnCertificate | None = None) -> None:
        self.kube, self.told, self.metrics, self.now = FakeKube(), Recorded(), Metrics(), 0.0
        if condition is not None:
            self.put(condition)
        self.keeper = ApiServiceKeeper(
            kube=self.kube,
            port=10250,
            recorder=self.told,
            metrics=self.metrics,
            leadership=Leadership(lambda: True),
            own=own,
            clock=lambda: self.now,
        )

    def put(self, condition: dict[str, Any]) -> None:
        document = {"metadata": {"name": NAME}, "spec": {"group": "g"}, "status": {"conditions": [condition]}}
        self.kube.put(API_SERVICES, document)

    async def look(self, now: float) -> None:
        self.now = now
        await self.keeper.look()

    @property
    def is_available(self) -> float | None:
        return self.metrics.registry.get_sample_value("cotenant_query_available")


async def test_who_cannot_be_reached_says_so_once_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    world = World(BLOCKED)
    for now in (0.0, PATIENCE_S / 2, PATIENCE_S, PATIENCE_S + 60):
        await world.look(now)
    ((reason, message),) = world.told
    assert reason == "QueryAPIUnavailable"
    for part in ("context deadline exceeded", "no namespace", "10250", "hostNetwork", "query.enabled=false"):
        assert part in message
    assert caplog.messages == [message]
    assert world.is_available == 0


async def test_it_is_told_within_a_minute_and_not_at_a_change_of_the_leader() -> None:
    world = World(BLOCKED)
    await world.look(0.0)
    await world.look(PATIENCE_S - 1)
    world.put({"type": "Available", "status": "True"})
    await world.look(PATIENCE_S)
    world.put(BLOCKED)
    await world.look(PATIENCE_S + 1)
    assert (list(world.told), world.is_available) == ([], 1)
    assert PATIENCE_S < 60


async def test_an_apiservice_that_is_left_out_is_told_with_what_leaves_it_out(caplog: pytest.LogCaptureFixture) -> None:
    world = World(None)
    await world.look(0.0)
    assert ["GitOps" in message for _, message in world.told] == [True]
    assert world.is_available == 0


async def test_the_leader_writes_its_certificate_and_again_only_when_it_is_another(tmp_path: Path) -> None:
    now = [NOW]
    own = OwnCertificate(tmp_path, "cotenant-query.system.svc", clock=lambda: now[0])
    world = World({"type": "Available", "status": "True"}, own)
    await world.look(0.0)
    await world.look(1.0)
    first = (tmp_path / "tls.crt").read_bytes()
    assert trusted(world) == first
    assert len([call for call in world.kube.calls if call.startswith("PATCH")]) == 1
    now[0] += timedelta(days=300)
    await world.look(2.0)
    second = (tmp_path / "tls.crt").read_bytes()
    assert trusted(world) == second + first
    assert SelfSigned(second, (tmp_path / "tls.key").read_bytes()).serves(["cotenant-query.system.svc"], now[0])


async def test_a_mounted_certificate_is_somebody_elses_to_write() -> None:
    world = World({"type": "Available", "status": "True"})
    await world.look(0.0)
    assert not [call for call in world.kube.calls if call.startswith("PATCH")]


def trusted(world: World) -> bytes:
    return base64.b64decode((world.kube.stored(API_SERVICES, NAME) or {})["spec"]["caBundle"])
