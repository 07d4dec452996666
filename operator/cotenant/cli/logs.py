"""`cotenant logs JOB`: what all ranks of a job print, each line with its rank, through the API server.

Pods are read as `kubectl logs` reads them, with the rights of whoever asks. Of an attempt whose pods are gone, the
status of the job has how it ended, and the last lines of the rank that failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from cotenant import names
from cotenant.cli.errors import UserError

if TYPE_CHECKING:
    from kubernetes.client import ApiException

STREAMS_MAX: Final = 64
"""Pods that are read at once."""
PAUSE_S: Final = 1.0
"""Before a pod that has not started yet is asked again."""
CHUNK: Final = 1 << 16
LAUNCHER: Final = b"cotenant: "
"""Begins a line of the pod itself."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("logs", help="what all ranks of a job print, each line with its rank")
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    parser.add_argument("-n", "--namespace", help="namespace (default: that of the context)")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with what is printed, until the attempt ends"
    )
    parser.add_argument("--rank", type=int, metavar="N", help="of this rank alone")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--attempt", type=int, metavar="N", help="of this attempt (default: the last)")
    chosen.add_argument("-p", "--previous", action="store_true", help="of the attempt before the last")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last lines of each pod")
    parser.add_argument("--context", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--kubeconfig", help="file (default: $KUBECONFIG, or ~/.kube/config)")
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """One pod of an attempt."""

    name: str
    ranks: tuple[int, ...]
    """Empty: of a parameter server."""

    def prefix_of(self, line: bytes) -> bytes:
        """With several ranks in a pod, the pod itself says whose line it is."""
        if line.startswith(LAUNCHER) or not self.ranks:
            return b"[%s] " % self.name.encode()
        return b"[rank %d] " % self.ranks[0] if len(self.ranks) == 1 else b""

    def shows(self, line: bytes, rank: int | None) -> bool:
        """Whether the line is of this rank; a pod's own lines concern all of its ranks."""
        several = rank is not None and len(self.ranks) > 1 and not line.startswith(LAUNCHER)
        return not several or line.startswith(b"[rank %d] " % (rank or 0))


def pod_of(document: Mapping[str, Any]) -> WorkerPod:
    """From what the operator noted at the pod: for the eye alone, as anything else in its metadata."""
    metadata = document["metadata"]
    try:
        noted = json.loads((metadata.get("annotations") or {}).get(names.ANNOTATION_PLACEMENT) or "{}")
        ranks = tuple(sorted(int(rank) for rank in noted.get("ranks", {})))
    except (ValueError, AttributeError):
        ranks = ()
    return WorkerPod(metadata["name"], ranks)


@dataclass(slots=True)
class Printer:
    """Whole lines of many streams, one after the other."""

    out: BinaryIO
    rank: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self, pod: WorkerPod, chunks: Iterator[bytes], *, prefixed: bool) -> None:
        rest = b""
        for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            self._print(pod, lines, prefixed)
        self._print(pod, [rest] if rest else [], prefixed)

    def _print(self, pod: WorkerPod, lines: Sequence[bytes], prefixed: bool) -> None:
        shown = [(pod.prefix_of(line) if prefixed else b"") + line for line in lines if pod.shows(line, self.rank)]
        if shown:
            with self._lock:
                self.out.write(b"\n".join([*shown, b""]))
                self.out.flush()


def run(args: argparse.Namespace) -> int:
    from kubernetes import client, config

    namespace, _, name = args.job.removeprefix("trainingjob/").removeprefix("tj/").rpartition("/")
    if not name or "/" in namespace:
        raise UserError(f"{args.job!r} is not the name of a job: give NAME, or NAMESPACE/NAME", 2)
    try:
        api = config.new_client_from_config(args.kubeconfig, context=args.context)
        _, current = config.list_kube_config_contexts(args.kubeconfig)
    except (config.ConfigException, OSError) as error:
        raise UserError(f"no cluster to ask: {error}; set KUBECONFIG, or give --kubeconfig", 2) from error
    namespace = namespace or args.namespace or (current.get("context") or {}).get("namespace") or "default"
    try:
        job = client.CustomObjectsApi(api).get_namespaced_custom_object(
            names.GROUP, names.VERSION, namespace, "trainingjobs", name
        )
        return show(client.CoreV1Api(api), job, args)
    except client.ApiException as error:
        raise UserError(_refusal(error, f"{namespace}/{name}")) from error


