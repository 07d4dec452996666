"""Holds new connections while the API server is away: its clients wait, none is refused.

A Kubernetes client that is refused a few times, or meets a server that does not know its rights yet, waits up to a
minute before it tries again, and the pods wait with the scheduler and the kubelet. So the first packet of a new
connection is dropped until the server is ready: the kernel sends it again soon.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from cotenant_local.controlplane import network
from cotenant_local.host.api_client import Api

POLL_S: Final = 0.1


class ConnectionHold:
    def __init__(self, api: Api, address: str, log: Callable[[str], None]) -> None:
        """`address`: of the API server in the cluster. `api` is not held: it connects to 127.0.0.1."""
        self._api, self._address, self._log = api, address, log
        self._releasing: asyncio.Task[None] | None = None

    def hold(self) -> None:
        """Holds new connections until the API server is ready again."""
        try:
            network.hold_api(self._address, held=True)
        except network.ClusterNetworkError as error:
            self._log(f"clients are refused while the API server is away: {error}")
            return
        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(self._release_when_ready())

    async def _release_when_ready(self) -> None:
        while True:
            if await asyncio.to_thread(self._api.ready):
                break
            await asyncio.sleep(POLL_S)
        network.hold_api(self._address, held=False)
        self._log("kube-apiserver is ready again")
