"""The measurements of `bench/gpu.py`, in order, and what becomes of their rows: a table on the screen, JSON, and docs.

Everything is measured in children that start as a rank does: with the environment that `memory_limits` computes and
the site hook on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.parts.gpu_memory_limits import driver_limits_hold, limits_hold, overheads
from bench.parts.gpu_processes import GIB, ROOT, SHARE, Child, GpuBench
from bench.parts.gpu_table import Machine, written
from bench.parts.mps_limits import compute_limits_hold
from cotenant_worker.messaging.shared_counters import SharedCounters
from cotenant_worker.ranks import memory_limits


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
    bench.add("a rank sees exactly its UUID", found["uuids"] == [bench.uuid], "its own GPU alone", **found)
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
    compute_limits_hold,
    residue,
)


def machine(env: dict[str, str]) -> Machine | str:
    """The machine as this Python's torch sees it, or why that cannot use the GPU which the driver shows."""
    child = Child("usable", env=env)
    try:
        found = child.answer()
    except RuntimeError as error:
        return f"this Python has no torch that starts: {str(error).splitlines()[-1]}"
    finally:
        child.end()
    if found["why"]:
        return f"torch {found['torch']} cannot use this GPU: {found['why']}"
    return Machine(gpu=found["gpu"], torch=found["torch"], cuda=found["cuda"], driver=driver_version())


def driver_version() -> str:
    """Empty where no nvidia-smi says it."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return ""
    return lines[0] if lines else ""


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
    parser = argparse.ArgumentParser(prog="bench/gpu.py", description="What only a GPU can show.")
    parser.add_argument("--json", default=str(ROOT / "bench/results/gpu.json"), help="where the figures go")
    parser.add_argument("--docs", default=str(ROOT / "docs/benchmarks.md"), help="page with the table; empty for none")
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
    on = machine(plain)
    if isinstance(on, str):
        print(f"bench/gpu.py did not run: {on}")
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cotenant-gpu-") as directory:
        bench = GpuBench(uuid, total, Path(directory), chosen.rounds)
        listen(bench.state / "launcher.sock")
        SharedCounters(bench.state / "rank-0.counters")
        for measure in MEASUREMENTS:
            try:
                measure(bench)
            except (RuntimeError, ValueError, KeyError, OSError, ImportError, subprocess.SubprocessError) as error:
                bench.add(measure.__name__, False, f"could not be measured: {error}")
    path = Path(chosen.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    seconds = round(time.monotonic() - began, 1)
    path.write_text(json.dumps({"gpu": uuid, "total": total, "seconds": seconds, "rows": bench.rows}, indent=1))
    if chosen.docs:
        page = Path(chosen.docs)
        page.write_text(written(page.read_text(), on, time.strftime("%Y-%m-%d", time.gmtime()), bench.rows))
    failed = [name for name, row in bench.rows.items() if row["verdict"] == "FAILS"]
    where = f"figures in {path}" + (f", table in {chosen.docs}" if chosen.docs else "")
    print(f"{len(bench.rows)} rows in {seconds} s, {where}" + (f"; FAILS: {failed}" if failed else ""))
    return 1 if failed else 0
