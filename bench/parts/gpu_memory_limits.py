"""Limits of GPU memory: what a process uses beyond its tensors, and which limits hold it to its share."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.parts.gpu_processes import GIB, MIB, SHARE, Child, GpuBench
from cotenant_agent.gpus.readings import AskedLimit
from cotenant_worker.ranks import memory_limits

CGROUP_ROOT = Path("/sys/fs/cgroup")


def overheads(bench: GpuBench) -> None:
    before = bench.used()
    child = Child("context_and_nccl", env=bench.plain())
    reserved = child.answer()["reserved"]
    context = bench.used() - before - reserved
    child.go()
    reserved = child.answer()["reserved"]
    nccl = bench.used() - before - reserved - context
    child.end()
    for name, found, budget in (
        ("context of one process", context, memory_limits.context_mib(bench.total)),
        ("NCCL, one communicator of one rank", nccl, memory_limits.NCCL_MIB),
    ):
        text = f"{found / MIB:.0f} MiB outside torch's pool; budgeted {budget}"
        bench.add(name, found <= budget * MIB, text, bytes=found)


def limits_hold(bench: GpuBench) -> None:
    quota = int(bench.total * SHARE)
    before = bench.used()
    child = Child("hold", 64, env=bench.rank())
    found = child.answer()
    held = bench.used() - before
    child.end()
    bench.add(
        "torch stops at its share, context included",
        held <= quota and found["allocated"] > quota * 0.9,
        f"the process holds {held / GIB:.2f} of {quota / GIB:.2f} GiB, {found['allocated'] / GIB:.2f} of it tensors",
        process=held,
        quota=quota,
        **found,
    )
    for name, deed in (("… also when it raises its own limit", "raise_limit"), ("… also in a spawned child", "spawn")):
        child = Child(deed, env=bench.rank())
        allocated = child.answer()["allocated"]
        child.end()
        bench.add(name, allocated <= quota, f"{allocated / GIB:.2f} GiB allocated", allocated=allocated)
    child = Child("hold", 1024, env=bench.plain())
    allocated = child.answer()["allocated"]
    child.end()
    text = f"{allocated / GIB:.2f} GiB: the limit is cooperative, the agent's watchdog catches this"
    bench.add("without the hook (known bypass)", None, text, allocated=allocated)


def driver_limits_hold(bench: GpuBench) -> None:
    """Limit a cgroup as the container toolkit does, read that back as the agent does, and allocate past it in there."""
    name, leaf = "the driver stops a cgroup at its limit", Path("/sys/fs/cgroup/cotenant-bench")
    quota_mib = int(bench.total * SHARE) // MIB
    if not (CGROUP_ROOT / "cgroup.controllers").exists() or not os.access(CGROUP_ROOT / "cgroup.procs", os.W_OK):
        bench.add(name, None, "not measured: it takes root and a cgroup v2 tree that may be written")
        return
    if shutil.which("nvidia-smi") is None:
        bench.add(name, None, "not measured: there is no nvidia-smi here")
        return
    home = CGROUP_ROOT / Path("/proc/self/cgroup").read_text().rpartition("::/")[2].strip()
    leaf.mkdir(exist_ok=True)
    try:
        set_limit = ["nvidia-smi", "memory-limits", "--set", "-n", str(leaf), "-i", bench.uuid]
        amounts = ["--soft-limit", "1", "--hard-limit", str(quota_mib)]
        refused = subprocess.run([*set_limit, *amounts], capture_output=True, text=True, check=False)
        if refused.returncode:
            bench.add(name, None, "not measured: this driver has no limits of memory by cgroup, r615 and later have")
            return
        read_back = hard_limit_mib(bench.uuid, str(leaf))
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        try:
            child = Child("hold", 1024, env=bench.plain())
        finally:
            (home / "cgroup.procs").write_text(str(os.getpid()))
        allocated = child.answer()["allocated"]
        child.end()
        text = f"{allocated / GIB:.2f} GiB allocated under {quota_mib} MiB without the hook; read back: {read_back} MiB"
        held = allocated <= quota_mib * MIB and read_back is not None and abs(read_back - quota_mib) < 2
        bench.add(name, held, text, allocated=allocated, read_back_mib=read_back, limit_mib=quota_mib)
        subprocess.run([*set_limit, "--soft-limit", "0", "--hard-limit", str(quota_mib)], check=False)
    finally:
        leaf.rmdir()


def hard_limit_mib(uuid: str, cgroup: str) -> int | None:
    """The limit in force by the agent's own reader; None where there is none, or it cannot be read."""
    from cotenant_agent.gpus.nvml import NvmlSource  # takes nvidia-ml-py, which the other measurements do without

    source = NvmlSource()
    source.inventory()
    found = source.memory_limit(AskedLimit("bench", uuid, cgroup))
    return None if found is None else found.hard_mib
