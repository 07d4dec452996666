"""A pod that ignores SIGTERM under a real kubelet, which was promised longer than the administrator now allows."""

import time

import pytest

from tests.live.e2e.tenancy import SYSTEM, Tenancy, training_job
from tests.live.waiting import timeout

pytestmark = pytest.mark.cluster

STAYS = ["python", "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(900)"]
OPERATOR = ("-n", SYSTEM, "deployment/cotenant-operator")


def limit_grace_periods(tenancy: Tenancy, setting: str) -> None:
    tenancy.cluster.kubectl("set", "env", *OPERATOR, setting)
    tenancy.cluster.kubectl("rollout", "status", *OPERATOR, timeout(90))


def test_a_pod_that_was_promised_more_than_is_allowed_now_is_killed_by_its_kubelet_when_that_is_over(
    tenancy: Tenancy,
) -> None:
    tenancy.apply(training_job("stays", command=STAYS, gracePeriod="10m"))
    tenancy.wait_phase("stays", "Running")
    limit_grace_periods(tenancy, "COTENANT_MAX_GRACE_PERIOD_S=3")
    try:
        started = time.monotonic()
        tenancy.cluster.kubectl("patch", "tj", "stays", "-n", "team-a", "--type=merge", '-p={"spec":{"suspend":true}}')
        status = tenancy.wait_phase("stays", "Suspended", seconds=90)["status"]
        assert time.monotonic() - started < 60
        assert (status.get("placement"), status["eviction"]["done"]) == (None, True)
    finally:
        limit_grace_periods(tenancy, "COTENANT_MAX_GRACE_PERIOD_S-")
