"""While the API server is away, whoever wants to speak to it waits; nobody is refused.

Called by the supervisor. A Kubernetes client that is refused a few times, or meets a server that does not know its
rights yet, waits up to a minute before it asks again, and the pods wait with the scheduler and the kubelet. So the
first packet of a new connection is dropped until the server says that it is ready: the kernel sends it again soon.
"""

import asyncio
from collections.abc import Callable

from cotenant_local.controlplane import network
from cotenant_local.host.api_client import Api

POLL = 0.1


class Gate:
    def __init__(self, api: Api, note: Callable[[str], None]) -> None:
        """`api` does not pass through the gate: it asks on 127.0.0.1."""
        self._api, self._note = api, note
        self._opening: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Until the API server is ready again."""
        try:
            network.hold_api(True)
        except network.NetworkError as error:
            self._note(f"clients are refused while the API server is away: {error}")
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open_when_ready())

    async def _open_when_ready(self) -> None:
        while True:
            if await asyncio.to_thread(self._api.ready):
                break
            await asyncio.sleep(POLL)
        network.hold_api(False)
        self._note("kube-apiserver is ready again")
