"""`cotenant gpus reset NODE GPU`: an administrator's word that a GPU be reset, and what became of it.

The word is an annotation of the GPUNode, so it takes the right to patch GPUNodes. The agent of the node carries it out
where nobody holds the GPU, and refuses with who does where somebody does; its answer is in the GPUNode's status.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from cotenant.cli.errors import UserError
from cotenant.names import ANNOTATION_RESET, GROUP, VERSION

GPU_NODES: Final = (GROUP, VERSION, "gpunodes")
EVERY_S: Final = 2.0
Document = Mapping[str, Any]


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("gpus", help="what an administrator does with GPUs of a node")
    acts = parser.add_subparsers(title="acts", metavar="ACT", required=True)
    reset = acts.add_parser("reset", help="have the driver reset a GPU that nobody holds")
    reset.add_argument("node", metavar="NODE")
    reset.add_argument("gpu", metavar="GPU", help="its UUID, or its index on the node")
    reset.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="to wait for the answer (default: 300; 0: none)"
    )
    reset.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from kubernetes.client.exceptions import ApiException

    try:
        return reset_gpu(gpu_nodes(), args.node, args.gpu, args.timeout)
    except ApiException as error:
        raise UserError(f"GPUNode {args.node}: HTTP {error.status} {error.reason}") from None


def gpu_nodes() -> Any:
    import kubernetes

    try:
        kubernetes.config.load_kube_config()
    except kubernetes.config.ConfigException as error:
        raise UserError(f"no cluster to talk to ({error}); set KUBECONFIG") from None
    return kubernetes.client.CustomObjectsApi()


def reset_gpu(api: Any, node: str, gpu: str, timeout_s: float, *, sleep: Callable[[float], object] = time.sleep) -> int:
    """0 once it is reset, 1 where it was refused or failed, or is not answered in time."""
    before = api.get_cluster_custom_object(*GPU_NODES, node)
    entry = named(before, gpu)
    uuid, earlier = entry["uuid"], entry.get("reset")
    asked = [uuid, *(one for one in asked_already(before) if one != uuid)]
    body = {"metadata": {"annotations": {ANNOTATION_RESET: ",".join(asked)}}}
    api.patch_cluster_custom_object(*GPU_NODES, node, body, _content_type="application/merge-patch+json")
    print(f"{node}: asked for a reset of {uuid}; it is not handed out meanwhile", flush=True)
    waited = 0.0
    while waited < timeout_s:
        sleep(EVERY_S)
        waited += EVERY_S
        there = api.get_cluster_custom_object(*GPU_NODES, node)
        found = named(there, uuid).get("reset")
        if found and found != earlier and uuid not in asked_already(there):
            print(f"{node}: {uuid}: {found['state']}: {found.get('message', '')}")
            return 0 if found["state"] == "Done" else 1
    if timeout_s:
        print(f"{node}: no answer within {timeout_s:.0f} s; GPUNode.status.gpus[].reset will have it")
    return 1 if timeout_s else 0


def named(node: Document, gpu: str) -> Document:
    """The GPU of this UUID or index. Raises UserError that lists those that there are."""
    gpus = (node.get("status") or {}).get("gpus") or ()
    for one in gpus:
        if gpu in (one["uuid"], str(one["index"])):
            return dict(one)
    known = ", ".join(f"{one['index']} ({one['uuid']})" for one in gpus) or "none"
    raise UserError(f"node {node['metadata']['name']} has no GPU {gpu!r}; it has {known}")


def asked_already(node: Document) -> list[str]:
    written = (node["metadata"].get("annotations") or {}).get(ANNOTATION_RESET, "")
    return [part.strip() for part in written.split(",") if part.strip()]
