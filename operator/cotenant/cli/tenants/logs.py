"""`cotenant logs JOB`: what all ranks of a job print, each line with its rank, read through the API server.

Pods are read as `kubectl logs` reads them, with the caller's rights. If the pods of an attempt are gone, the job's
status says how it ended and has the last lines of the rank that failed.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final
from urllib.parse import urlencode

from cotenant import names
from cotenant.cli.errors import EXIT_UNAVAILABLE, UserError
from cotenant.cli.tenants.jobs import FINISHED
from cotenant.cli.terminal import followed_log
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.plain_stream import byte_output
from cotenant.cli.terminal.refusals import BadRequestError
from cotenant.sdk.job_paths import PodPaths, ranks_of

STREAMS_MAX: Final = 64
"""At most this many pods are read at once."""
PAUSE_S: Final = 1.0
"""Seconds before a pod that has not started yet is asked again."""
LAUNCHER: Final = b"cotenant: "
"""Prefix of lines that the pod's launcher prints."""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "logs", run, "print the output of all ranks of a job, each line with its rank")
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until the attempt ends")
    parser.add_argument("--rank", type=int, metavar="N", help="only lines of this rank")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--attempt", type=int, metavar="N", help="lines of this attempt (default: the last)")
    chosen.add_argument("-p", "--previous", action="store_true", help="lines of the attempt before the last")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines of each pod")


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """One pod of an attempt."""

    name: str
    ranks: tuple[int, ...]
    """The ranks in the pod; empty for a parameter server and for the evaluator."""

    def prefix_of(self, line: bytes) -> bytes:
        """Prefix of a line. If the pod has several ranks, the line itself names its rank."""
        if line.startswith(LAUNCHER) or not self.ranks:
            return b"[%s] " % self.name.encode()
        return b"[rank %d] " % self.ranks[0] if len(self.ranks) == 1 else b""

    def shows(self, line: bytes, rank: int | None) -> bool:
        """True if the line belongs to this rank. The launcher's lines belong to all ranks of the pod."""
        several = rank is not None and len(self.ranks) > 1 and not line.startswith(LAUNCHER)
        return not several or line.startswith(b"[rank %d] " % (rank or 0))


def pod_of(document: Mapping[str, Any]) -> WorkerPod:
    """The pod from its document. The operator's annotations are used for display alone."""
    return WorkerPod(document["metadata"]["name"], ranks_of(document))


@dataclass(slots=True)
class Printer:
    """Prints whole lines of several streams without mixing them."""

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
    connection, name = named(args, args.job)
    return show(connection, connection.read(name.path), args)


def show(connection: Connection, job: Mapping[str, Any], args: argparse.Namespace) -> int:
    """Print one attempt of the job, from its pods, or from its status if the pods are gone."""
    status = job.get("status") or {}
    metadata, last = job["metadata"], PodPaths.attempts_of(job)
    cluster = status.get("cluster") or {}
    number = args.attempt or last - bool(args.previous)
    if not 1 <= number <= last:
        had = f"it has had {last} of them" if last else f"it has not started yet ({status.get('reason', 'Pending')})"
        raise UserError(f"there is no attempt {number or 1} of {metadata['name']}: {had}", 3)
    place = PodPaths.of(job)
    pods = _pods(connection, place, number)
    goes_on = status.get("placement") or (cluster and status.get("phase") not in FINISHED)
    while args.follow and not pods and number == last and goes_on:
        time.sleep(PAUSE_S)
        pods = _pods(connection, place, number)
    chosen = [pod for pod in pods if args.rank is None or args.rank in pod.ranks]
    if not pods:
        print("\n".join(kept_lines(status, number)))
        return 0
    if not chosen:
        raise UserError(f"attempt {number} of {metadata['name']} has no rank {args.rank}", 3)
    if len(chosen) > STREAMS_MAX:
        raise UserError(f"{len(chosen)} pods are too many to read at once: choose one with --rank", 2)
    several = len(chosen) > 1 or len(chosen[0].ranks) > 1
    printer = Printer(byte_output(), args.rank)

    def read(pod: WorkerPod) -> None:
        printer.copy(pod, stream(connection, place, pod, args), prefixed=several)

    try:
        _all_at_once(read, chosen)
    except BadRequestError:  # of --follow it is waited for
        if status.get("phase") != "Starting":
            raise
        said = f"{metadata['namespace']}/{metadata['name']} prints nothing yet, it is Starting: {status.get('message')}"
        raise UserError(f"{said}; --follow waits for its output", EXIT_UNAVAILABLE) from None
    return 0


def kept_lines(status: Mapping[str, Any], number: int) -> Iterator[str]:
    """What the status keeps of an attempt whose pods are gone."""
    ends = [*(status.get("earlierExits") or ()), *([status["lastExit"]] if status.get("lastExit") else ())]
    found = next((one for one in reversed(ends) if one.get("attempt") == number), None)
    if found is None:
        raise UserError(f"the pods of attempt {number} are gone, and nothing is known of its end any more", 3)
    yield from found.get("tail") or ()
    said = found.get("message") or f"{found.get('reason')} ({found.get('code')})"
    print(f"cotenant: the pods of attempt {number} are gone; it ended so: {said}", file=sys.stderr)


def stream(connection: Connection, place: PodPaths, pod: WorkerPod, args: argparse.Namespace) -> Iterator[bytes]:
    """Print what the pod has printed, and with `--follow` what it prints until it ends."""
    query = {"container": names.CONTAINER}
    query |= {"tailLines": str(args.tail)} if args.tail is not None else {}
    if args.follow:
        return followed_log.follow(connection, place.log(pod.name), query, pod=place.pod(pod.name), pause_s=PAUSE_S)
    return connection.stream(f"{place.log(pod.name)}?{urlencode(query)}", endless=False)


def _pods(connection: Connection, place: PodPaths, number: int) -> list[WorkerPod]:
    path, query = place.pods(number)
    found = connection.read(f"{path}?{urlencode(query)}")
    return sorted((pod_of(one) for one in found["items"]), key=lambda pod: (pod.ranks or (1 << 30,), pod.name))


def _all_at_once(read: Callable[[WorkerPod], None], pods: Sequence[WorkerPod]) -> None:
    """Read every pod in a thread of its own. The first error is raised when all threads have ended."""
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
