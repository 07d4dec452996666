"""Prepared claims on disk: one file each, replaced as a whole, and the CDI specifications that follow from them.

The checkpoint is what counts; a specification is written before it and can always be written again from it. So the
agent may be killed between any two steps: what it had not noted it is asked for again, what it had noted it rebuilds.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cotenant.names import DRA_DRIVER
from cotenant_agent.dra.prepared_claims import PreparedClaim, from_document, to_document

log = logging.getLogger("cotenant.agent.dra")

SPEC_PREFIX: Final = f"{DRA_DRIVER}-claim_"
"""Of the files in the CDI folder that are the driver's own; the folder belongs to everybody on the node."""


class ClaimStore:
    """One writer. Files are named by the claim's uid, which the API server has made."""

    def __init__(self, claims: Path, specs: Path) -> None:
        self._claims, self._specs = claims, specs

    def load(self) -> dict[str, PreparedClaim]:
        """Claims by uid. A file that cannot be read is put aside: the kubelet asks for the claim again."""
        self._claims.mkdir(mode=0o750, parents=True, exist_ok=True)
        found: dict[str, PreparedClaim] = {}
        for path in sorted(self._claims.glob("*.json")):
            try:
                claim = from_document(json.loads(path.read_text()))
                if claim.uid != path.stem:
                    raise ValueError(f"is of claim {claim.uid}")
            except (ValueError, KeyError, TypeError) as error:
                log.error("%s is not a prepared claim, and is put aside: %r", path, error)
                path.rename(path.with_suffix(".unreadable"))
                continue
            found[claim.uid] = claim
        return found

    def save(self, claim: PreparedClaim, cdi_spec: Mapping[str, Any]) -> None:
        self.write_spec(claim.uid, cdi_spec)
        write_atomically(self._claims / f"{claim.uid}.json", to_document(claim))

    def forget(self, uid: str) -> None:
        """Nothing happens for a claim that is not there."""
        remove(self._claims / f"{uid}.json")
        remove(self._spec(uid))

    def write_spec(self, uid: str, cdi_spec: Mapping[str, Any]) -> None:
        self._specs.mkdir(parents=True, exist_ok=True)
        write_atomically(self._spec(uid), cdi_spec)

    def remove_other_specs(self, uids: Mapping[str, object]) -> None:
        """Specifications of claims that are not prepared: of those whose checkpoint was not written any more."""
        aside = {path.stem for path in self._claims.glob("*.unreadable")}
        for path in self._specs.glob(f"{SPEC_PREFIX}*.json"):
            uid = path.stem.removeprefix(SPEC_PREFIX)
            if uid not in uids and uid not in aside:
                remove(path)

    def _spec(self, uid: str) -> Path:
        return self._specs / f"{SPEC_PREFIX}{uid}.json"


def write_atomically(path: Path, document: Mapping[str, Any]) -> None:
    """The file is the old one or the new one, after a power cut too."""
    unfinished = path.with_name(f".{path.name}.new")
    with unfinished.open("w") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    _sync_folder(path.parent)


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
