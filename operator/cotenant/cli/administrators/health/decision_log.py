"""Whether past runs and the ledger of showback outlive the operator's leader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity

FOLDER: Final = "COTENANT_DECISION_LOG_FOLDER"


def decision_log(cluster: SeenCluster) -> Iterator[Diagnosis]:
    for one in cluster.items("deployments"):
        labels = one["metadata"].get("labels") or {}
        pod = (one["spec"].get("template") or {}).get("spec") or {}
        containers = pod.get("containers") or []
        if labels.get("app.kubernetes.io/component") != "operator" or not containers:
            continue
        if not any(variable["name"] == FOLDER for each in containers for variable in each.get("env") or ()):
            yield Diagnosis(
                Severity.NOTE, "decision log", "is in the leader's memory: `history` and `showback` of deleted jobs end"
                " when another replica leads", "to keep them: decisionLog.storage=PersistentVolumeClaim",
            )  # fmt: skip
