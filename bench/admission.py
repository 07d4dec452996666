"""Rate of admission, end to end on a real API server, and the number of writes that the operator needs for it.

A thousand TrainingJobs of one worker are created at once. The operator runs as a process of its own, the kube-scheduler
binds its pods, `tests.support.pod_writer` plays the kubelets. The yardsticks are the rate of plain creates of the same
server, by a client in Go that is not its bound, and Kueue's minimalkueue, both in the same run. Rates are of use as
ratios within a run alone; the CPU of a process for each job is comparable on a busy machine.

    python bench/admission.py [--jobs 1000] [--kueue PROGRAM --kueue-crds FOLDER] [--kubeconfig FILE] [--json FILE]
    python bench/admission.py --generator FILE [--share 0.1]   plays a scenario of Kueue's performance test instead
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.parts.admission import kueue, scenario
from bench.parts.admission.creates import build, create_copies
from bench.parts.admission.processes import cpu_s, of_kueue, operator, scrape, total, until
from bench.parts.admission.replay import Replay
from cotenant import names
from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.kube import NAMESPACES, NODES, QUEUES, TRAINING_JOBS, Document, Resource
from cotenant.controller.client.rest import RestKube
from tests.support.pod_writer import Hardware, PodWriter

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
NAMESPACE = "bench"
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


async def prepare(kube: RestKube, queues: Sequence[Document]) -> None:
    for path in sorted((Path(__file__).parents[1] / "crds").glob("*.yaml")):
        await kube.create(CRDS, yaml.safe_load(path.read_text()))
    for namespace in (NAMESPACE, "cotenant-system"):
        await kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for queue in queues:
        for _ in range(100):
            made = await kube.create(QUEUES, queue)
            if made.code != 404:  # the CRD is served a moment after it was made
                break
            await asyncio.sleep(0.1)
        if not made.done:
            raise SystemExit(f"the API server does not take a Queue: {made.message}")


def bench_queue(gpus: int) -> Document:
    spec = {"namespaces": [NAMESPACE], "quotas": [{"guaranteed": gpus}]}
    return {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": "bench"}, "spec": spec}


async def delete_all(kube: RestKube, prefix: str, count: int) -> None:
    await asyncio.gather(*(kube.delete(TRAINING_JOBS, f"{prefix}{i}", NAMESPACE) for i in range(count)))


async def measure(
    kubeconfig: str, jobs: int, run_s: float, seed: int, peer: kueue.Process | None = None
) -> dict[str, float]:
    drawn = random.Random(seed)
    nodes = -(-jobs // 8)
    hardware = Hardware(nodes=nodes, gpus=8, prefix="bench")
    async with RestKube(lambda: load_configuration(kubeconfig)) as kube:
        await prepare(kube, [bench_queue(nodes * 8)])
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


async def play(kubeconfig: str, generator: Path, share: float) -> dict[str, float]:
    """Figures of a scenario of Kueue's, with that share of its workloads. There is twice the hardware that the quotas
    allow, since Kueue's test has no nodes: what binds is the quotas.
    """
    queues = scenario.read(generator, share)
    widest = max(of.gpus for queue in queues for of in queue.sets)
    nodes = -(-2 * sum(queue.guaranteed for queue in queues) // widest)
    async with RestKube(lambda: load_configuration(kubeconfig)) as kube:
        await prepare(kube, scenario.queue_documents(queues, NAMESPACE))
        hardware = Hardware(nodes=nodes, gpus=widest, prefix="bench")
        async with (
            PodWriter(kube=kube, hardware=hardware, run_s=lambda pod: 0.0, plays_pods=False),
            operator(kubeconfig) as process,
        ):
            await asyncio.sleep(2)
            before = cpu_s(process)
            figures = await Replay(
                kube=kube, queues=queues, arrivals=scenario.arrivals(queues), namespace=NAMESPACE
            ).play(deadline_s=3600.0)
            return figures | {"operator_cpu_ms_per_job": 1000 * (cpu_s(process) - before) / figures["jobs"]}


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
    parser.add_argument("--generator", type=Path, help="play this scenario: a generator.yaml of Kueue's repository")
    parser.add_argument("--share", type=float, default=1.0, help="of the scenario's workloads, more than 0 up to 1")
    args = parser.parse_args()
    if (args.kueue is None) != (args.kueue_crds is None):
        parser.error("--kueue and --kueue-crds go together")
    peer = None
    if args.kueue:
        crds = tuple(yaml.safe_load(path.read_text()) for path in sorted(args.kueue_crds.glob("*.yaml")))
        peer = kueue.Process(program=args.kueue, crds=crds, metric=of_kueue, cpu_s=cpu_s)
    with cluster(args.kubeconfig) as kubeconfig:
        if args.generator:
            figures = asyncio.run(play(kubeconfig, args.generator, args.share))
        else:
            figures = asyncio.run(measure(kubeconfig, args.jobs, args.run_s, args.seed, peer))
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):44} {value:10.2f}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
