"""Messages of the CRI for tests of pure functions: the generated classes take a build, these take nothing.

A field that was not given is an empty message: false, without items, and not there for `HasField`.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


class Message:
    """One message; numbers of enums are those of `NUMBERS`."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Message()

    def __bool__(self) -> bool:
        return bool(self.__dict__)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def items(self) -> tuple[Any, ...]:
        return ()

    def SerializeToString(self) -> bytes:  # noqa: N802
        return b""

    def HasField(self, name: str) -> bool:  # noqa: N802 – the name that protobuf gives it
        return name in self.__dict__


PROTOCOLS = ("TCP", "UDP", "SCTP")
NUMBERS = SimpleNamespace(
    PodSandboxConfig=Message,
    POD=0,
    CONTAINER=1,
    NODE=2,
    TARGET=3,
    CONTAINER_CREATED=0,
    CONTAINER_RUNNING=1,
    CONTAINER_EXITED=2,
    PROPAGATION_PRIVATE=0,
    PROPAGATION_HOST_TO_CONTAINER=1,
    PROPAGATION_BIDIRECTIONAL=2,
    SecurityProfile=SimpleNamespace(RuntimeDefault=0, Unconfined=1, Localhost=2),
    Protocol=SimpleNamespace(Name=PROTOCOLS.__getitem__),
)
"""Enums as api.proto of CRI v1 numbers them."""


class AnyMessage:
    """The interface with a class for every message that is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(NUMBERS, name, Message)
