"""Jobs on a real GPU: what its node shows, shares that hold, programs that bypass them, processes of others.

Needs root and a GPU that nothing else uses; `make test-gpu` runs it. Frameworks are tried if they are installed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, training_job

HAS_GPU: Final = Path("/dev/nvidiactl").exists()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.gpu,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not HAS_GPU, reason="this machine has no GPU of NVIDIA"),
]

SHARE: Final = {"memoryFraction": "0.4", "sharing": "Any"}
RESOURCES: Final = {"cpu": "1", "memory": "8Gi"}
FILL: Final = """
import torch
held = []
try:
    while True:
        held.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    pass
"""
JAX: Final = """
import jax
limit = jax.devices()[0].memory_stats()["bytes_limit"]
jax.numpy.ones(8).sum().block_until_ready()
held = range(limit >> 28)
"""
CUPY: Final = """
import cupy
held = []
try:
    while True:
        held.append(cupy.empty(256 << 20, dtype=cupy.uint8))
except cupy.cuda.memory.OutOfMemoryError:
    pass
"""
SAYS: Final = """
import json, os, time
print("SAYS " + json.dumps({"mib": 256 * len(held), "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}), flush=True)
"""
STAYS: Final = "while True: time.sleep(1)\n"
LARGE: Final = """
import torch
torch.empty(int(torch.cuda.get_device_properties(0).total_memory * 0.6), dtype=torch.uint8, device="cuda")
"""
NEARLY_ALL: Final = """
import torch
free, total = torch.cuda.mem_get_info()
held = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(int(total * 0.9) >> 28)]
"""
BYPASS: Final = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
device, context, held, total = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(held), ctypes.c_size_t(total.value // 100 * 55)) == 0
print("took more than its share", flush=True)
time.sleep(600)
"""
NCCL: Final = """
import json, time, torch, torch.distributed as dist
from cotenant_worker import all_reduce
dist.init_process_group()
value = torch.ones(1 << 20, device="cuda")
dist.all_reduce(value)
print("SAYS " + json.dumps({"sum": float(value[0]), "ours": all_reduce(2.0)}), flush=True)
"""
TRAINS: Final = """
import json, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(64, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    optimizer.zero_grad()
    (model(torch.rand(32, 64, device="cuda")) ** 2).mean().backward()
    optimizer.step()
ours, most = model.module.weight.detach(), model.module.weight.detach().clone()
dist.all_reduce(most, op=dist.ReduceOp.MAX)
print("SAYS " + json.dumps({"ranks": dist.get_world_size(), "alike": bool((ours == most).all())}), flush=True)
"""
ACTORS: Final = """
import json, ray
ray.init()

@ray.remote(num_gpus=0.5)
class Fills:
    def fill(self):
        import os, torch
        self.held = []
        try:
            while True:
                self.held.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            pass
        return 256 * len(self.held), os.environ["CUDA_VISIBLE_DEVICES"]

actors = [Fills.remote() for _ in range(2)]
found = ray.get([one.fill.remote() for one in actors])
print("SAYS " + json.dumps({"mib": [mib for mib, _ in found], "gpus": [gpus for _, gpus in found]}), flush=True)
import time
"""
RAY_TRAIN: Final = """
import json, os, time
import torch, ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model

def train():
    import torch.distributed as dist
    model = prepare_model(torch.nn.Linear(64, 1))
    model(torch.rand(32, 64, device=get_device())).sum().backward()
    torch.cuda.synchronize()
    said = {"backend": dist.get_backend(), "gpus": os.environ["CUDA_VISIBLE_DEVICES"], "ranks": dist.get_world_size()}
    print("SAYS " + json.dumps(said), flush=True)
    while True:
        time.sleep(1)

scaling = ScalingConfig(num_workers=1, use_gpu=True)
TorchTrainer(train, scaling_config=scaling, run_config=RunConfig(storage_path="/tmp/runs")).fit()
"""
FAULTS: Final = """
import cupy, time
held = cupy.ones(64 << 20)
time.sleep(8)  # the agent has to see whose process is on the GPU
kernel = cupy.RawKernel('extern "C" __global__ void write(int *where) { *where = 1; }', "write")
kernel((1,), (1,), (cupy.uint64(8),))
cupy.cuda.Device().synchronize()
"""
COMPILED: Final = """
import torch
from cotenant_worker import report
step = torch.compile(lambda x: torch.sin(x @ x) * 2)
value, number = torch.rand(4096, 4096, device="cuda"), 0
while True:
    value = step(value)
    torch.cuda.synchronize()
    report(step=(number := number + 1))
"""
STRANGER: Final = """
import time, torch
held = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
time.sleep(600)
"""
STRANGERS_NAME: Final = {"name": "stranger", "namespace": "default"}


def driver_shows(field: str) -> list[str]:
    query = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    return subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()


def status(tenancy: Tenancy) -> Document:
    (node,) = tenancy.get("gpunodes")["items"]
    found: Document = node["status"]
    return found


def suspend(tenancy: Tenancy, job: str, *, wanted: bool) -> None:
    patch = json.dumps({"spec": {"suspend": wanted}})
    tenancy.cluster.kubectl("patch", "trainingjob", job, "-n", "team-a", "--type=merge", "-p", patch)


@pytest.fixture
def node(tenancy: Tenancy) -> Document:
    return status(tenancy)


def python(name: str, program: str, namespace: str = "team-a", **spec: Any) -> Document:
    spec = {"gpu": SHARE, "resources": RESOURCES} | spec
    return training_job(name, namespace, command=["python", "-c", program], **spec)


def said(tenancy: Tenancy, job: str, namespace: str = "team-a") -> Document:
    """What the job's program has printed; waits for it."""
    tenancy.wait_phase(job, "Running", namespace=namespace)

    def line() -> str:
        attempt = tenancy.job(job, namespace)["status"]["attempts"]
        log = tenancy.logs(f"{job}-{attempt}-0", namespace)
        return next((line for line in log.splitlines() if "SAYS " in line), "")

    found: Document = json.loads(tenancy.wait(line, what=f"{job} says what it holds").split("SAYS ", 1)[1])
    return found


def test_the_node_shows_what_the_driver_shows(node: Document) -> None:
    assert [gpu["uuid"] for gpu in node["gpus"]] == driver_shows("uuid")
    assert node["driverVersion"] == driver_shows("driver_version")[0]
    assert not node.get("simulated")
    (gpu,), (total,) = node["gpus"], map(int, driver_shows("memory.total"))
    assert 0.98 * total <= gpu["memoryMiB"] <= total
    assert gpu["healthy"], gpu
    assert node["isolationLevels"]["memory"] == "Watched", node["capabilities"]


def test_two_jobs_share_the_gpu_and_each_stops_at_its_share(tenancy: Tenancy, node: Document) -> None:
    (gpu,) = node["gpus"]
    share = int(gpu["memoryMiB"] * 0.4)
    for name, namespace in (("one", "team-a"), ("two", "team-b")):
        tenancy.apply(python(name, FILL + SAYS + STAYS, namespace))
    for name, namespace in (("one", "team-a"), ("two", "team-b")):
        found = said(tenancy, name, namespace)
        assert found["gpus"] == gpu["uuid"]
        assert share - 1536 <= found["mib"] < share, found
        job = tenancy.job(name, namespace)["status"]
        assert (job["phase"], job["isolationLevels"]["memory"]) == ("Running", "Watched")

    def attributed() -> Document | None:
        (now,) = status(tenancy)["gpus"]
        uids = {pod["metadata"]["uid"] for team in "ab" for pod in tenancy.get("pods", "-n", f"team-{team}")["items"]}
        full = [one for one in now.get("processes", ()) if one["memoryMiB"] >= share - 1536]
        return now if {process["podUID"] for process in full} == uids else None

    now = tenancy.wait(attributed, what="the node shows both pods on its GPU, and all that they hold")
    assert all(process["memoryMiB"] <= share for process in now["processes"]), now
    assert not status(tenancy).get("violations")
    assert not status(tenancy).get("strangers")


@pytest.mark.parametrize(("module", "program"), [("jax", JAX), ("cupy", CUPY)], ids=["jax", "cupy"])
def test_a_framework_stops_at_the_share(tenancy: Tenancy, node: Document, module: str, program: str) -> None:
    pytest.importorskip(module)
    share = int(node["gpus"][0]["memoryMiB"] * 0.4)
    tenancy.apply(python(module, program + SAYS + STAYS))
    found = said(tenancy, module)
    assert share * 0.85 <= found["mib"] < share, found


def test_who_bypasses_the_limit_is_ended_and_the_neighbour_goes_on(tenancy: Tenancy) -> None:
    tenancy.apply(python("neighbour", "held = []" + SAYS + "import torch; x = torch.ones(9, device='cuda')\n" + STAYS))
    tenancy.wait_phase("neighbour", "Running")
    tenancy.apply(python("greedy", BYPASS, "team-b", retries=0))
    ended = tenancy.wait_phase("greedy", "Failed", namespace="team-b")["status"]
    assert ended["lastExit"]["reason"] == "GPUMemoryQuotaExceeded", ended
    neighbour = tenancy.job("neighbour")["status"]
    assert (neighbour["phase"], neighbour["attempts"]) == ("Running", 1)


def test_a_job_that_runs_out_of_gpu_memory_says_so(tenancy: Tenancy) -> None:
    tenancy.apply(python("large", LARGE, retries=0))
    ended = tenancy.wait_phase("large", "Failed")["status"]["lastExit"]
    assert (ended["reason"], "CUDA out of memory" in ended["message"]) == ("OutOfGPUMemory", True), ended


def test_a_whole_gpu_is_used_by_nccl(tenancy: Tenancy) -> None:
    """The group has the backend that torch chooses, which takes no tensors of the CPU."""
    tenancy.apply(python("whole", NCCL + STAYS, gpu={"count": 1}))
    assert said(tenancy, "whole") == {"sum": 1.0, "ours": 2.0}
    tenancy.wait(lambda: tenancy.job("whole")["status"]["progress"]["collective"] == "nccl", what="NCCL is named")


def test_ranks_on_shares_of_one_gpu_train_over_gloo(tenancy: Tenancy) -> None:
    """NCCL refuses two ranks on one GPU. The program asks for it all the same."""
    share, runtime = {"memoryFraction": "0.3"}, {"collective": "gloo"}
    tenancy.apply(python("ranks", TRAINS + STAYS, gpu=share, workers=2, runtime=runtime))
    assert said(tenancy, "ranks") == {"ranks": 2, "alike": True}
    tenancy.wait(lambda: tenancy.job("ranks")["status"]["progress"]["collective"] == "gloo", what="gloo is named")


def test_actors_of_ray_divide_the_share_of_their_worker(tenancy: Tenancy, node: Document) -> None:
    """The processes of `gpuProcesses` may take half of it each, and are seen as the job's."""
    (gpu,) = node["gpus"]
    share, size = int(gpu["memoryMiB"] * 0.4), {"cpu": "4", "memory": "16Gi"}
    tenancy.apply(python("actors", ACTORS + STAYS, runtime={"gpuProcesses": 2}, resources=size))
    found = said(tenancy, "actors")
    assert found["gpus"] == [gpu["uuid"]] * 2, found
    assert all(share / 2 - 1536 <= mib < share / 2 for mib in found["mib"]), found
    assert not status(tenancy).get("violations")


def test_ray_train_finds_the_gpu_of_its_worker(tenancy: Tenancy, node: Document) -> None:
    pytest.importorskip("ray.train")
    size = {"cpu": "4", "memory": "16Gi"}
    tenancy.apply(python("trainer", RAY_TRAIN, gpu={"count": 1}, runtime={"rayTrain": True}, resources=size))
    assert said(tenancy, "trainer") == {"backend": "nccl", "gpus": node["gpus"][0]["uuid"], "ranks": 1}


def test_a_job_that_follows_another_finds_all_memory_free(tenancy: Tenancy) -> None:
    """The first is suspended while it holds nearly everything, and goes on when the second is gone."""
    tenancy.apply(python("first", NEARLY_ALL + SAYS + STAYS, gpu={"count": 1}))
    said(tenancy, "first")
    tenancy.apply(python("second", NEARLY_ALL + SAYS + STAYS, "team-b", gpu={"count": 1}))
    suspend(tenancy, "first", wanted=True)
    said(tenancy, "second", "team-b")
    suspend(tenancy, "first", wanted=False)
    tenancy.cluster.kubectl("delete", "trainingjob", "second", "-n", "team-b", "--wait=false")
    tenancy.wait_phase("first", "Running")
    said(tenancy, "first")
    assert not status(tenancy).get("violations")
    assert not status(tenancy).get("strangers")


def test_a_gpu_on_which_programs_of_several_tenants_fault_is_suspect(tenancy: Tenancy) -> None:
    pytest.importorskip("cupy")
    for name, namespace in (("one", "team-a"), ("two", "team-b"), ("three", "team-a")):
        (gpu,) = status(tenancy)["gpus"]
        assert gpu["healthy"], gpu
        tenancy.apply(python(name, FAULTS, namespace, retries=0))
        ended = tenancy.wait_phase(name, "Failed", namespace=namespace)["status"]["lastExit"]
        assert (ended["reason"], "illegal" in ended["message"].lower()) == ("UserError", True), ended
    suspect = tenancy.wait(lambda: not status(tenancy)["gpus"][0]["healthy"], what="the GPU is no longer healthy")
    assert suspect, status(tenancy)
    assert status(tenancy)["gpus"][0]["health"].startswith("Suspect"), status(tenancy)
    (node,) = tenancy.get("gpunodes")["items"]
    tenancy.cluster.kubectl("annotate", "gpunode", node["metadata"]["name"], "cotenant.dev/uncordon=all")
    tenancy.wait(lambda: status(tenancy)["gpus"][0]["healthy"], what="the GPU is handed out again")


def test_a_program_is_compiled_for_the_gpu_and_what_it_uses_is_shown(tenancy: Tenancy) -> None:
    pytest.importorskip("triton")
    tenancy.apply(python("compiled", COMPILED))

    def busy() -> bool:
        (gpu,) = status(tenancy)["gpus"]
        return bool((gpu["used"].get("utilizationPercent") or 0) > 50 and gpu["used"].get("powerWatts"))

    tenancy.wait_phase("compiled", "Running")
    tenancy.wait(busy, what="the node shows that its GPU computes")


@pytest.fixture
def stranger(tenancy: Tenancy) -> Iterator[str]:
    """Uid of a pod that an administrator gave all GPUs, and that no job has."""
    container = {
        "name": "stranger",
        "image": "ghcr.io/cotenant/worker",
        "command": ["python", "-c", STRANGER],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    spec = {"runtimeClassName": "nvidia", "terminationGracePeriodSeconds": 0, "containers": [container]}
    tenancy.apply({"apiVersion": "v1", "kind": "Pod", "metadata": STRANGERS_NAME, "spec": spec})
    yield tenancy.get("pod", "stranger", "-n", "default")["metadata"]["uid"]
    tenancy.cluster.kubectl("delete", "pod", "stranger", "-n", "default", "--ignore-not-found")


def test_a_gpu_that_a_stranger_uses_is_given_to_nobody(tenancy: Tenancy, node: Document, stranger: str) -> None:
    found = tenancy.wait(lambda: status(tenancy).get("strangers"), what="the node shows the stranger")
    assert [one["podUID"] for one in found] == [stranger]
    tenancy.apply(python("waits", "print()"))
    pending = tenancy.wait(lambda: tenancy.job("waits")["status"].get("pending"), what="the job has a verdict")
    assert f"not handed out: {node['gpus'][0]['uuid']}" in pending["message"], pending
    assert status(tenancy)["gpus"][0]["health"].startswith("Stranger"), status(tenancy)
    tenancy.cluster.kubectl("delete", "pod", "stranger", "-n", "default")
    tenancy.wait_phase("waits", "Succeeded")
