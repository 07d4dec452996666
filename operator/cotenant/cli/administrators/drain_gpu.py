"""Take one GPU out of service by hand, and put it back.

The verb annotates the GPUNode, so it needs the right to patch GPUNodes. The node's agent turns the annotation into a
cordon that drains: jobs on this GPU save and leave, and no job gets it. With DRA the cordon is also a taint of the
device. The GPU stays out until it is uncordoned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from cotenant.cli.administrators.gpus import GPU_NODES, named
from cotenant.cli.errors import EXIT_REFUSED
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.watch import looks
from cotenant.names import ANNOTATION_DRAIN, ANNOTATION_UNCORDON, HEALTH_DRAINED

AGENT_S: Final = 60.0
"""A healthy agent acts on an annotation within this many seconds."""
Document = Mapping[str, Any]


def uuid_of(connection: Connection, node: str, gpu: str) -> str:
    """UUID of the GPU with this UUID or index. Raises UserError that lists the GPUs of the node."""
    return str(named(connection.read(f"{GPU_NODES}/{node}"), gpu)["uuid"])


def drain(connection: Connection, gpu: tuple[str, str], reason: str, timeout_s: float) -> int:
    """Drain the GPU. Returns 0 when no job holds a part of it, 1 if one still does after the timeout. `gpu`: node and
    UUID.
    """
    node, uuid = gpu
    path = f"{GPU_NODES}/{node}"
    asked = _asked_already(connection.read(path)) | {uuid: reason}
    connection.patch(path, {"metadata": {"annotations": {ANNOTATION_DRAIN: json.dumps(asked)}}})
    print(f"{node}: asked to take {uuid} out", flush=True)
    out = False
    for there in looks(connection, path, timeout_s):
        held = holders(there, uuid)
        if not out and HEALTH_DRAINED in named(there, uuid).get("health", ""):
            out = True
            print(f"{node}: {uuid}: handed out no more", flush=True)
        if out and not held:
            print(
                f"{node}: {uuid}: no job holds anything of it; when it is well:"
                f" `kubectl cotenant drain {node} --gpu {uuid} --undo`"
            )
            return 0
    if not timeout_s:
        return 0
    why = f"still held by {', '.join(held)}" if out else "its agent has not taken it up: kubectl cotenant nodes"
    print(f"{node}: {uuid}: {why}")
    return EXIT_REFUSED


def release(connection: Connection, node: str, uuid: str) -> int:
    """Put the GPU back. Returns 0 when jobs may get it again, 1 if it has another fault or no agent answers."""
    path = f"{GPU_NODES}/{node}"
    asked = {one: why for one, why in _asked_already(connection.read(path)).items() if one != uuid}
    body = {ANNOTATION_UNCORDON: uuid, ANNOTATION_DRAIN: json.dumps(asked) if asked else None}
    connection.patch(path, {"metadata": {"annotations": body}})
    for there in looks(connection, path, AGENT_S):
        taken_up = ANNOTATION_UNCORDON not in (there["metadata"].get("annotations") or {})
        if taken_up and named(there, uuid).get("healthy", True):
            print(f"{node}: {uuid}: takes work again")
            return 0
    print(f"{node}: {uuid}: {named(there, uuid).get('health') or 'its agent has not taken it up'}")
    return EXIT_REFUSED


def holders(node: Document, uuid: str = "") -> list[str]:
    """Jobs that hold the GPU, or any GPU of the node, as its agent reports them. A job holds them until its pods are
    gone.
    """
    found = (node.get("status") or {}).get("holders") or ()
    if uuid:
        found = [one for one in found if any(gpu["uuid"] == uuid for gpu in one.get("gpus") or ())]
    return sorted({f"{one['namespace']}/{one['job']}" for one in found})


def _asked_already(node: Document) -> dict[str, str]:
    """The annotation that the agent has not acted on yet."""
    try:
        found = json.loads((node["metadata"].get("annotations") or {}).get(ANNOTATION_DRAIN) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
