"""Cost of the local cluster: building it, starting it, starting pods on it, and the memory it takes.

    python bench/local.py [--cycles 3] [--cold] [--pods 50] [--json FILE]

Prints one row per figure, with what is known of kind and k3s beside it, and writes JSON. `--cold` also builds all
programs with empty Go caches (minutes), and again with full ones. Every cycle is a whole `up` and `down`; what stays
behind is counted.
Pod latency is from the moment `kubectl` sends the pod until its container runs, as a watch of the pods sees it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from cotenant_local.cluster import lifecycle, spec
from cotenant_local.cluster.lifecycle import Cluster
from cotenant_local.controlplane import control_socket
from cotenant_local.host.procfs import descendants
from cotenant_local.programs import build

NAME = "bench"
KNOWN = {
    "up": "create command: kind 0.14 21.0 s, k3d 5.4.4 14.7 s (minikube's time-to-k8s benchmark, v1.26.1, 2022)",
    "memory": "least RAM, k3s 1.26.5: server with Prometheus, Grafana 1596 M; agent alone 275 M "
    "(docs.k3s.io/reference/resource-profiling)",
    "pods": "Kubernetes' objective on any cluster: p99 ≤ 5 s, images present (sig-scalability SLOs)",
}


def pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "ghcr.io/cotenant/tools", "command": ["sleep", "inf"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"bench": "yes"}}, "spec": spec}


def seconds(action: Callable[[], object]) -> float:
    begun = time.monotonic()
    action()
    return time.monotonic() - begun


@contextmanager
def running_times(cluster: Cluster) -> Iterator[dict[str, float]]:
    """Pod name → moment at which its container was first seen running."""
    seen: dict[str, float] = {}
    columns = 'jsonpath={.metadata.name} {.status.containerStatuses[0].state.running}{"\\n"}'
    command = cluster.command("kubectl", "get", "pods", "--watch", "-l", "bench=yes", "-o", columns)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:

        def read() -> None:
            assert watch.stdout is not None
            for line in watch.stdout:
                name, _, state = line.strip().partition(" ")
                if state:
                    seen.setdefault(name, time.monotonic())

        reader = threading.Thread(target=read)
        reader.start()
        yield seen
        watch.terminate()
        reader.join()


def pod_latencies(cluster: Cluster, count: int, seen: dict[str, float], prefix: str) -> list[float]:
    names = [f"{prefix}-{index}" for index in range(count)]
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod(name) for name in names]})
    begun = time.monotonic()
    cluster.kubectl("create", "-f", "-", stdin=manifest)
    deadline = begun + 300
    while not all(name in seen for name in names):
        if time.monotonic() > deadline:
            raise SystemExit(f"of {count} pods {sum(name in seen for name in names)} run after 300 s")
        time.sleep(0.01)
    latencies = [seen[name] - begun for name in names]
    cluster.kubectl("delete", "pods", *names, "--wait")
    return latencies


def memory_mib(pids: list[int]) -> float:
    """Proportional set size: pages that processes share are counted once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def found(pids: list[int], argument: str) -> int:
    """The first process that has the word in its command line."""
    return next(pid for pid in pids if argument in Path(f"/proc/{pid}/cmdline").read_text().split("\0"))


def builds() -> tuple[float, float]:
    """Seconds of a build with empty Go caches, and of another with the caches that the first one filled."""
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as cache:
        caches = {"XDG_CACHE_HOME": cache, "GOCACHE": f"{cache}/go-build"}
        command = [sys.executable, "-m", "cotenant", "local", "build"]
        build = partial(subprocess.run, command, check=True, env={**os.environ, **caches})
        cold = seconds(build)
        for made in Path(cache, "cotenant").glob("programs-*"):
            shutil.rmtree(made)
        return cold, seconds(build)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def measure(args: argparse.Namespace) -> Iterator[tuple[str, float, str, str]]:
    if args.cold:
        cold, warm = builds()
        yield "build, empty Go caches", cold, "s", ""
        yield "build, full Go caches", warm, "s", ""
    build.programs()
    yield "build, already there", seconds(build.programs), "s", ""
    ups, downs, left = [], [], 0
    for _ in range(args.cycles):
        ups.append(seconds(lambda: lifecycle.up(NAME, spec.uniform(1, 0, "", ""))))
        pids = descendants(control_socket.peer(lifecycle.find(NAME).state.control))
        downs.append(seconds(lambda: lifecycle.down(NAME)))
        left += sum(Path(f"/proc/{pid}").exists() for pid in pids)
    yield f"up, one node, median of {args.cycles}", statistics.median(ups), "s", KNOWN["up"]
    yield "up, one node, slowest", max(ups), "s", ""
    yield "down, median", statistics.median(downs), "s", ""
    yield f"processes left after {args.cycles} cycles", left, "", ""
    cluster = lifecycle.up(NAME, spec.uniform(1, 0, "", ""))
    try:
        yield from measure_running(cluster, args.pods)
    finally:
        lifecycle.down(NAME)


def measure_running(cluster: Cluster, pods: int) -> Iterator[tuple[str, float, str, str]]:
    everything = descendants(control_socket.peer(cluster.state.control))
    of_a_node = memory_mib(descendants(found(everything, "cotenant_local.node.init")))
    total = memory_mib(everything)
    yield "memory, control plane and one node", total, "MiB", KNOWN["memory"]
    yield "memory, of that the control plane", total - of_a_node, "MiB", ""
    yield "memory, of that kube-apiserver", memory_mib([found(everything, "kube-apiserver")]), "MiB", ""
    yield "memory, of that the node", of_a_node, "MiB", ""
    with running_times(cluster) as seen:
        single = [latency for i in range(10) for latency in pod_latencies(cluster, 1, seen, f"one-{i}")]
        yield "one pod to running, p50 of 10", percentile(single, 0.5), "s", KNOWN["pods"]
        yield "one pod to running, p99 of 10", percentile(single, 0.99), "s", ""
        many = pod_latencies(cluster, pods, seen, "many")
        yield f"{pods} pods at once, p50", percentile(many, 0.5), "s", ""
        yield f"{pods} pods at once, p99", percentile(many, 0.99), "s", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--json", type=Path, default=Path("bench/results/local.json"))
    args = parser.parse_args()
    rows = []
    load = os.getloadavg()[0]
    for what, value, unit, known in measure(args):
        rows.append({"what": what, "value": round(value, 3), "unit": unit, "known": known})
        print(f"{what:42} {value:9.2f} {unit:4} {known}", flush=True)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    machine: dict[str, object] = {
        "cpus": os.cpu_count(),
        "loadBefore": load,
        "loadAfter": os.getloadavg()[0],
        "user": os.geteuid(),
    }
    machine["kernel"] = platform.release()
    print("on", ", ".join(f"{name} {value}" for name, value in machine.items()))
    args.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
