"""The only pod of a group of one rank: its conductor runs in process 1, without a driver and without Ray."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cotenant.contract import Contract
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.messages import HeadMessage, PodCommand, PodEvent

if TYPE_CHECKING:
    from cotenant_worker.supervision.conductor import Conductor


@dataclass(slots=True)
class SinglePod:
    """`Pods` of a group of one: the conductor's messages arrive by a call."""

    contract: Contract
    execute: Callable[[PodCommand], Awaitable[None]]
    show: Callable[[HeadMessage], object]
    """Shows a message on the progress board, which is this pod's own."""
    _conductor: Conductor = field(init=False)

    def __post_init__(self) -> None:
        from cotenant_worker.supervision.conductor import Conductor  # in other pods process 1 has no use for it

        self._conductor = Conductor(self.contract, self)

    async def conduct(self) -> Finish:
        """Run until there is a verdict."""
        return await self._conductor.run()

    async def handle(self, event: PodEvent) -> None:
        await self._conductor.handle(0, event)

    async def send(self, pod: int, message: PodCommand) -> None:
        await self.execute(message)

    def send_to_head(self, message: HeadMessage) -> None:
        self.show(message)
