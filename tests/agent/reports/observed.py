"""A node with two GPUs, as the tests of reports observe it."""

from cotenant_agent.enforcement.attribution import FOREIGN, GONE, OwnerKind, ProcessOwner
from cotenant_agent.enforcement.gpu_holders import PodsOnNode, RunningPods
from cotenant_agent.enforcement.quota import PodQuota
from cotenant_agent.gpus.capabilities import Capabilities
from cotenant_agent.gpus.readings import Gpu, GpuInventory, GpuProcess, GpuSample, HealthSigns
from cotenant_agent.reports.node_view import NodeObserver

NOW = 1_700_000_000.0
OWNERS = {
    1: ProcessOwner(OwnerKind.POD, "pod-1"),
    2: ProcessOwner(OwnerKind.POD, "pod-1"),
    3: ProcessOwner(OwnerKind.POD, "stranger"),
    4: FOREIGN,
    5: GONE,
}
GRANTS = {
    "pod-1": PodQuota(
        pod_uid="pod-1", namespace="red", pod="a-1-0", quota_mib={"GPU-a": 1000}, compute_milli={"GPU-a": 400},
        job="a", job_uid="uid-a", attempt=1,
    )
}  # fmt: skip
PODS = PodsOnNode(grants=GRANTS)


def make_observer(
    *, simulated: bool = False, mig: bool = False, attributing: bool = True, running: RunningPods = lambda: None
) -> NodeObserver:
    inventory = GpuInventory(
        simulated=simulated,
        driver_version="580.65.06",
        gpus=(
            Gpu(uuid="GPU-b", index=1, gpu_class="H100", memory_mib=81920, pci_bus_id="2A", peers=("GPU-a",)),
            Gpu(uuid="GPU-a", index=0, gpu_class="H100", memory_mib=81920, pci_bus_id="18", peers=("GPU-b",), mig=mig),
        ),
    )
    found = Capabilities(runtime_class=True, toolkit_version="1.20.0")
    return NodeObserver(inventory, found, owner=OWNERS.__getitem__, attributing=attributing, running=running)


def busy(*pids: int, used: int = 2000, signs: HealthSigns | None = None) -> tuple[GpuSample, ...]:
    processes = tuple(GpuProcess(pid, 1500) for pid in pids)
    return (
        GpuSample(
            uuid="GPU-a", used_mib=used, utilization_percent=37, processes=processes, signs=signs or HealthSigns()
        ),
        GpuSample(uuid="GPU-b", used_mib=0),
    )
