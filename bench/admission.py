"""Rate of admission, end to end on a real API server, and the number of writes that the operator needs for it.

A thousand TrainingJobs of one worker are created at once. The operator runs as a process of its own, the kube-scheduler
binds its pods, `tests.support.pod_writer` plays the kubelets. The yardsticks are the rate of plain creates of the same
server, by a client in Go that is not its bound, and Kueue's minimalkueue, both in the same run. Rates are of use as
ratios within a run alone; the CPU of a process for each job is comparable on a busy machine.

    python bench/admission.py [--jobs 1000] [--kueue PROGRAM --kueue-crds FOLDER] [--kubeconfig FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from bench.parts.admission import kueue
from bench.parts.admission.creates import build, create_copies
from cotenant import names
from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.kube import NAMESPACES, NODES, QUEUES, TRAINING_JOBS, Resource
from cotenant.controller.client.rest import RestKube
from tests.support.pod_writer import Hardware, PodWriter

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
NAMESPACE = "bench"
PORT = 18477
POLL_S = 0.5
"""Interval at which the operator is asked for its metrics, in seconds: an answer is some milliseconds of its CPU."""
LIST_S = 2.0
"""Interval at which the played kubelets list their pods, in seconds: lists of a thousand pods would be a good part of
the server's work."""


def job(name: str, *, suspend: bool = False) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "queue": "bench",
            "suspend": suspend,
            "workers": 1,
            "gpu": {"count": 1},
            "resources": {"cpu": "100m", "memory": "64Mi"},
            "runtime": {"entrypoint": "train:main"},
        },
    }


async def prepare(kube: RestKube, gpus: int) -> None:
    for path in sorted((Path(__file__).parents[1] / "crds").glob("*.yaml")):
        await kube.create(CRDS, yaml.safe_load(path.read_text()))
    for namespace in (NAMESPACE, "cotenant-system"):
        await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    queue = {"namespaces": [NAMESPACE], "quotas": [{"guaranteed": gpus}]}
    body = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "bench"}, "spec": queue}
    for _ in range(100):
        made = await kube.create(QUEUES, body)
        if made.code != 404:  # the CRD is served a moment after it was made
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the API server does not serve Queues; are the CRDs accepted?")


async def delete_all(kube: RestKube, prefix: str, count: int) -> None:
    await asyncio.gather(*(kube.delete(TRAINING_JOBS, f"{prefix}{i}", NAMESPACE) for i in range(count)))


@asynccontextmanager
async def operator(kubeconfig: str) -> Any:
    """The operator as users run it: one process. Yields its id."""
    environment = os.environ | {"KUBECONFIG": kubeconfig}
    flags = ["--port", "0", "--host", "127.0.0.1", "--log-level", "warning"]
    flags += ["--metrics-port", str(PORT), "--metrics-readers", "everybody"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cotenant", "operator", *flags, env=environment
    )
    try:
        while await metric("cotenant_leader") != 1.0:
            if process.returncode is not None:
                raise SystemExit("the operator ended before it led")
            await asyncio.sleep(0.2)
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def scrape(port: int = PORT) -> str:
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
            return await response.text()
    except aiohttp.ClientError:
        return ""


def total(text: str, name: str, **labels: str) -> float:
    """The sum of all samples of a metric that carry these labels."""
    found = 0.0
    for line in text.splitlines():
        match = re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line)
        if match and match[1] == name:
            carried = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            if all(carried.get(key) == value for key, value in labels.items()):
                found += float(match[3])
    return found


async def metric(name: str, **labels: str) -> float:
    return total(await scrape(), name, **labels)


def cpu_s(process: int) -> float:
    """CPU seconds that a process has used so far: comparable on a busy machine, where rates are not."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until(name: str, wanted: float, deadline_s: float, **labels: str) -> float:
    """Monotonic time at which the operator's metric reached a value."""
    ends = time.monotonic() + deadline_s
    while await metric(name, **labels) < wanted:
        if time.monotonic() > ends:
            raise SystemExit(f"{name}{labels or ''} did not reach {wanted:.0f} within {deadline_s:.0f} s")
        await asyncio.sleep(POLL_S)
    return time.monotonic()


async def of_kueue(name: str, port: int) -> float:
    return total(await scrape(port), name)


