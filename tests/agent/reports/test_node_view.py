"""Samples, owners and grants become one view of the node."""

from cotenant_agent.gpus.readings import GpuProcess, XidEvent
from cotenant_agent.reports import node_status
from cotenant_agent.reports.node_view import PodGpuUse, uses_by_pod
from tests.agent.reports.observed import GRANTS, NOW, OWNERS, busy, make_observer


def test_processes_are_summed_by_pod_and_the_ungranted_is_foreign() -> None:
    processes = (GpuProcess(1, 100), GpuProcess(2, None), GpuProcess(3, 7), GpuProcess(4, 5), GpuProcess(5, 9))
    assert uses_by_pod(processes, OWNERS.__getitem__, GRANTS) == (
        PodGpuUse("", 5, foreign=True),
        PodGpuUse("pod-1", 100, foreign=False),
        PodGpuUse("stranger", 7, foreign=True),
    )


def test_an_event_changes_the_view_without_another_look() -> None:
    observer = make_observer()
    view = observer.observe(busy(), {}, NOW)
    observer.record_xid(XidEvent("GPU-a", 48, NOW))
    again = observer.with_xids(view)
    assert [gpu["healthy"] for gpu in node_status.build(again)["gpus"]] == [False, True]
    assert again.xids == {("GPU-a", 48): 1}
