"""`cotenant migrate`: stores every object in the newest API version, so that the older version can be removed one day.

The verb sends an empty patch for every object. The API server reads the object, stores it in the current version, and
writes nothing if nothing differs. Fields, field owners and generations stay the same. After an interruption the verb
starts again from the beginning. Last, and only if every object was written, it notes in the definition that the old
version is no longer stored.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from cotenant import names
from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.confirmation import agreed
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.sdk.job_paths import below

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY: Final = "kubectl apply --server-side --force-conflicts -f charts/cotenant/crds/"
PAGE: Final = 500
PER_SECOND: Final = 50.0
SHOWN: Final = 10
"""At most this many refusals per kind are printed."""
TRIES: Final = 5
RETRY_S: Final = 2.0
SETTLE_S: Final = 2.0
"""Other API servers of a cluster learn of a definition within this many seconds. Kubernetes assumes the same."""
LOOKS: Final = 30


@dataclass(frozen=True, slots=True)
class StoredKind:
    """One kind, as its CustomResourceDefinition describes it."""

    plural: str
    kind: str
    storage: str
    """The version in which objects are stored from now on."""
    stored: tuple[str, ...]
    """The versions in which objects may be stored."""
    revision: str
    """The resourceVersion of the CustomResourceDefinition."""

    @property
    def is_done(self) -> bool:
        return self.stored == (self.storage,)

    @property
    def storage_hash(self) -> str:
        """`storageVersionHash` in the discovery of an API server that stores this version."""
        digest = hashlib.sha256(f"{names.GROUP}/{self.storage}/{self.kind}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    def path(self, namespace: str = "", name: str = "") -> str:
        return below(f"/apis/{names.GROUP}/{self.storage}", namespace, self.plural, name)


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "migrate", run, "store all objects in the newest version of the API")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--rate",
        type=float,
        default=PER_SECOND,
        metavar="N",
        help=f"at most N writes per second (default: {PER_SECOND:g})",
    )


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    kinds = [one for one in stored_kinds(connection) if not one.is_done]
    if not kinds:
        print(f"everything is stored as {names.VERSION}: there is nothing to do")
        return 0
    objects = [(kind, list(keys(connection, kind))) for kind in kinds]
    for kind, found in objects:
        print(f"{kind.plural}: {len(found)} objects may be stored as {' or '.join(kind.stored)}")
    if args.dry_run:
        return 0
    if not args.yes and not agreed(f"Write them as they are, to be stored as {names.VERSION}?"):
        return EXIT_REFUSED
    rate = WriteRate(args.rate)
    wait_until_in_force(connection, kinds, rate.sleep)
    done = [migrate(connection, kind, found, rate) for kind, found in objects]
    return 0 if all(done) else EXIT_REFUSED


def stored_kinds(connection: Connection) -> list[StoredKind]:
    """The kinds to migrate. Raises UserError if a definition is older than this program."""
    ours = [one for one in connection.read(CRDS)["items"] if one["spec"]["group"] == names.GROUP]
    kinds = [stored_kind(one) for one in ours]
    older = [one.plural for one in kinds if one.storage != names.VERSION]
    if older or not kinds:
        what = f"{', '.join(older)} are not stored as {names.VERSION}" if older else "Cotenant's CRDs are not there"
        raise UserError(f"{what}; first: {APPLY}")
    return kinds


def stored_kind(crd: Mapping[str, Any]) -> StoredKind:
    spec = crd["spec"]
    (storage,) = (one["name"] for one in spec["versions"] if one["storage"])
    return StoredKind(
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        storage=storage,
        stored=tuple(crd["status"]["storedVersions"]),
        revision=crd["metadata"]["resourceVersion"],
    )


def wait_until_in_force(connection: Connection, kinds: Sequence[StoredKind], sleep: Callable[[float], object]) -> None:
    """Wait until the API server stores in the new version. It does so a while after the definition was applied.

    Raises UserError if the time is over.
    """
    for _ in range(LOOKS):
        sleep(SETTLE_S)
        found = connection.read(f"/apis/{names.GROUP}/{names.VERSION}")["resources"]
        stored_as = {one["name"]: one.get("storageVersionHash") for one in found}
        behind = [one.plural for one in kinds if stored_as.get(one.plural) not in (None, one.storage_hash)]
        if not behind:
            return
    what = f"the API server does not store {', '.join(behind)} as {names.VERSION} yet"
    raise UserError(f"{what}; nothing was written, run it again in a minute", EXIT_UNAVAILABLE)


def keys(connection: Connection, kind: StoredKind) -> Iterator[tuple[str, str]]:
    """(namespace, name) of every object. Objects that are created later are stored in the new version anyway."""
    more = ""
    while True:
        page = connection.read(f"{kind.path()}?limit={PAGE}{more}")
        for one in page["items"]:
            yield one["metadata"].get("namespace", ""), one["metadata"]["name"]
        if not (token := page["metadata"].get("continue")):
            return
        more = f"&continue={quote(token, safe='')}"


class WriteRate:
    """A limit of writes per second."""

    def __init__(
        self,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if per_second <= 0:
            raise UserError("--rate must be more than 0")
        self._every_s, self._clock, self.sleep = 1 / per_second, clock, sleep
        self._next = clock()

    def wait(self) -> None:
        now = self._clock()
        if now < self._next:
            self.sleep(self._next - now)
        self._next = max(now, self._next) + self._every_s


def migrate(connection: Connection, kind: StoredKind, found: Sequence[tuple[str, str]], rate: WriteRate) -> bool:
    """Write every object, then note in which version they are stored. Returns True if that was noted."""
    refused = []
    for namespace, name in found:
        rate.wait()
        try:
            _write(connection, kind.path(namespace, name), rate)
        except UserError as error:
            if error.exit_code == EXIT_UNAVAILABLE:
                raise UserError(f"{error}; what was written stays so, run it again", EXIT_UNAVAILABLE) from error
            if error.exit_code != EXIT_NOT_FOUND:  # gone meanwhile
                refused.append(f"{namespace}/{name}".removeprefix("/") + f": {error}")
    if refused:
        print(f"{kind.plural}: {len(refused)} of {len(found)} objects cannot be written; mend them and run it again")
        print("\n".join(f"  {one}" for one in refused[:SHOWN]))
        return False
    status = {"metadata": {"resourceVersion": kind.revision}, "status": {"storedVersions": [kind.storage]}}
    connection.patch(f"{CRDS}/{kind.plural}.{names.GROUP}/status", status)
    print(f"{kind.plural}: {len(found)} objects are stored as {kind.storage}")
    return True


def _write(connection: Connection, path: str, rate: WriteRate) -> None:
    """Send the empty patch. An overloaded server is asked again."""
    for left in range(TRIES - 1, -1, -1):
        try:
            connection.patch(path, {})
            return
        except UserError as error:
            if error.exit_code != EXIT_UNAVAILABLE or not left:
                raise
            rate.sleep(RETRY_S)
