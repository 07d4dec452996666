"""The two sockets of a DRA driver: the kubelet finds it through one and asks it to prepare claims through the other.

The kubelet watches the folder of registration sockets and contacts every socket in it, also after a restart of its own.
So the sockets are made once, and a restart of the kubelet needs no action.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from cotenant.names import DRA_DRIVER
from cotenant_agent.dra import kubelet_api
from cotenant_agent.dra.cdi_spec import cdi_device
from cotenant_agent.dra.prepared_claims import PreparedClaim, RefusedClaimError

log = logging.getLogger("cotenant.agent.dra")

CALLS_AT_ONCE: Final = 4
GRACE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ClaimRef:
    namespace: str
    name: str
    uid: str


Prepare: TypeAlias = Callable[[ClaimRef], PreparedClaim]
"""Raises RefusedClaimError, whose message the kubelet shows on the pod."""
Unprepare: TypeAlias = Callable[[ClaimRef], None]


class KubeletPlugin:
    """`registered` is the kubelet's last answer; `refusal` says why it would not register the driver."""

    def __init__(self, kubelet: Path, prepare: Prepare, unprepare: Unprepare) -> None:
        self._prepare, self._unprepare = prepare, unprepare
        self._socket = kubelet / "plugins" / DRA_DRIVER / "dra.sock"
        self._registration_socket = kubelet / "plugins_registry" / f"{DRA_DRIVER}-reg.sock"
        self._servers: list[Any] = []
        self.registered = False
        self.refusal = ""

    def start(self) -> None:
        """Start the driver's socket, then the registration socket."""
        calls = {
            "NodePrepareResources": ("NodePrepareResourcesRequest", self._prepare_all),
            "NodeUnprepareResources": ("NodeUnprepareResourcesRequest", self._unprepare_all),
        }
        self._serve(self._socket, [messages.handler("DRAPlugin", calls) for messages in kubelet_api.dra.values()])
        found = {
            "GetInfo": ("InfoRequest", self._info),
            "NotifyRegistrationStatus": ("RegistrationStatus", self._note_registration),
        }
        self._serve(self._registration_socket, [kubelet_api.registration.handler("Registration", found)])

    def stop(self) -> None:
        """Remove the registration first, so that the kubelet asks no driver that is about to stop."""
        for server in reversed(self._servers):
            server.stop(GRACE_S).wait()

    def _serve(self, path: Path, handlers: list[Any]) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # of an agent that was killed
        server = grpc.server(ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix=path.name))
        server.add_generic_rpc_handlers(tuple(handlers))
        server.add_insecure_port(f"unix://{path}")
        server.start()
        self._servers.append(server)

    def _info(self, request: Any, context: Any) -> Any:
        return kubelet_api.registration["PluginInfo"](
            type="DRAPlugin",
            name=DRA_DRIVER,
            endpoint=str(self._socket),
            supported_versions=[f"{version}.DRAPlugin" for version in kubelet_api.DRA_VERSIONS],
        )

    def _note_registration(self, request: Any, context: Any) -> Any:
        self.registered, self.refusal = bool(request.plugin_registered), str(request.error)[:300]
        log.info("registered with the kubelet: %s %s", self.registered, self.refusal)
        return kubelet_api.registration["RegistrationStatusResponse"]()

    def _prepare_all(self, request: Any, context: Any) -> Any:
        answer = kubelet_api.dra["v1"]["NodePrepareResourcesResponse"]()
        for ref in _refs(request):
            try:
                claim = self._prepare(ref)
            except RefusedClaimError as error:
                log.warning("claim %s/%s is not prepared: %s", ref.namespace, ref.name, error)
                answer.claims[ref.uid].error = str(error)
                continue
            except Exception as error:
                log.exception("claim %s/%s cannot be prepared", ref.namespace, ref.name)
                answer.claims[ref.uid].error = f"{type(error).__name__}: {error}"[:500]
                continue
            answer.claims[ref.uid].devices.extend(_devices(claim))
        return answer

    def _unprepare_all(self, request: Any, context: Any) -> Any:
        answer = kubelet_api.dra["v1"]["NodeUnprepareResourcesResponse"]()
        for ref in _refs(request):
            try:
                self._unprepare(ref)
            except Exception as error:
                log.exception("claim %s/%s cannot be given back", ref.namespace, ref.name)
                answer.claims[ref.uid].error = f"{type(error).__name__}: {error}"[:500]
                continue
            answer.claims[ref.uid].SetInParent()
        return answer


def _refs(request: Any) -> list[ClaimRef]:
    return [ClaimRef(one.namespace, one.name, one.uid) for one in request.claims]


def _devices(claim: PreparedClaim) -> list[Any]:
    device = kubelet_api.dra["v1"]["Device"]
    made = []
    for one in claim.devices:
        share: Mapping[str, str] = {"share_id": one.share_id} if one.share_id else {}
        made.append(
            device(
                request_names=[one.request],
                pool_name=claim.pool,
                device_name=one.device,
                cdi_device_ids=[cdi_device(claim.uid)],
                **share,
            )
        )
    return made