def show(core: Any, job: Mapping[str, Any], args: argparse.Namespace) -> int:
    """Print one attempt of the job, from its pods or, where they are gone, from its status."""
    status = job.get("status") or {}
    metadata, last = job["metadata"], status.get("attempts", 0)
    number = args.attempt or last - bool(args.previous)
    if not 1 <= number <= last:
        had = f"it has had {last} of them" if last else f"it has not started yet ({status.get('reason', 'Pending')})"
        raise UserError(f"there is no attempt {number or 1} of {metadata['name']}: {had}", 3)
    pods = _pods(core, metadata, number)
    while args.follow and not pods and number == last and status.get("placement"):
        time.sleep(PAUSE_S)
        pods = _pods(core, metadata, number)
    chosen = [pod for pod in pods if args.rank is None or args.rank in pod.ranks]
    if not pods:
        print("\n".join(kept_lines(status, number)))
        return 0
    if not chosen:
        raise UserError(f"attempt {number} of {metadata['name']} has no rank {args.rank}", 3)
    if len(chosen) > STREAMS_MAX:
        raise UserError(f"{len(chosen)} pods are too many to read at once: choose one with --rank", 2)
    several = len(chosen) > 1 or len(chosen[0].ranks) > 1
    printer = Printer(sys.stdout.buffer, args.rank)

    def read(pod: WorkerPod) -> None:
        printer.copy(pod, stream(core, metadata["namespace"], pod, args), prefixed=several)

    _all_at_once(read, chosen)
    return 0


def kept_lines(status: Mapping[str, Any], number: int) -> Iterator[str]:
    """What the status has of an attempt whose pods are gone."""
    ends = [*(status.get("earlierExits") or ()), *([status["lastExit"]] if status.get("lastExit") else ())]
    found = next((one for one in reversed(ends) if one.get("attempt") == number), None)
    if found is None:
        raise UserError(f"the pods of attempt {number} are gone, and nothing is known of its end any more", 3)
    yield from found.get("tail") or ()
    said = found.get("message") or f"{found.get('reason')} ({found.get('code')})"
    print(f"cotenant: the pods of attempt {number} are gone; it ended so: {said}", file=sys.stderr)


def stream(core: Any, namespace: str, pod: WorkerPod, args: argparse.Namespace) -> Iterator[bytes]:
    """What the pod has printed, and with `--follow` what it prints until it ends."""
    from kubernetes.client import ApiException

    more = {"tail_lines": args.tail} if args.tail is not None else {}
    while True:
        try:
            answer = core.read_namespaced_pod_log(
                pod.name, namespace, container=names.CONTAINER, follow=args.follow, _preload_content=False, **more
            )
            break
        except ApiException as error:
            if error.status != 400 or not args.follow:  # 400: its container waits to start
                raise
            time.sleep(PAUSE_S)
    try:
        yield from answer.stream(CHUNK)
    finally:
        answer.release_conn()


def _pods(core: Any, metadata: Mapping[str, Any], number: int) -> list[WorkerPod]:
    labels = f"{names.LABEL_JOB_UID}={metadata['uid']},{names.LABEL_ATTEMPT}={number}"
    found = core.list_namespaced_pod(metadata["namespace"], label_selector=labels)
    documents = [
        {"metadata": {"name": one.metadata.name, "annotations": one.metadata.annotations}} for one in found.items
    ]
    return sorted((pod_of(document) for document in documents), key=lambda pod: (pod.ranks or (1 << 30,), pod.name))


def _all_at_once(read: Callable[[WorkerPod], None], pods: Sequence[WorkerPod]) -> None:
    """One thread for each pod; the first error is raised when all have ended."""
    errors: list[BaseException] = []

    def guarded(pod: WorkerPod) -> None:
        try:
            read(pod)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(pod,), daemon=True) for pod in pods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _refusal(error: ApiException, job: str) -> str:
    try:
        said = str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        said = str(error.reason)
    return f"{job}: {said}"
