"""Fills Secrets that the chart makes empty with certificates: for /metrics of operator and agents, and for the
dashboard.

The chart renders them without data, so that two renderings are equal and no tool reverts the data.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cotenant.controller.client.kube import SECRETS, Kube
from cotenant.serving.self_signed import SelfSigned, utc_now
from cotenant.serving.served_secrets import ServedSecret

log = logging.getLogger(__name__)

LOOK_S: Final = 30.0


@dataclass(slots=True, kw_only=True)
class CertificateSecrets:
    kube: Kube
    secrets: Sequence[ServedSecret]
    clock: Callable[[], datetime] = utc_now

    async def look(self) -> None:
        for secret in self.secrets:
            await self.fill(secret)

    async def fill(self, secret: ServedSecret) -> None:
        """Write a certificate into the Secret, unless it has a valid one."""
        found = await self.kube.get(SECRETS, secret.name, secret.namespace)
        if not found.done:
            log.warning("Secret %s/%s has no certificate: %s", secret.namespace, secret.name, found.message)
            return
        now = self.clock()
        if _held(found.document).serves(secret.servers, now):
            return
        made = SelfSigned.made(secret.servers, now)
        files = {"tls.crt": made.certificate, "tls.key": made.key}
        data = {name: base64.b64encode(text).decode() for name, text in files.items()}
        body = {"metadata": {"resourceVersion": found.document["metadata"]["resourceVersion"]}, "data": data}
        reply = await self.kube.patch(SECRETS, secret.name, body, namespace=secret.namespace)
        if reply.done:
            log.info("Secret %s/%s has a new certificate", secret.namespace, secret.name)
        else:
            log.warning("Secret %s/%s got no certificate: %s", secret.namespace, secret.name, reply.message)


def _held(document: dict[str, Any]) -> SelfSigned:
    data = document.get("data") or {}
    try:
        return SelfSigned(*(base64.b64decode(data.get(name, ""), validate=True) for name in ("tls.crt", "tls.key")))
    except (binascii.Error, ValueError, TypeError):
        return SelfSigned(b"", b"")
