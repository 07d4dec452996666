"""`cotenant session open|list|stop|resume`: notebooks, editors and shells on a share of a GPU, from this machine.

`open` uses kubectl with the caller's own rights: it reads the application's token in its pod (`pods/exec`) and forwards
its port (`pods/portforward`). So the pod needs no network access from outside, and no server keeps the token.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from cotenant import names
from cotenant.cli.errors import EXIT_REFUSED, UserError
from cotenant.cli.tenants.access.attach import SHELL
from cotenant.cli.tenants.jobs import EVERY_S, FINISHED, WAIT_S, exists, phase_of, suspend
from cotenant.cli.tenants.pods import kubectl, kubectl_words, pod_of_rank
from cotenant.cli.terminal.cluster_verb import add_timeout, cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.object_names import ObjectName, named
from cotenant.cli.terminal.output import table
from cotenant.cli.terminal.watch import looks, show_found
from cotenant.sdk.job_paths import object_path

ENDED: Final = ("Ended", "Failed")
TRIES: Final = 120
"""How often the token is asked for. It exists as soon as the application listens."""
PAGE: Final = {"JupyterLab": "lab"}

Session = Mapping[str, Any]


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("session", help="open, list, stop or resume notebooks, editors and shells")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    opened = cluster_verb(actions, "open", open_session, "forward a session to this machine, and print its address")
    opened.add_argument("session", metavar="SESSION", help="NAME, or NAMESPACE/NAME")
    opened.add_argument("--port", type=int, default=0, help="port on this machine (default: any free one)")
    add_timeout(opened, WAIT_S, "how long to wait until the session runs")
    cluster_verb(actions, "list", list_sessions, "list the sessions of a namespace", all_namespaces=True, watched=True)
    for name, act, text in (
        ("stop", stop, "stop a session: its GPUs become free, its volume stays"),
        ("resume", resume, "resume a stopped session, or start an ended one again"),
    ):
        action = cluster_verb(actions, name, act, text)
        action.add_argument("session", metavar="SESSION", help="NAME, or NAMESPACE/NAME")


def open_session(args: argparse.Namespace) -> int:
    connection, name = named(args, args.session, "session")
    session = _running(connection, name, args.timeout)
    job = ObjectName(name.namespace, session["status"]["job"])
    pod = pod_of_rank(connection, job, 0).name
    if session["spec"]["application"] == "Shell":
        terminal = ["-t"] if sys.stdin.isatty() else []
        return kubectl(args, name.namespace, ["exec", "-i", *terminal, pod, "-c", names.CONTAINER, "--", *SHELL])
    served = _served(args, name, pod)
    port = args.port or _free_port(served["port"])
    print(address(session["spec"]["application"], served, port), flush=True)
    return kubectl(args, name.namespace, ["port-forward", f"pod/{pod}", f"{port}:{served['port']}"])


def address(application: str, served: Mapping[str, Any], port: int) -> str:
    """Address for a browser, and the password if the application asks for one in a form."""
    place = f"http://127.0.0.1:{port}{served['path']}"
    if application == "JupyterLab":
        return f"{place}{PAGE[application]}?token={served['token']}"
    return f"{place}   password: {served['token']}" if application == "CodeServer" else place


def list_sessions(args: argparse.Namespace) -> int:
    connection = connect(args)
    read = partial(connection.read, object_path("sessions", "" if args.all_namespaces else connection.namespace))
    return show_found(args, read, lambda found, wide: [listing(found["items"], wide=wide)], "session")


def listing(sessions: Iterable[Session], *, wide: bool) -> str:
    rows = []
    for one in sessions:
        spec, status = one["spec"], one.get("status") or {}
        name = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        moments = [status.get(field) or "-" for field in ("lastActivity", "suspendsAt", "endsAt")]
        more = (status.get("job") or "-",) if wide else ()
        rows.append((name, spec["application"], spec["queue"], status.get("phase") or "Pending", *moments, *more))
    header = (
        "SESSION",
        "APPLICATION",
        "QUEUE",
        "PHASE",
        "LAST ACTIVITY",
        "SUSPENDS",
        "ENDS",
        *(("JOB",) if wide else ()),
    )
    return table(header, rows) if rows else "There are no sessions here."


def stop(args: argparse.Namespace) -> int:
    connection, name = named(args, args.session, "session")
    session = connection.read(name.path)
    if session["spec"].get("suspend"):
        print(f"{name} was stopped before.")
        return 0
    suspend(connection, name.path, session, True)
    kept = "its volume is kept" if session["spec"].get("volume") else "it has no volume, so its files go"
    print(f"{name} gives its GPUs back; {kept}.")
    return 0


def resume(args: argparse.Namespace) -> int:
    connection, name = named(args, args.session, "session")
    session = connection.read(name.path)
    status = session.get("status") or {}
    job = ObjectName(name.namespace, str(status.get("job") or ""))
    if not session["spec"].get("suspend") and status.get("phase") not in ENDED:
        print(f"{name} was not stopped: it is {status.get('phase') or 'Pending'}.")
        return 0
    if job.name and exists(connection, job):
        there = connection.read(job.path)
        if phase_of(there) in FINISHED:
            connection.call("DELETE", job.path, {"preconditions": {"uid": there["metadata"]["uid"]}})
    if session["spec"].get("suspend"):
        suspend(connection, name.path, session, False)
    print(f"{name} waits for its place again.")
    return 0


def _running(connection: Connection, name: ObjectName, timeout_s: float) -> Session:
    """Wait until the session runs. Raises UserError if it cannot, or not in time."""
    last = ""
    for session in looks(connection, name.path, timeout_s, EVERY_S):
        status = session.get("status") or {}
        phase, message = str(status.get("phase") or "Pending"), str(status.get("message") or "")
        if phase == "Running":
            return session
        if _stays_so(connection, name, session):
            raise UserError(f"{name} is {phase}: {message}", EXIT_REFUSED)
        if (now := f"{name} is {phase}: {message}") != last:
            print(now, file=sys.stderr, flush=True)
            last = now
    raise UserError(f"{name} is {phase} after {timeout_s:.0f} s: {message}", EXIT_REFUSED)


def _stays_so(connection: Connection, name: ObjectName, session: Session) -> bool:
    """True if the session will not run before somebody resumes it. Just after a `resume` the status is the old one: the
    job that recorded the end is gone, or the spec does not suspend it any more.
    """
    status = session.get("status") or {}
    if status.get("phase") in ENDED:
        return exists(connection, ObjectName(name.namespace, str(status.get("job") or name.name)))
    return status.get("phase") in ("Suspending", "Suspended") and bool(session["spec"].get("suspend"))


def _served(args: argparse.Namespace, name: ObjectName, pod: str) -> dict[str, Any]:
    """Port, path and token of the application, read in its pod."""
    words = ["exec", pod, "-c", names.CONTAINER, "--", "cat", names.SESSION_FILE]
    for attempt in range(TRIES):
        done = subprocess.run(
            kubectl_words(args, name.namespace, words), capture_output=True, text=True, check=False, env=os.environ
        )
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout)
            return found
        if "orbidden" in done.stderr or attempt == TRIES - 1:
            break
        time.sleep(EVERY_S)
    raise UserError(f"the token of {name} cannot be read in its pod: {done.stderr.strip()[:500]}", EXIT_REFUSED)


def _free_port(wanted: int) -> int:
    """The same port on this machine if it is free, otherwise another."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return wanted
