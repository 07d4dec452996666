"""Secrets that the chart makes empty are filled with certificates, and filled again before these end."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cotenant.controller.client.kube import SECRETS
from cotenant.controller.reports.certificate_secrets import CertificateSecrets
from cotenant.serving.self_signed import SelfSigned
from cotenant.serving.served_secrets import ServedSecret
from tests.support.fake_kube import FakeKube

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SERVERS = ("cotenant-operator.system.svc", "cotenant-agent.system.svc")
SECRET = ServedSecret(namespace="system", name="serving", servers=SERVERS)


def data_of(made: SelfSigned) -> dict[str, str]:
    files = {"tls.crt": made.certificate, "tls.key": made.key}
    return {name: base64.b64encode(text).decode() for name, text in files.items()}


@pytest.mark.parametrize(
    ("data", "is_written"),
    [
        (None, True),
        ({"tls.crt": "", "tls.key": ""}, True),
        ({"tls.crt": "bm9uZQ==", "tls.key": "?"}, True),
        (data_of(SelfSigned.made(SERVERS, NOW)), False),
        (data_of(SelfSigned.made(SERVERS[:1], NOW)), True),
        (data_of(SelfSigned.made(SERVERS, NOW - timedelta(days=250))), True),
        (data_of(SelfSigned.made(SERVERS, NOW + timedelta(days=1))), True),
        (data_of(SelfSigned.made(SERVERS, NOW)) | {"tls.key": data_of(SelfSigned.made(SERVERS, NOW))["tls.key"]}, True),
    ],
    ids=[
        "without data",
        "empty",
        "nonsense",
        "valid",
        "another name",
        "near its end",
        "of the future",
        "another's key",
    ],
)
async def test_a_secret_without_a_certificate_that_serves_gets_one(data: Any, is_written: bool) -> None:
    kube = FakeKube()
    kube.put(SECRETS, {"metadata": {"name": "serving", "namespace": "system"}, **({"data": data} if data else {})})
    await CertificateSecrets(kube=kube, secrets=[SECRET], clock=lambda: NOW).look()
    stored = (kube.stored(SECRETS, "serving", "system") or {})["data"]
    assert (stored != data) is is_written
    held = SelfSigned(*(base64.b64decode(stored[name]) for name in ("tls.crt", "tls.key")))
    assert held.serves(SERVERS, NOW)
    assert not held.serves(("example.com",), NOW)


async def test_a_secret_that_is_not_there_is_said(caplog: pytest.LogCaptureFixture) -> None:
    await CertificateSecrets(kube=FakeKube(), secrets=[SECRET], clock=lambda: NOW).look()
    assert "Secret system/serving has no certificate" in caplog.text
