"""Samples, owners and grants become one view of the node."""

from cotenant_agent.enforcement.gpu_holders import Evidence, GpuHolder, PodsOnNode
from cotenant_agent.enforcement.quota import PodGpu
from cotenant_agent.gpus.readings import GpuProcess, GpuSample, XidEvent
from cotenant_agent.reports import node_status
from cotenant_agent.reports.node_view import PodGpuUse, usage_by_pod, uses_of
from tests.agent.reports.observed import GRANTS, NOW, OWNERS, PODS, busy, make_observer


def test_processes_are_summed_by_pod_and_the_ungranted_is_foreign() -> None:
    processes = (GpuProcess(1, 100), GpuProcess(2, None), GpuProcess(3, 7), GpuProcess(4, 5), GpuProcess(5, 9))
    usage = usage_by_pod([GpuSample(uuid="GPU-a", processes=processes), *busy(1)[1:]], OWNERS.__getitem__)
    assert usage == {PodGpu("pod-1", "GPU-a"): 100, PodGpu("stranger", "GPU-a"): 7, PodGpu("", "GPU-a"): 5}
    assert uses_of("GPU-a", usage, GRANTS) == (
        PodGpuUse("", 5, foreign=True),
        PodGpuUse("pod-1", 100, foreign=False),
        PodGpuUse("stranger", 7, foreign=True),
    )


def test_an_event_changes_the_view_without_another_look() -> None:
    observer = make_observer()
    view = observer.observe(busy(), PodsOnNode(), NOW)
    observer.record_xid(XidEvent("GPU-a", 48, NOW))
    again = observer.with_xids(view)
    assert [gpu["healthy"] for gpu in node_status.build(again)["gpus"]] == [False, True]
    assert again.xids == {("GPU-a", 48): 1}


def test_before_the_pods_are_known_nothing_is_said_of_holders_and_what_was_published_stays() -> None:
    observer = make_observer(running=lambda: frozenset({"pod-1"}))
    held = GpuHolder(grant=GRANTS["pod-1"], since=NOW - 60, evidence=Evidence.POD)
    observer.restore_holders([held])
    view = observer.observe(busy(), None, NOW)
    assert (view.holders, "holders" in node_status.build(view)) == (None, False)
    view = observer.observe(busy(), PodsOnNode(), NOW + 1)
    (entry,) = node_status.build(view)["holders"]
    assert (entry["podUID"], entry["evidence"], entry["since"]) == ("pod-1", "Processes", "2023-11-14T22:12:20Z")


def test_a_pod_whose_object_is_gone_keeps_its_grant_while_it_is_on_the_gpu() -> None:
    observer = make_observer(running=frozenset)
    observer.observe(busy(1), PODS, NOW)
    view = observer.observe(busy(1), PodsOnNode(), NOW + 2)
    assert [(use.pod_uid, use.foreign) for use in view.uses["GPU-a"]] == [("pod-1", False)]
    assert [entry["evidence"] for entry in node_status.build(view)["holders"]] == ["GPU"]
    assert node_status.build(observer.observe(busy(), PodsOnNode(), NOW + 4))["holders"] == []


def test_a_gpu_with_a_stranger_is_not_healthy_from_the_third_look_on_until_it_is_gone() -> None:
    observer = make_observer()
    seen = []
    for poll, pids in enumerate([(3,), (3,), (3,), ()]):
        status = node_status.build(observer.observe(busy(*pids), PODS, NOW + poll))
        seen.append((status["gpus"][0]["healthy"], status["gpus"][0]["health"], len(status["strangers"])))
    why = "Stranger: pod stranger uses 1500 MiB and was granted no GPU"
    assert seen == [(True, "", 0), (True, "", 0), (False, why, 1), (True, "", 0)]
