"""All inputs of a sample of past decisions, packed, within a limit of bytes. The oldest are dropped first. The sample
is every n-th decision that differs from the one before, and all that evict; at most one in `PAUSE_S`, because packing
costs time.

If there is a volume, they are also written there, and read back when this replica begins to lead. If the volume fails,
what could not be written is lost, with a warning.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant import __version__
from cotenant.controller.decision_log.archive import PARTS
from cotenant.controller.decision_log.kept_capsules import CapsuleFiles, KeptCapsule
from cotenant.core.model.plan import Evict, Plan
from cotenant.core.policy import Policy
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.capsule import Capsule

log = logging.getLogger(__name__)

PAUSE_S: Final = 10.0
FOLDER: Final = "capsules"


@dataclass(slots=True)
class PastCapsules:
    """Written by the recorder's thread, read by others."""

    policy: Policy
    bytes_max: int
    every: int
    """0: only decisions that evict."""
    files: CapsuleFiles | None = None
    failed: int = 0
    """Capsules that the volume did not take."""
    _kept: deque[KeptCapsule] = field(default_factory=deque)
    _bytes: int = 0
    _seen: int = 0
    """Decisions since one was kept for its number."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep_in(self, folder: str, megabytes: int) -> PastCapsules:
        """Also keep them in this folder of the decision log, within this size. An empty path means no folder."""
        if folder:
            self.files = CapsuleFiles(Path(folder) / FOLDER, min(self.bytes_max, (megabytes << 20) // PARTS))
        return self

    def take(self, digest: str, snapshot: Snapshot, plan: Plan) -> None:
        """Keep the inputs of a decision that differs from the one before, if it belongs to the sample."""
        evictions = sum(isinstance(one, Evict) for one in plan.actions)
        self._seen += 1
        is_nth = bool(self.every) and self._seen >= self.every
        too_soon = bool(self._kept) and snapshot.now - self._kept[-1].at < PAUSE_S
        if not self.bytes_max or too_soon or not (evictions or is_nth):
            return
        packed = Capsule.of(snapshot, self.policy, plan, __version__).to_bytes()
        with self._lock:
            self._seen = 0 if is_nth else self._seen
        kept = KeptCapsule(digest=digest, at=snapshot.now, evictions=evictions, packed=packed)
        self._keep(kept)
        if self.files is not None:
            try:
                self.files.write(kept)
            except OSError as error:
                self._failed("written", error)

    def load(self) -> None:
        """Replace what is known by what is on the volume, because another replica may have led."""
        if self.files is None:
            return
        self.clear()
        try:
            for kept in self.files.read():
                self._keep(kept)
        except OSError as error:
            self._failed("read", error)

    def _keep(self, capsule: KeptCapsule) -> None:
        with self._lock:
            self._kept.append(capsule)
            self._bytes += len(capsule.packed)
            while self._kept and self._bytes > self.bytes_max:
                self._bytes -= len(self._kept.popleft().packed)

    def _failed(self, what: str, error: OSError) -> None:
        self.failed += 1
        if self.failed == 1 or self.failed % 100 == 0:
            log.warning("decision capsules are not %s (%d times): %s", what, self.failed, error)

    def newest_first(self) -> list[KeptCapsule]:
        with self._lock:
            return list(reversed(self._kept))

    def get(self, digest: str) -> KeptCapsule | None:
        return next((one for one in self.newest_first() if one.digest == digest), None)

    def clear(self) -> None:
        """Forget everything, because another replica leads."""
        with self._lock:
            self._kept.clear()
            self._bytes = self._seen = 0
