"""Records of runs as documents."""

from __future__ import annotations

from cotenant.controller.query_api.record_documents import run_document
from cotenant.decision_log.measured_use import MeasuredUse
from cotenant.decision_log.runs import RunRecord


def test_of_use_of_simulated_gpus_only_that_is_told() -> None:
    use = MeasuredUse(samples=40, held_mib=81_920, simulated=True)
    run = RunRecord(namespace="red", name="train", uid="u", queue="red", outcome="Failed", use=use)
    status = run_document(run)["status"]
    assert (status["use"], status.get("advice")) == ({"samples": 40, "simulated": True}, None)
