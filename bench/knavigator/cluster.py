"""A cluster for a workflow of knavigator: real API server and kube-scheduler, the operator, played nodes with GPUs.

Knavigator's own virtual nodes have no agent that says which GPUs they have; these have. Runs until it is interrupted.

    python bench/knavigator/cluster.py [--nodes 32] [--gpus 8] [--run-s 10] [--kubeconfig FILE]
"""

from __future__ import annotations

import argparse
import asyncio

from bench.admission import bench_queue, cluster, prepare
from bench.parts.admission.processes import operator
from cotenant.controller.client.credentials import load_configuration
from cotenant.controller.client.rest import RestKube
from tests.support.pod_writer import Hardware, PodWriter


async def play(kubeconfig: str, nodes: int, gpus: int, run_s: float) -> None:
    hardware = Hardware(nodes=nodes, gpus=gpus, prefix="bench")
    async with RestKube(lambda: load_configuration(kubeconfig)) as kube:
        await prepare(kube, [bench_queue(nodes * gpus)])
        async with PodWriter(kube=kube, hardware=hardware, run_s=lambda pod: run_s), operator(kubeconfig):
            print(f"ready: {nodes} nodes with {gpus} GPUs; in another terminal, from the root of this repository:")
            print(f"    knavigator -kubeconfig {kubeconfig} -workflow bench/knavigator/gangs.yaml", flush=True)
            await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--gpus", type=int, default=8, help="of each node")
    parser.add_argument("--run-s", type=float, default=10.0, help="how long the played pods run")
    parser.add_argument("--kubeconfig", help="an existing cluster; default: a local control plane of its own")
    args = parser.parse_args()
    with cluster(args.kubeconfig) as kubeconfig:
        try:
            asyncio.run(play(kubeconfig, args.nodes, args.gpus, args.run_s))
        except KeyboardInterrupt:
            print("ended")


if __name__ == "__main__":
    main()
