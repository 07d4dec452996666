"""What only a GPU can show: limits, overhead, sharing, UUIDs, residual memory.

`PYTHONPATH=.:operator:worker python3 bench/gpu.py`. Needs Python 3.11 or later with torch and one NVIDIA GPU; no
cluster, no Ray, no installation. Prints a table, writes JSON, ends with 1 when something does not hold; prints why and
ends with 0 where there is no GPU. Everything is measured in children that start as a rank does: with the environment
that `memory_limits` computes and the site hook on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.parts.gpu_processes import GIB, MIB, ROOT, SHARE, Child, GpuBench
from cotenant_agent.gpus.readings import AskedLimit
from cotenant_worker.messaging.shared_counters import SharedCounters
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
    if not (CGROUP_ROOT / "cgroup.controllers").exists() or os.geteuid() != 0:
        bench.add(name, None, "not measured: it takes root and cgroup v2")
        return
    home = CGROUP_ROOT / Path("/proc/self/cgroup").read_text().rpartition("::/")[2].strip()
    leaf.mkdir(exist_ok=True)
    try:
        set_limit = ["nvidia-smi", "memory-limits", "--set", "-n", str(leaf), "-i", bench.uuid]
        amounts = ["--soft-limit", "1", "--hard-limit", str(quota_mib)]
        refused = subprocess.run([*set_limit, *amounts], capture_output=True, text=True, check=False)
        if refused.returncode:
            said = (refused.stdout + refused.stderr).strip().splitlines()[:1]
            bench.add(name, None, f"not measured: this driver has no limits of memory by cgroup ({said})")
            return
        read_back = hard_limit_mib(bench.uuid, str(leaf))
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
        child = Child("hold", 1024, env=bench.plain())
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
    found = source.memory_limit(AskedLimit("bench", uuid, 0, cgroup))
    return None if found is None else found.hard_mib


def sharing(bench: GpuBench) -> None:
    before = bench.used()
    pair = [Child("hold", 64, env=bench.rank()) for _ in range(2)]
    held = [child.answer()["allocated"] for child in pair]
    together = bench.used() - before
    bench.add(
        "two jobs of 0.4 side by side",
        together <= int(bench.total * 2 * SHARE) and min(held) > bench.total * SHARE * 0.9,
        f"{held[0] / GIB:.2f} + {held[1] / GIB:.2f} GiB of tensors, {together / GIB:.2f} GiB in all",
        together=together,
        held=held,
    )
    third = Child("hold", 64, env=bench.rank())
    found = third.answer()
    bench.add(
        "a third of 0.4 does not fit beside them",
        found["allocated"] < bench.total * SHARE * 0.9,
        f"it gets {found['allocated'] / GIB:.2f} GiB, then: {found['error'].splitlines()[0][:60]}",
        allocated=found["allocated"],
    )
    for child in (third, *pair):
        child.end()


def uuids(bench: GpuBench) -> None:
    child = Child("sees", env=bench.rank(None))
    found = child.answer()
    child.end()
    bench.add("a rank sees exactly its UUID", found["uuids"] == [bench.uuid], f"{found['uuids']}", **found)
    bench.add("… and so does its child", found["child"] == "1", f"{found['child']} GPU(s)")
    text = f"{found['unset']} GPU(s) visible: the boundary is the container's devices"
    bench.add("CUDA_VISIBLE_DEVICES unset (known bypass)", None, text)
    child = Child("sees", env=bench.rank(None, "GPU-00000000-0000-0000-0000-000000000000"))
    found = child.answer()
    child.end()
    bench.add("a UUID that is not there shows nothing", found["uuids"] == [], f"{found['uuids']}")


def solo(bench: GpuBench) -> None:
    """Time a step of both kinds by turns in two processes that live all the time, with the same clocks and caches."""
    children = {
        "plain": Child("train", 50, 0, env=bench.plain()),
        "cotenant": Child("train", 50, 1, env=bench.rank(None)),
    }
    for child in children.values():
        child.answer()
    found: dict[str, list[float]] = {name: [] for name in children}
    for turn in range(bench.rounds):
        for name in sorted(children, reverse=bool(turn % 2)):
            children[name].go()
            found[name].append(children[name].answer()["ms"])
    for child in children.values():
        child.end()
    overhead = statistics.median(ours / bare - 1 for ours, bare in zip(found["cotenant"], found["plain"], strict=True))
    step = statistics.median(found["plain"])
    text = f"{overhead * 100:+.2f} % of a step of {step:.2f} ms (hook, report, should_stop); goal at most 0.5 %"
    bench.add("solo overhead", overhead <= 0.005, text, overhead=overhead, **found)


def compute_shared(bench: GpuBench) -> None:
    pair = [Child("train", 100, 1, env=bench.rank()) for _ in range(2)]
    for child in pair:
        child.answer()
    pair[0].go()
    alone = pair[0].answer()["ms"]
    for child in pair:
        child.go()
    together = [child.answer()["ms"] for child in pair]
    for child in pair:
        child.end()
    work = sum(alone / each for each in together)
    text = f"{alone:.2f} ms a step alone, {together[0]:.2f} and {together[1]:.2f} together: {work:.2f} × one job's work"
    bench.add("two training jobs of 0.4 together", None, text, alone=alone, together=together)


def residue(bench: GpuBench) -> None:
    writer = Child("write_pattern", env=bench.plain())
    written = writer.answer()["written"]
    writer.end()
    scanner = Child("scan", env=bench.plain())
    found = scanner.answer()
    scanner.end()
    text = f"{written / GIB:.0f} GiB written, {found['scanned'] / GIB:.0f} scanned by the next process:"
    text += f" {found['pattern_words']} words of the pattern, {found['nonzero_words']} not zero"
    bench.add("memory of an ended process is not readable", found["pattern_words"] == 0, text, written=written, **found)


MEASUREMENTS: tuple[Callable[[GpuBench], None], ...] = (
    overheads,
    limits_hold,
    driver_limits_hold,
    sharing,
    uuids,
    solo,
    compute_shared,
    residue,
)


def torch_error(env: dict[str, str]) -> str:
    """The reason why this Python's torch cannot use the GPU that the driver shows; empty when it can."""
    child = Child("usable", env=env)
    try:
        found = child.answer()
    except RuntimeError as error:
        return f"this Python has no torch that starts: {str(error).splitlines()[-1]}"
    finally:
        child.end()
    return f"torch {found['torch']} cannot use this GPU: {found['why']}" if found["why"] else ""


