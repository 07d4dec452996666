"""The pod of a rank, and kubectl as the way into it, because kubectl has the protocols for terminals and ports."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from urllib.parse import urlencode

from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, UserError
from cotenant.cli.tenants.jobs import phase_of
from cotenant.cli.tenants.logs import WorkerPod, pod_of
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import ObjectName
from cotenant.sdk.job_paths import core_path, pods_query


def pod_of_rank(connection: Connection, name: ObjectName, rank: int) -> WorkerPod:
    """Pod of the rank in the running attempt. Raises UserError."""
    job = connection.read(name.path)
    status = job.get("status") or {}
    cluster = status.get("cluster") or {}
    if cluster.get("attempts"):
        raise UserError(
            f"{name} is on cluster {cluster['name']}, as {cluster['namespace']}/{cluster['job']}: its pods are reached"
            " there, by an account of that cluster (`kubectl cotenant logs` works here)",
            EXIT_REFUSED,
        )
    query = urlencode(pods_query(job["metadata"]["uid"], status.get("attempts", 0)))
    found = connection.read(f"{core_path(name.namespace, 'pods')}?{query}")
    running = [one for one in found["items"] if (one.get("status") or {}).get("phase") == "Running"]
    if not running:
        raise UserError(f"no pod of {name} runs: it is {phase_of(job)}", EXIT_REFUSED)
    pods = [pod_of(one) for one in running]
    for pod in pods:
        if rank in pod.ranks:
            return pod
    known = ", ".join(str(one) for one in sorted(one for pod in pods for one in pod.ranks))
    raise UserError(f"{name} has no rank {rank} that runs; it has {known or 'none'}", EXIT_NOT_FOUND)


def kubectl(args: argparse.Namespace, namespace: str, words: Sequence[str]) -> int:
    """Replace this process by kubectl with the caller's own rights. Only tests see it return."""
    program, *rest = kubectl_words(args, namespace, words)
    os.execv(program, ["kubectl", *rest])
    return 0


def kubectl_words(args: argparse.Namespace, namespace: str, words: Sequence[str]) -> list[str]:
    """The command line: program, cluster, and what to do. Raises UserError if kubectl is not installed."""
    program = shutil.which("kubectl")
    if program is None:
        raise UserError("kubectl is not installed, and this verb goes through it", EXIT_USAGE)
    place = ["--namespace", namespace]
    place += ["--context", args.context] if args.context else []
    place += ["--kubeconfig", args.kubeconfig] if args.kubeconfig else []
    return [program, *place, *words]
