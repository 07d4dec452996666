"""A step with `ParameterServer` against all-reduce: `python bench/worker/parameter_server.py`. Root, no Ray.

Four workers, each in a network namespace whose card is slowed down in both directions, so that the network is the
bottleneck and not this machine's CPUs. Servers live where Cotenant puts them: each in a pod, and here a namespace, of
its own. All kinds take turns at every size in one run. Beside the times: how long the busiest card needs for the bytes
alone.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import pod_sandbox

WORKERS = 4
SERVERS = (1, 2, 4)
SIZES = (1 << 20, 4 << 20)
PORT = 23500
SECRET = "of this benchmark"


def server() -> None:
    """One server, until it is killed."""
    from cotenant_worker.parameter_server.shards import ServerGenerations, serve

    with socket.create_server((os.environ["POD_IP"], PORT), backlog=256) as listener:
        serve(listener, ServerGenerations(synchronous=True), SECRET)


def child(rank: int) -> None:
    """One worker: `allreduce BYTES STEPS` or `servers ADDRESS,… BYTES STEPS` on stdin, milliseconds of a step out."""
    import numpy as np
    import torch
    import torch.distributed as dist

    from cotenant_worker.parameter_server.shards import ParameterServer

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORKERS)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, *rest = line.split()
        steps = int(rest[-1])
        parameter = torch.nn.Parameter(torch.zeros(int(rest[-2]) // 4))
        parameter.grad = torch.from_numpy(np.full(parameter.shape, rank, np.float32))
        if kind == "servers":
            os.environ["COTENANT_PS_ADDRS"] = rest[0]
            step = ParameterServer([parameter], lr=0.1).step
        else:

            def step(held: torch.nn.Parameter = parameter) -> None:
                mean = held.grad.clone() if held.grad is not None else torch.zeros_like(held)
                dist.all_reduce(mean)
                with torch.no_grad():
                    held -= 0.1 / WORKERS * mean

        times = []
        for _ in range(steps + 1):  # the first one fills the buckets of the slowed card
            dist.barrier()
            begin = time.perf_counter()
            step()
            times.append((time.perf_counter() - begin) * 1e3)
        expected = -0.1 * (steps + 1) * sum(range(WORKERS)) / WORKERS
        if not np.allclose(parameter.detach().numpy(), expected, rtol=1e-3):
            raise AssertionError(f"{kind}: {parameter[:3].tolist()} where {expected} was expected")
        print(statistics.median(times[1:]), flush=True)


@dataclass(slots=True)
class Network:
    """The namespaces, and what runs in them."""

    sandbox: pod_sandbox.PodSandbox
    workers: list[subprocess.Popen[str]]

    def spawn(self, index: int, *command: str) -> subprocess.Popen[str]:
        inside = ["ip", "netns", "exec", f"{self.sandbox._bridge}{index}", sys.executable, "-P", *command]
        own = {"POD_IP": address(index), "OMP_NUM_THREADS": "1", "COTENANT_SECRET": SECRET, "RANK": str(index)}
        where = {"GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": address(0), "MASTER_PORT": "24000"}
        everything = {**os.environ, **where, **own, "WORLD_SIZE": str(WORKERS)}
        pipe = subprocess.PIPE
        return subprocess.Popen(inside, env=everything, stdin=pipe, stdout=pipe, text=True)

    def slow_down(self, mbit: int) -> None:
        shape = ["root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", "200ms"]
        for index in range(len(self.sandbox.hosts)):
            pod_sandbox.run("tc", "-n", f"{self.sandbox._bridge}{index}", "qdisc", "add", "dev", "eth0", *shape)
            pod_sandbox.run("tc", "-n", self.sandbox._bridge, "qdisc", "add", "dev", f"p{index}", *shape)

    def ask(self, command: str) -> float:
        """Milliseconds of the slowest worker, after a command to all of them."""
        for worker in self.workers:
            assert worker.stdin
            worker.stdin.write(command + "\n")
            worker.stdin.flush()
        answers = [worker.stdout.readline() for worker in self.workers if worker.stdout]
        if not all(answers):
            raise RuntimeError(f"a worker ended during: {command}")
        return max(map(float, answers))

    def with_servers(self, count: int, size: int, steps: int) -> float:
        """Fresh servers: a server keeps the parameters that it was given first."""
        indices = range(WORKERS, WORKERS + count)
        started = [self.spawn(index, __file__, "--server") for index in indices]
        try:
            where = ",".join(f"{address(index)}:{PORT}" for index in indices)
            return self.ask(f"servers {where} {size} {steps}")
        finally:
            for server in started:
                server.kill()
                server.wait()


def address(index: int) -> str:
    return f"10.77.0.{index + 1}"


def bytes_of_the_busiest_card(servers: int, size: int) -> float:
    """Bytes that one card must carry one after the other in a step.

    All-reduce: what a rank sends. Servers: first all gradients come in, then all parameters go out; a worker sends all
    of its gradients and gets all parameters.
    """
    if not servers:
        return 2 * (WORKERS - 1) / WORKERS * size
    return 2 * max(WORKERS / servers, 1.0) * size


def measure(rounds: int, steps: int, mbit: int) -> list[dict[str, Any]]:
    names = tuple(f"server-{index}" for index in range(max(SERVERS)))
    pods = pod_sandbox.contract([1] * WORKERS, command=("x",), servers=names)
    with pod_sandbox.PodSandbox(pods, Path(__file__).parent) as sandbox:
        network = Network(sandbox, [])
        try:
            for rank in range(WORKERS):
                network.workers.append(network.spawn(rank, __file__, "--child", str(rank)))
            for worker in network.workers:
                assert worker.stdout
                assert worker.stdout.readline().strip() == "ready"
            network.slow_down(mbit)
            rows = []
            for size in SIZES:
                times: dict[int, list[float]] = {servers: [] for servers in (0, *SERVERS)}
                for turn in range(rounds):
                    for servers in sorted(times, reverse=bool(turn % 2)):
                        one = network.with_servers(servers, size, steps) if servers else None
                        times[servers].append(network.ask(f"allreduce {size} {steps}") if one is None else one)
                for servers, found in times.items():
                    wire = bytes_of_the_busiest_card(servers, size) * 8 / mbit / 1e3
                    rows.append({"bytes": size, "servers": servers, "ms": statistics.median(found), "wire_ms": wire})
            return rows
        finally:
            for worker in network.workers:
                worker.kill()
                worker.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--mbit", type=int, default=100, help="of every card, each way")
    parser.add_argument("--json", default="bench/results/parameter_server.json")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--server", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.server:
        server()
    if chosen.child is not None:
        child(chosen.child)
        return 0
    if why := pod_sandbox.missing():
        print(f"bench/worker/parameter_server.py did not run: {why}")
        return 0
    before = os.getloadavg()
    rows = measure(chosen.rounds, chosen.steps, chosen.mbit)
    print(f"{WORKERS} workers, cards of {chosen.mbit} Mbit/s, load before {before[0]:.1f}; milliseconds a step")
    print(f"{'model':>8}{'':>14}{'measured':>10}{'wire alone':>12}{'to all-reduce':>15}")
    for row in rows:
        bare = next(each["ms"] for each in rows if each["bytes"] == row["bytes"] and not each["servers"])
        name = f"{row['servers']} server{'s' * (row['servers'] > 1)}" if row["servers"] else "all-reduce"
        mib = f"{row['bytes'] >> 20} MiB"
        print(f"{mib:>8}{name:>14}{row['ms']:>10.1f}{row['wire_ms']:>12.1f}{row['ms'] / bare:>14.2f}×")
    path = Path(chosen.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"load": before, "mbit": chosen.mbit, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
