"""What only a GPU can show: limits, overhead, sharing, UUIDs, residual memory.

`PYTHONPATH=operator:worker python3 bench/gpu.py`. Needs Python 3.11 or later with torch and one NVIDIA GPU; no cluster,
no Ray, nothing else. Prints a table, writes JSON, ends with 1 when something does not hold. Where there is no GPU it
says that it did not run. Everything is measured in children that start as a rank does: with the environment that
`limits` computes and the site hook on PYTHONPATH.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant.contract import GpuGrant
from cotenant_worker import layout, limits
from cotenant_worker.cells import Cell

ROOT = Path(__file__).resolve().parents[1]
CHILD = Path(__file__).with_name("gpu_child.py")
MIB, GIB = 1 << 20, 1 << 30
SHARE = 0.4
_ANSWER_S = 300.0
_USED = """
import os, subprocess, sys
uuid = os.environ["CUDA_VISIBLE_DEVICES"]
try:
    import pynvml
    pynvml.nvmlInit()
    print(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).used)
except Exception:
    query = ["nvidia-smi", "-i", uuid, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    print(int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20)
"""


class Child:
    """One process of a job; it answers in lines."""

    def __init__(self, deed: str, *numbers: int, env: dict[str, str]) -> None:
        command = [sys.executable, str(CHILD), deed, *map(str, numbers)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def answer(self) -> dict[str, Any]:
        """The next line; RuntimeError when the child ends instead, or when it says nothing for _ANSWER_S."""
        assert self.process.stdout
        impatience = threading.Timer(_ANSWER_S, self.process.kill)
        impatience.start()
        line = self.process.stdout.readline()
        impatience.cancel()
        if not line:
            _, error = self.process.communicate(timeout=60)
            raise RuntimeError(f"child ended with {self.process.returncode}: {error.strip()[-600:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        try:
            self.process.communicate("\n", timeout=60)
        except (subprocess.TimeoutExpired, ValueError, BrokenPipeError):
            self.process.kill()
            self.process.wait()


@dataclass
class Bench:
    uuid: str
    total: int
    state: Path
    rounds: int
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, ok: bool | None, text: str, **data: Any) -> None:
        verdict = {True: "holds", False: "FAILS", None: "measured"}[ok]
        self.rows[name] = {"verdict": verdict, "text": text, **data}
        print(f"{name:<46} {verdict:<9} {text}", flush=True)

    def plain(self, uuid: str = "") -> dict[str, str]:
        """Without Cotenant's hook: the same GPU."""
        path = f"{ROOT / 'operator'}:{ROOT / 'worker'}"
        own = {"CUDA_VISIBLE_DEVICES": uuid or self.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONPATH": path}
        return {**os.environ, **own}

    def rank(self, share: float | None = SHARE, uuid: str = "") -> dict[str, str]:
        """As the launcher starts a rank with this share, or with the whole GPU."""
        env = self.plain(uuid)
        env |= {"PYTHONPATH": f"{layout.HOOK_DIR}:{env['PYTHONPATH']}", layout.ENV_STATE: str(self.state)}
        env |= {layout.ENV_GENERATION: "0", layout.ENV_COLLECTIVE: "nccl", "RANK": "0", "WORLD_SIZE": "1"}
        if share is None:
            return env
        grant = GpuGrant(self.uuid, int(self.total * share) // MIB, int(share * 1000), whole=False)
        budget = limits.budget(grant, self.total, context_mib=limits.context_mib(self.total), nccl_mib=0)
        return limits.limited(env, limits.variables([budget]))

    def used(self) -> int:
        """Bytes in use on the whole GPU, by NVML: no context of our own in the figure."""
        command = [sys.executable, "-c", _USED]
        return int(subprocess.run(command, env=self.plain(), capture_output=True, text=True, check=True).stdout)


def overheads(bench: Bench) -> None:
    before = bench.used()
    child = Child("context_and_nccl", env=bench.plain())
    reserved = child.answer()["reserved"]
    context = bench.used() - before - reserved
    child.go()
    reserved = child.answer()["reserved"]
    nccl = bench.used() - before - reserved - context
    child.end()
    for name, found, budget in (
        ("context of one process", context, limits.context_mib(bench.total)),
        ("NCCL, one communicator of one rank", nccl, limits.NCCL_MIB),
    ):
        text = f"{found / MIB:.0f} MiB outside torch's pool; budgeted {budget}"
        bench.add(name, found <= budget * MIB, text, bytes=found)


def limits_hold(bench: Bench) -> None:
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


def sharing(bench: Bench) -> None:
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


def uuids(bench: Bench) -> None:
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


def solo(bench: Bench) -> None:
    """Both processes live all the time and take turns: clocks and caches are the same for both."""
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


def compute_shared(bench: Bench) -> None:
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


def residue(bench: Bench) -> None:
    writer = Child("write_pattern", env=bench.plain())
    written = writer.answer()["written"]
    writer.end()
    scanner = Child("scan", env=bench.plain())
    found = scanner.answer()
    scanner.end()
    text = f"{written / GIB:.0f} GiB written, {found['scanned'] / GIB:.0f} scanned by the next process:"
    text += f" {found['pattern_words']} words of the pattern, {found['nonzero_words']} not zero"
    bench.add("memory of an ended process is not readable", found["pattern_words"] == 0, text, written=written, **found)


MEASUREMENTS: tuple[Callable[[Bench], None], ...] = (
    overheads,
    limits_hold,
    sharing,
    uuids,
    solo,
    compute_shared,
    residue,
)


def what_torch_objects_to(env: dict[str, str]) -> str:
    """Why this Python's torch cannot use the GPU that the driver shows; empty when it can."""
    child = Child("usable", env=env)
    try:
        found = child.answer()
    except RuntimeError as error:
        return f"this Python has no torch that starts: {str(error).splitlines()[-1]}"
    finally:
        child.end()
    return f"torch {found['torch']} cannot use this GPU: {found['why']}" if found["why"] else ""


def listen(path: Path) -> None:
    """A launcher's ear: reports are received as they would be."""
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
    seen = limits.probe([])
    if isinstance(seen, str) or not seen:
        print(f"bench/gpu.py did not run: there is no usable GPU here ({(seen or 'none found').split(' (is the')[0]})")
        return 0
    uuid, total = next(iter(seen.items()))
    print(f"{uuid}, {total / GIB:.1f} GiB")
    plain = Bench(uuid, total, Path(), 0).plain()
    if why := what_torch_objects_to(plain):
        print(f"bench/gpu.py did not run: {why}")
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cotenant-gpu-") as directory:
        bench = Bench(uuid, total, Path(directory), chosen.rounds)
        listen(bench.state / "launcher.sock")
        Cell(bench.state / "rank-0.cell", create=True)
        for measure in MEASUREMENTS:
            try:
                measure(bench)
            except (RuntimeError, ValueError, KeyError, OSError, subprocess.SubprocessError) as error:
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