def listen(path: Path) -> None:
    """Receive reports on a launcher's socket and drop them."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(16)

    def drain(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            pass

    def accept() -> None:
        while True:
            threading.Thread(target=drain, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", default="bench/results/gpu.json", help="where the figures go")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each side in the overhead measurement")
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = f"{ROOT / 'operator'}:{ROOT / 'worker'}"
    seen = memory_limits.probe([])
    if isinstance(seen, str) or not seen:
        why = seen.split(" (is the")[0] if isinstance(seen, str) and seen else "none found"
        print(f"bench/gpu.py did not run: there is no usable GPU here ({why})")
        return 0
    uuid, total = next(iter(seen.items()))
    print(f"{uuid}, {total / GIB:.1f} GiB")
    plain = GpuBench(uuid, total, Path(), 0).plain()
    if why := torch_error(plain):
        print(f"bench/gpu.py did not run: {why}")
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cotenant-gpu-") as directory:
        bench = GpuBench(uuid, total, Path(directory), chosen.rounds)
        listen(bench.state / "launcher.sock")
        SharedCounters(bench.state / "rank-0.counters", create=True)
        for measure in MEASUREMENTS:
            try:
                measure(bench)
            except (RuntimeError, ValueError, KeyError, OSError, ImportError, subprocess.SubprocessError) as error:
                bench.add(measure.__name__, False, f"could not be measured: {error}")
    path = Path(chosen.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    seconds = round(time.monotonic() - began, 1)
    path.write_text(json.dumps({"gpu": uuid, "total": total, "seconds": seconds, "rows": bench.rows}, indent=1))
    failed = [name for name, row in bench.rows.items() if row["verdict"] == "FAILS"]
    print(f"{len(bench.rows)} rows in {seconds} s, figures in {path}" + (f"; FAILS: {failed}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