async def measure(
    kubeconfig: str, jobs: int, run_s: float, seed: int, peer: kueue.Process | None = None
) -> dict[str, float]:
    drawn = random.Random(seed)
    nodes = -(-jobs // 8)
    hardware = Hardware(nodes=nodes, gpus=8, prefix="bench")
    async with RestKube(lambda: load_configuration(kubeconfig)) as kube:
        await prepare(kube, nodes * 8)
        build()
        raw_s = await create_copies(kubeconfig, TRAINING_JOBS, job("", suspend=True), "raw-", jobs)
        await delete_all(kube, "raw-", jobs)
        beside = await kueue.measure(kube, kubeconfig, peer, NAMESPACE, jobs) if peer else {}
        async with (
            PodWriter(
                kube=kube,
                hardware=hardware,
                run_s=lambda pod: drawn.uniform(run_s, 2 * run_s),
                every_s=LIST_S,
            ),
            operator(kubeconfig) as process,
        ):
            await asyncio.sleep(2)
            before, cpu_before = await scrape(), cpu_s(process)
            started = time.monotonic()
            create_s = await create_copies(kubeconfig, TRAINING_JOBS, job(""), "job-", jobs)
            admitted = await until("cotenant_actions_total", jobs, 300, kind="Admit", ok="true") - started
            made = (
                await until("cotenant_api_calls_total", jobs, 300, verb="POST", resource="pods", code="201") - started
            )
            cpu_made = cpu_s(process)
            done = await until("cotenant_job_transitions_total", jobs, 300, phase="Succeeded") - started
            after, cpu_after = await scrape(), cpu_s(process)
        await delete_all(kube, "job-", jobs)
        await asyncio.gather(*(kube.delete(NODES, name) for name in hardware.names()))

    def spent(name: str, **labels: str) -> float:
        return total(after, name, **labels) - total(before, name, **labels)

    patches = spent("cotenant_api_calls_total", verb="PATCH", resource="trainingjobs/status")
    transitions = spent("cotenant_job_transitions_total")
    creates = spent("cotenant_api_calls_total", verb="POST") - spent("cotenant_api_calls_total", resource="events")
    return {
        "jobs": jobs,
        "raw_creates_per_s": jobs / raw_s,
        "creates_per_s_beside_the_operator": jobs / create_s,
        "admitted_per_s": jobs / admitted,
        "admitted_fraction_of_raw": (jobs / admitted) / (jobs / raw_s),
        "all_admitted_s": admitted,
        "all_pods_made_s": made,
        "all_succeeded_s": done,
        "transitions": transitions,
        "status_patches": patches,
        "patches_per_transition": patches / transitions,
        "operator_creates_per_job": creates / jobs,
        "operator_cpu_ms_per_job_until_pods_made": 1000 * (cpu_made - cpu_before) / jobs,
        "operator_cpu_ms_per_job": 1000 * (cpu_after - cpu_before) / jobs,
        "load_1m": os.getloadavg()[0],
        "operator_writes_per_s_until_pods_made": (jobs + creates) / made,
        "operator_writes_fraction_of_raw": ((jobs + creates) / made) / (jobs / raw_s),
        **beside,
    }


@contextmanager
def cluster(kubeconfig: str | None) -> Iterator[str]:
    if kubeconfig is not None:
        yield kubeconfig
        return
    from cotenant_local.cluster import lifecycle, spec

    name = f"bench-{os.getpid()}"
    made = lifecycle.up(name, spec.uniform(0, gpus=0, gpu_class="H100", gpu_memory="80Gi"), attached=True)
    try:
        yield str(made.kubeconfig)
    finally:
        lifecycle.down(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--run-s", type=float, default=5.0, help="how long the played pods run, at least")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--kubeconfig", help="an existing cluster; default: a local control plane of its own")
    parser.add_argument("--kueue", type=Path, help="Kueue's program minimalkueue, measured on the same API server")
    parser.add_argument("--kueue-crds", type=Path, help="its CRDs: folder config/components/crd/bases of that version")
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    if (args.kueue is None) != (args.kueue_crds is None):
        parser.error("--kueue and --kueue-crds go together")
    peer = None
    if args.kueue:
        crds = tuple(yaml.safe_load(path.read_text()) for path in sorted(args.kueue_crds.glob("*.yaml")))
        peer = kueue.Process(program=args.kueue, crds=crds, metric=of_kueue, cpu_s=cpu_s)
    with cluster(args.kubeconfig) as kubeconfig:
        figures = asyncio.run(measure(kubeconfig, args.jobs, args.run_s, args.seed, peer))
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):44} {value:10.2f}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
