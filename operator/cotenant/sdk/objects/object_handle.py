"""The common part of all handles, for programs without an event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cotenant.sdk.background_loop import BackgroundLoop
from cotenant.sdk.objects.async_object import AsyncObject

ObjectT = TypeVar("ObjectT", bound=AsyncObject)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class ObjectHandle(Generic[ObjectT]):
    """One object. Its state is read each time. If the program ends, the object stays."""

    _object: ObjectT
    _loop: BackgroundLoop

    @property
    def name(self) -> str:
        return self._object.name

    @property
    def namespace(self) -> str:
        return self._object.namespace

    @property
    def phase(self) -> str:
        return self._loop.call(self._object.phase())

    def status(self) -> Document:
        """Status as `kubectl get -o yaml` shows it."""
        return self._loop.call(self._object.status())

    def wait(self, timeout_s: float | None = None) -> Document:
        """The final status, good or bad; for a session, that of a running one. Raises JobTimeout."""
        return self._loop.call(self._object.wait(timeout_s))

    def stop(self) -> None:
        """Make it give its GPUs back. A job may save; a sweep begins no trials; a session keeps its home."""
        self._loop.call(self._object.stop())

    def resume(self) -> None:
        """Continue it: a job from its checkpoint. A session whose application has ended by itself is started again."""
        self._loop.call(self._object.resume())

    def delete(self) -> None:
        """End it for good. Volumes and checkpoints stay."""
        self._loop.call(self._object.delete())

    def __repr__(self) -> str:
        return f"{type(self).__name__.removesuffix('Handle')}({self.namespace}/{self.name})"
