"""Verbs of `Client` that need a cluster, as `Client.local()` answers them."""

from __future__ import annotations

from typing import NoReturn

from cotenant.sdk.errors import ClusterNeededError


class ClusterVerbs:
    __slots__ = ()

    def what_if(self, *_: object, **__: object) -> NoReturn:
        raise _needed("a change of a job that waits")

    def sweep(self, *_: object, **__: object) -> NoReturn:
        raise _needed("a sweep")

    def get_sweep(self, *_: object) -> NoReturn:
        raise _needed("a sweep")

    def session(self, *_: object, **__: object) -> NoReturn:
        raise _needed("a session")

    def get_session(self, *_: object) -> NoReturn:
        raise _needed("a session")


def _needed(what: str) -> ClusterNeededError:
    return ClusterNeededError(
        f"{what} needs a cluster (`cotenant.Client()`); this machine has plan, submit, map, get and runs"
    )
