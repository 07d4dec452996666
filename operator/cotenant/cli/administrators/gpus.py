"""`cotenant gpus`: who holds which share of which GPU, which GPUs are idle, which are ill; `cotenant gpus reset NODE
GPU`.

A reset annotates the GPUNode, so it needs the right to patch GPUNodes. The node's agent resets the GPU if no job holds
it. Otherwise it refuses and names the holders. Its answer is in the GPUNode's status.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cotenant.cli.administrators.gpu_shares import WHOLE, GpuView, counted_gpus, gpu_views, with_silent
from cotenant.cli.errors import UserError
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import add_timeout, cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.output import Colour, painted, printed, table
from cotenant.cli.terminal.watch import looks, show
from cotenant.names import ANNOTATION_RESET
from cotenant.sdk.job_paths import object_path

GPU_NODES: Final = object_path("gpunodes")
CORDONED: Final = "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue"
HEADER: Final = ("NODE", "GPU", "CLASS", "STATE", "USE", "MEMORY", "HELD", "BY")
Document = Mapping[str, Any]


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs, "gpus", listed, "show who holds which share of which GPU, and which GPUs are idle or ill", watched=True
    )
    parser.add_argument("--node", metavar="NODE", help="only GPUs of this node")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--idle", action="store_true", help="only held GPUs on which nothing computes now")
    chosen.add_argument("--ill", action="store_true", help="only GPUs that are not handed out")
    chosen.add_argument("--free", action="store_true", help="only GPUs with a free part")
    chosen.add_argument("--map", action="store_true", help="draw one brick for each GPU, with a letter for each job")
    acts = parser.add_subparsers(title="acts", metavar="ACT", required=False)
    reset = cluster_verb(acts, "reset", run_reset, "have the driver reset a GPU that no job holds")
    reset.add_argument("node", metavar="NODE")
    reset.add_argument("gpu", metavar="GPU", help="UUID of the GPU, or its index on the node")
    add_timeout(reset, 300.0, "how long to wait for the answer (default: 300; 0: do not wait)")


def as_cordoned(connection: Connection, nodes: Sequence[Document]) -> list[Document]:
    """These GPUNodes with `status.node` as the Node objects say now, because an agent reads its Node only once a
    minute.

    A caller who may not list Nodes gets what the agents saw.
    """
    try:
        cordoned = {one["metadata"]["name"] for one in connection.read(CORDONED)["items"]}
    except UserError:
        return list(nodes)
    seen: list[Document] = []
    for node in nodes:
        status = node.get("status") or {}
        if (before := status.get("node")) in {"Ready", "Cordoned", "Tainted"}:
            given_back = "Ready" if before == "Cordoned" else before
            now = "Cordoned" if node["metadata"]["name"] in cordoned else given_back
            seen.append({**node, "status": {**status, "node": now}})
        else:
            seen.append(dict(node))
    return seen


def gpus_now(connection: Connection, nodes: Sequence[Document], now: datetime) -> list[GpuView]:
    """Every GPU of these GPUNodes, with the states of the nodes as they are now."""
    return list(gpu_views(with_silent(as_cordoned(connection, nodes), now)))


def listed(args: argparse.Namespace) -> int:
    connection = connect(args)

    def answer() -> str:
        nodes = connection.read(GPU_NODES)
        found = [one for one in gpus_now(connection, nodes["items"], clock.now()) if is_asked(one, args)]
        return printed(
            nodes,
            args.output,
            lambda: [one.uuid for one in found],
            lambda wide: "\n".join(wall(found)) if args.map else "\n".join(lines(found, wide=wide)),
        )

    return show(args, answer)


def is_asked(gpu: GpuView, args: argparse.Namespace) -> bool:
    """True if the verb's flags select this GPU."""
    if args.node is not None and gpu.node != args.node:
        return False
    takes = gpu.healthy and gpu.node_state in {"", "Ready"}
    return not (
        (args.idle and not gpu.is_idle)
        or (args.ill and gpu.healthy)
        or (args.free and (not takes or gpu.held_milli >= WHOLE))
    )


def lines(gpus: Sequence[GpuView], *, wide: bool) -> Iterator[str]:
    """The table and its totals."""
    header = (*HEADER, "UUID") if wide else HEADER
    rows = [(*cells(one), one.uuid) if wide else cells(one) for one in gpus]
    yield table(header, rows) if rows else "There are no such GPUs."
    held = sum(one.held_milli for one in gpus)
    idle, ill = sum(one.is_idle for one in gpus), sum(not one.healthy for one in gpus)
    yield f"{counted_gpus(len(gpus))}: {held / WHOLE:g} held, of these {idle} idle now; {ill} ill"


