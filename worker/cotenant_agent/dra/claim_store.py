"""Prepared claims on disk: one checkpoint for each, replaced as a whole, and the CDI specifications made from them.

Only the checkpoint counts. The specification is written before it and can always be made from it. So the agent may be
killed between any two steps: it is asked again for a claim without a checkpoint, and it rebuilds the specification of
one with a checkpoint.
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
"""Prefix of the driver's own files in the CDI folder, which all drivers of the node use."""


class ClaimStore:
    """Has one writer. Files are named by the claim's uid, which the API server has made."""

    def __init__(self, claims: Path, specs: Path) -> None:
        self._claims, self._specs = claims, specs

    def load(self) -> dict[str, PreparedClaim]:
        """Claims by uid. A file that cannot be read is put aside; the kubelet asks for its claim again."""
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
        """Does nothing if the claim is not stored."""
        remove(self._claims / f"{uid}.json")
        remove(self._spec(uid))

    def write_spec(self, uid: str, cdi_spec: Mapping[str, Any]) -> None:
        self._specs.mkdir(parents=True, exist_ok=True)
        write_atomically(self._spec(uid), cdi_spec)

    def remove_other_specs(self, uids: Mapping[str, object]) -> None:
        """Remove specifications of claims that are not prepared, because their checkpoint was never written."""
        aside = {path.stem for path in self._claims.glob("*.unreadable")}
        for path in self._specs.glob(f"{SPEC_PREFIX}*.json"):
            uid = path.stem.removeprefix(SPEC_PREFIX)
            if uid not in uids and uid not in aside:
                remove(path)

    def _spec(self, uid: str) -> Path:
        return self._specs / f"{SPEC_PREFIX}{uid}.json"


def write_atomically(path: Path, document: Mapping[str, Any]) -> None:
    """Write so that after a crash or a power cut the file is either the old one or the new one."""
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
