"""A node is drained by the real kubectl while a job runs that does not leave when it is asked to."""

import pytest

from tests.live.e2e.tenancy import Tenancy, training_job
from tests.live.waiting import timeout

pytestmark = pytest.mark.cluster

STAYS = ["python", "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"]


def test_a_job_that_is_drained_without_time_to_leave_is_told_so_and_charged_nothing(tenancy: Tenancy) -> None:
    tenancy.apply(training_job("drained", command=STAYS, retries=0))
    (part,) = tenancy.wait_phase("drained", "Running")["status"]["placement"]["nodes"]
    flags = ("--ignore-daemonsets", "--delete-emptydir-data", "--grace-period=1", timeout(90))
    try:
        tenancy.cluster.kubectl("drain", part["node"], *flags, "--pod-selector", "cotenant.dev/job=drained")
        status = tenancy.wait_phase("drained", "Pending", "Failed")["status"]
        assert (status["phase"], status["failures"], status["faults"]) == ("Pending", 0, 0)
        assert (status["eviction"]["kind"], status["lastExit"]["reason"]) == ("Drained", "Drained")
        assert f"pod drained-1-0 on node {part['node']} was evicted" in status["eviction"]["message"]
    finally:
        tenancy.cluster.kubectl("uncordon", part["node"])
    assert tenancy.wait_phase("drained", "Running")["status"]["attempts"] == 2
