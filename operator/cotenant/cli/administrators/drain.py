"""`cotenant drain NODE`: no new jobs start on the node, and its jobs save, leave and wait again.

The verb first asks the operator what the drain would do, and shows it. Then it cordons the Node and evicts the pods of
jobs through Kubernetes' Eviction API. Other pods stay; `kubectl drain` evicts those. With `--gpu` the agent of the node
takes out one GPU: see `drain_gpu`.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cotenant import names
from cotenant.cli.administrators import drain_gpu
from cotenant.cli.administrators.gpu_shares import is_silent
from cotenant.cli.administrators.gpus import GPU_NODES
from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_USAGE, UserError
from cotenant.cli.queries.cluster_whatif import sentences
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import add_timeout, cluster_verb
from cotenant.cli.terminal.confirmation import agreed
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.watch import looks


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "drain", run, "take a node or a GPU out of service: its jobs save, leave and wait again"
    )
    parser.add_argument("node", metavar="NODE")
    parser.add_argument("--gpu", metavar="GPU", help="only this GPU, by its UUID or by its index on the node")
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="reason for --gpu, which `gpus` and the GPUNode show"
    )
    parser.add_argument("--undo", action="store_true", help="put the node or GPU back into service")
    parser.add_argument("--dry-run", action="store_true", help="show what would happen, and change nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_timeout(parser, 900.0, "how long to wait for jobs to leave (default: 900; 0: do not wait)")


def run(args: argparse.Namespace) -> int:
    connection = connect(args)
    if args.reason and args.gpu is None:
        raise UserError("--reason is of --gpu; a node has its own: kubectl annotate, or kubectl taint", EXIT_USAGE)
    gpu = drain_gpu.uuid_of(connection, args.node, args.gpu) if args.gpu else ""
    if args.undo and gpu:
        return drain_gpu.release(connection, args.node, gpu)
    if args.undo:
        cordon(connection, args.node, cordoned=False)
        print(f"{args.node}: takes work again")
        return 0
    tell(connection, args.node, gpu)
    if args.dry_run:
        return 0
    if not args.yes and not agreed(f"Drain {gpu or args.node}?"):
        return EXIT_REFUSED
    if gpu:
        return drain_gpu.drain(connection, (args.node, gpu), args.reason, args.timeout)
    return drain(connection, args.node, args.timeout)


def tell(connection: Connection, node: str, gpu: str = "") -> None:
    """Print what the drain would do, if the operator answers."""
    body = {"kind": "ClusterWhatIf", "spec": {"node": node, "act": "Drain"} | ({"gpu": gpu} if gpu else {})}
    try:
        answer = connection.post("/clusterwhatifs", body)
    except UserError as error:
        if error.exit_code != EXIT_UNAVAILABLE:
            raise
        print(f"what it would do is not known: {error}", file=sys.stderr)
        return
    answer["status"].pop("command", None)
    print("\n".join(sentences(answer, f"drain {node} {gpu}".rstrip())))


def cordon(connection: Connection, node: str, *, cordoned: bool) -> None:
    connection.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned or None}})


def drain(connection: Connection, node: str, timeout_s: float) -> int:
    """Drain the node. Returns 0 when no job holds a GPU there, 1 if one still does after the timeout."""
    cordon(connection, node, cordoned=True)
    print(f"{node}: takes no more jobs", flush=True)
    pods = f"/api/v1/pods?fieldSelector=spec.nodeName={node}&labelSelector={names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
    refused = [pod for pod in running(connection, pods) if not evict(connection, pod)]
    for found in looks(connection, f"{GPU_NODES}/{node}", timeout_s):
        is_blind = is_silent(found, clock.now())
        held = jobs_of(running(connection, pods)) if is_blind else drain_gpu.holders(found)
        if not held:
            seen = "no pod of a job is left; its agent is silent" if is_blind else "no job holds anything"
            print(f"{node}: {seen}; `kubectl cotenant drain {node} --undo` when it is well")
            return 0
        refused = [pod for pod in refused if not evict(connection, pod, again=True)]
    print(f"{node}: still held by {', '.join(held)}")
    return EXIT_REFUSED if timeout_s else 0


def evict(connection: Connection, metadata: dict[str, Any], *, again: bool = False) -> bool:
    """Evict the pod. False if it was refused, as a PodDisruptionBudget does until other pods are ready: it is tried
    again then. The reason is printed at the first time.
    """
    namespace, name = metadata["namespace"], metadata["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    try:
        connection.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
    except UserError as error:
        if error.exit_code == EXIT_NOT_FOUND:  # it has left by itself
            return True
        if not again:
            print(f"{namespace}/{name}: {error}; it is tried again while this command waits", file=sys.stderr)
        return False
    print(f"{namespace}/{name}: asked to save and leave", flush=True)
    return True


def running(connection: Connection, pods: str) -> list[dict[str, Any]]:
    """Metadata of the pods that have not ended."""
    found = connection.read(pods)["items"]
    return [pod["metadata"] for pod in found if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}]


def jobs_of(pods: list[dict[str, Any]]) -> list[str]:
    return sorted({f"{one['namespace']}/{(one.get('labels') or {}).get(names.LABEL_JOB, one['name'])}" for one in pods})
