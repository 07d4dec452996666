"""One GPU taken out by hand, and back: an annotation of the GPUNode, so it takes the right to patch GPUNodes.

The agent of the node makes a cordon of it that drains, which the operator and Kubernetes (as a taint of the device,
with DRA) act upon: jobs of exactly this GPU save and leave, nobody gets it. It stays out until it is uncordoned.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from cotenant.cli.administrators.gpus import GPU_NODES, named
from cotenant.cli.errors import EXIT_REFUSED
from cotenant.cli.terminal.connection import Connection
from cotenant.names import ANNOTATION_DRAIN, ANNOTATION_UNCORDON, HEALTH_DRAINED

EVERY_S: Final = 2.0
AGENT_S: Final = 60.0
"""Time in which an agent that is well takes a word up."""
Document = Mapping[str, Any]
Sleep = Callable[[float], object]


def uuid_of(connection: Connection, node: str, gpu: str) -> str:
    """UUID of a GPU that is named by it or by its index. Raises UserError that lists those that there are."""
    return str(named(connection.read(f"{GPU_NODES}/{node}"), gpu)["uuid"])


def drain(
    connection: Connection, gpu: tuple[str, str], reason: str, timeout_s: float, *, sleep: Sleep = time.sleep
) -> int:
    """0 once no job holds anything of it, 1 where one still does in the end. `gpu`: its node and UUID."""
    node, uuid = gpu
    path = f"{GPU_NODES}/{node}"
    asked = _asked_already(connection.read(path)) | {uuid: reason}
    connection.patch(path, {"metadata": {"annotations": {ANNOTATION_DRAIN: json.dumps(asked)}}})
    print(f"{node}: asked to take {uuid} out", flush=True)
    waited, out = 0.0, False
    while True:
        there = connection.read(path)
        held = _holders(there, uuid)
        if not out and HEALTH_DRAINED in named(there, uuid).get("health", ""):
            out = True
            print(f"{node}: {uuid}: handed out no more", flush=True)
        if out and not held:
            print(
                f"{node}: {uuid}: no job holds anything of it; when it is well:"
                f" `kubectl cotenant drain {node} --gpu {uuid} --undo`"
            )
            return 0
        if waited >= timeout_s:
            break
        sleep(EVERY_S)
        waited += EVERY_S
    if not timeout_s:
        return 0
    why = f"still held by {', '.join(held)}" if out else "its agent has not taken it up: kubectl cotenant nodes"
    print(f"{node}: {uuid}: {why}")
    return EXIT_REFUSED


def release(connection: Connection, node: str, uuid: str, *, sleep: Sleep = time.sleep) -> int:
    """0 once it is handed out again, 1 where it is not: something else is wrong with it, or no agent answers."""
    path = f"{GPU_NODES}/{node}"
    asked = {one: why for one, why in _asked_already(connection.read(path)).items() if one != uuid}
    body = {ANNOTATION_UNCORDON: uuid, ANNOTATION_DRAIN: json.dumps(asked) if asked else None}
    connection.patch(path, {"metadata": {"annotations": body}})
    waited = 0.0
    while waited < AGENT_S:
        sleep(EVERY_S)
        waited += EVERY_S
        there = connection.read(path)
        taken_up = ANNOTATION_UNCORDON not in (there["metadata"].get("annotations") or {})
        if taken_up and named(there, uuid).get("healthy", True):
            print(f"{node}: {uuid}: takes work again")
            return 0
    print(f"{node}: {uuid}: {named(there, uuid).get('health') or 'its agent has not taken it up'}")
    return EXIT_REFUSED


def _holders(node: Document, uuid: str) -> list[str]:
    holders = (node.get("status") or {}).get("holders") or ()
    found = (one for one in holders if any(gpu["uuid"] == uuid for gpu in one.get("gpus") or ()))
    return sorted({f"{one['namespace']}/{one['job']}" for one in found})


def _asked_already(node: Document) -> dict[str, str]:
    """What an agent has not taken up yet."""
    try:
        found = json.loads((node["metadata"].get("annotations") or {}).get(ANNOTATION_DRAIN) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