def cells(gpu: GpuView) -> tuple[str, ...]:
    use = "" if gpu.utilization is None else f"{gpu.utilization} %"
    used = "" if gpu.used_mib is None else f"{gpu.used_mib // 1024}/"
    memory = f"{used}{gpu.memory_mib // 1024}Gi" if gpu.memory_mib else ""  # unknown of devices of other makers
    by = ", ".join(one.job if one.milli == WHOLE else f"{one.job} ({one.milli / WHOLE:g})" for one in gpu.shares)
    held = f"{gpu.held_milli / WHOLE:g}" if gpu.shares else ""
    return (gpu.node, str(gpu.index), gpu.gpu_class, painted(gpu.state, colour_of(gpu)), use, memory, held, by)


def colour_of(gpu: GpuView) -> Colour:
    if not gpu.healthy or gpu.strangers:
        return Colour.RED
    return Colour.YELLOW if gpu.is_idle or gpu.node_state not in {"", "Ready"} else Colour.GREEN


def wall(gpus: Sequence[GpuView], width: int = 8) -> Iterator[str]:
    """One line per node, one brick per GPU. A letter stands for the part that a job holds, `.` for a free part, `x` for
    an ill GPU.
    """
    letters = letters_of(one for gpu in gpus for one in gpu.shares)
    nodes: dict[str, list[GpuView]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    longest = max((len(name) for name in nodes), default=0)
    for name, found in nodes.items():
        bricks = (painted(brick(gpu, letters, width), colour_of(gpu)) for gpu in found)
        yield f"{name.ljust(longest)}  {' '.join(bricks)}  {found[0].gpu_class}"
    yield ""
    yield from (f"{letter}  {job}" for job, letter in letters.items())


def letters_of(shares: Iterable[Any]) -> dict[str, str]:
    """Job → its letter. After the last letter the alphabet starts again."""
    jobs = sorted({share.job for share in shares})
    return {job: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[number % 52] for number, job in enumerate(jobs)}


def brick(gpu: GpuView, letters: Mapping[str, str], width: int) -> str:
    """One GPU as `[AAAB....]`. Every holder has at least one letter."""
    if not gpu.healthy:
        return f"[{'x' * width}]"
    text = "".join(letters[one.job] * max(1, round(one.milli * width / WHOLE)) for one in gpu.shares)
    return f"[{text[:width].ljust(width, '.')}]"


def run_reset(args: argparse.Namespace) -> int:
    return reset_gpu(connect(args), args.node, args.gpu, args.timeout)


def reset_gpu(api: Connection, node: str, gpu: str, timeout_s: float) -> int:
    """Ask for the reset. Returns 0 when it is done, 1 if it was refused, failed or not answered in time."""
    path = f"{GPU_NODES}/{node}"
    before = api.read(path)
    entry = named(before, gpu)
    uuid, earlier = entry["uuid"], entry.get("reset")
    asked = [uuid, *(one for one in asked_already(before) if one != uuid)]
    body = {"metadata": {"annotations": {ANNOTATION_RESET: ",".join(asked)}}}
    api.patch(path, body)
    print(f"{node}: asked for a reset of {uuid}; it is not handed out meanwhile", flush=True)
    for there in looks(api, path, timeout_s):
        found = named(there, uuid).get("reset")
        if found and found != earlier and uuid not in asked_already(there):
            print(f"{node}: {uuid}: {found['state']}: {found.get('message', '')}")
            return 0 if found["state"] == "Done" else 1
    if timeout_s:
        print(f"{node}: no answer within {timeout_s:.0f} s; GPUNode.status.gpus[].reset will have it")
    return 1 if timeout_s else 0


def named(node: Document, gpu: str) -> Document:
    """The GPU with this UUID or index. Raises UserError that lists the GPUs of the node."""
    gpus = (node.get("status") or {}).get("gpus") or ()
    for one in gpus:
        if gpu in (one["uuid"], str(one["index"])):
            return dict(one)
    known = ", ".join(f"{one['index']} ({one['uuid']})" for one in gpus) or "none"
    raise UserError(f"node {node['metadata']['name']} has no GPU {gpu!r}; it has {known}")


def asked_already(node: Document) -> list[str]:
    written = (node["metadata"].get("annotations") or {}).get(ANNOTATION_RESET, "")
    return [part.strip() for part in written.split(",") if part.strip()]
