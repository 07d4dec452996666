"""Whether past runs and the ledger of showback outlive the operator's leader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity

FOLDER: Final = "COTENANT_DECISION_LOG_FOLDER"


def decision_log(cluster: SeenCluster) -> Iterator[Diagnosis]:
    environments = list(cluster.environments("operator"))
    if environments and not any(FOLDER in one for one in environments):
        yield Diagnosis(
            Severity.NOTE, "decision log", "is in the leader's memory: `history` and `showback` of deleted jobs end"
            " when another replica leads", "to keep them: decisionLog.storage=PersistentVolumeClaim",
        )  # fmt: skip
