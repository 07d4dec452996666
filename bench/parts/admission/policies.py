"""What the chart's admission policies cost: CPU of the API server for each create, of tenants and of others.

A control plane of its own without nodes. Copies of a plain ConfigMap and a Pod in a namespace that is no tenant's, of a
Pod in a tenant's and of a TrainingJob are created, in turns with the policies bound and not bound. Pods are gated, so
that no scheduler works on them. CPU is the API server's own figure of its process, less what it uses while idle;
the median of the rounds and their ratio are of use, on a busy machine too.

    python -m bench.parts.admission.policies [--count 400] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from bench.parts.admission.creates import build, create_copies
from cotenant import names
from cotenant.controller.client.kube import PODS, TRAINING_JOBS, Resource
from cotenant_local.cluster import lifecycle, spec
from cotenant_local.cluster.lifecycle import Cluster

CHART = Path(__file__).parents[3] / "charts" / "cotenant"
CONFIG_MAPS = Resource("", "v1", "configmaps")
TENANT, OTHER = "measured-tenant", "measured-other"
BINDINGS = "validatingadmissionpolicybindings,mutatingadmissionpolicybindings"
SETTLE_S = 10.0
"""Until an API server has noticed bindings that come or go, and what mutations need."""
IDLE_S = 5.0


def document(kind: str, namespace: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "", "namespace": namespace}, **fields}


def pod(namespace: str) -> dict[str, Any]:
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    containers = [
        {
            "name": name,
            "image": "app",
            "securityContext": security,
            "env": [{"name": f"V{i}", "value": "v"} for i in range(8)],
        }
        for name in ("main", "proxy")
    ]
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    gates = [{"name": "cotenant.example/measured"}]
    return document(
        "Pod", namespace, spec={"containers": containers, "securityContext": restricted, "schedulingGates": gates}
    )


def training_job() -> dict[str, Any]:
    """The API server fills in its creator."""
    job = document("TrainingJob", TENANT, apiVersion=names.API_VERSION)
    job["spec"] = {"queue": "none", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}}
    return job


CREATES: dict[str, tuple[Resource, dict[str, Any]]] = {
    "ConfigMap elsewhere": (CONFIG_MAPS, document("ConfigMap", OTHER, data={"key": "value"})),
    "Pod elsewhere": (PODS, pod(OTHER)),
    "Pod of a tenant": (PODS, pod(TENANT)),
    "TrainingJob": (TRAINING_JOBS, training_job()),
}


def prepare(cluster: Cluster) -> None:
    nowhere = {"nodeSelector": {"kubernetes.io/os": "none"}}
    values = {"operator": {"replicas": 1} | nowhere, "agent": {"simulate": True} | nowhere}
    install = cluster.command(
        "helm", "install", "cotenant", str(CHART), "-n", "cotenant-system", "--create-namespace", "--values", "-"
    )
    subprocess.run(install, input=yaml.safe_dump(values), text=True, check=True, capture_output=True)
    labels = {names.LABEL_TENANT: "true", "pod-security.kubernetes.io/enforce": "restricted"}
    for name, carried in ((TENANT, labels), (OTHER, {})):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": carried}}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))


def cpu_s(cluster: Cluster) -> float:
    said = cluster.kubectl("get", "--raw", "/metrics")
    found = re.search(r"^process_cpu_seconds_total (\S+)$", said, re.MULTILINE)
    assert found is not None
    return float(found[1])


def measure(cluster: Cluster, count: int) -> dict[str, float]:
    """Milliseconds of CPU for each create, by what is created."""
    found = {}
    for label, (resource, copied) in CREATES.items():
        idle, since = cpu_s(cluster), time.monotonic()
        time.sleep(IDLE_S)
        before, at = cpu_s(cluster), time.monotonic()
        asyncio.run(create_copies(str(cluster.kubeconfig), resource, copied, "copy-", count))
        spent, took = cpu_s(cluster) - before, time.monotonic() - at
        found[label] = 1000 * (spent - took * (before - idle) / (at - since)) / count
        print(f"{label}: {found[label]:.2f} ms", flush=True)
        collection = resource.path(copied["metadata"]["namespace"])
        cluster.kubectl("delete", "--raw", f"{collection}?gracePeriodSeconds=0")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    build()
    cluster = lifecycle.up(
        name := f"policies-{os.getpid()}", spec.uniform(0, gpus=0, gpu_class="H100", gpu_memory="80Gi"), attached=True
    )
    rounds: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
    try:
        prepare(cluster)
        bound = json.loads(cluster.kubectl("get", BINDINGS, "-o", "json"))
        for one in bound["items"]:
            one["metadata"] = {key: one["metadata"][key] for key in ("name", "labels") if key in one["metadata"]}
        for _ in range(args.rounds):
            time.sleep(SETTLE_S)
            print("with the policies:", flush=True)
            rounds["with"].append(measure(cluster, args.count))
            cluster.kubectl("delete", BINDINGS, "--all")
            time.sleep(SETTLE_S)
            print("without:", flush=True)
            rounds["without"].append(measure(cluster, args.count))
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(bound))
    finally:
        lifecycle.down(name)
    figures = {label: {how: median(one[label] for one in seen) for how, seen in rounds.items()} for label in CREATES}
    print(f"{'ms of CPU for each create':28}{'with':>8}{'without':>9}{'ratio':>8}")
    for label, by in figures.items():
        print(f"{label:28}{by['with']:8.2f}{by['without']:9.2f}{by['with'] / by['without']:8.2f}")
    print(f"load {os.getloadavg()[0]:.1f}; rounds: {json.dumps(rounds)}")
    if args.json:
        args.json.write_text(json.dumps(figures | {"rounds": rounds}, indent=2) + "\n")


if __name__ == "__main__":
    main()
