"""A cluster from outside: up, down, status.

`up` returns a `Cluster`. With `attached=True` the cluster ends with this process, however that ends: the supervisor
holds the other end of a socket that only this process has.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from pydantic import ValidationError

from cotenant_local.cluster import identities, ownership, planner, sandbox
from cotenant_local.cluster.api_faults import ApiFaults
from cotenant_local.cluster.spec import ClusterSpec
from cotenant_local.controlplane import components, control_socket
from cotenant_local.host import cgroup_claims, file_watches, folders, json_lines, user_ids
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.cluster_plan import ClusterPlan
from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import build
from cotenant_local.runtime.containers import images

STOP_GRACE_S: Final = 20.0


@dataclass
class Cluster:
    name: str
    state: ClusterFolder
    programs: Path
    lifeline: socket.socket | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.state.kubeconfig

    def command(self, program: str, *arguments: str) -> list[str]:
        """`kubectl` or `helm` of the cluster's own version, with this cluster's kubeconfig."""
        flag = {"kubectl": "--kubeconfig", "helm": "--kubeconfig"}[program]
        return [str(self.programs / "controlplane"), program, f"{flag}={self.kubeconfig}", *arguments]

    def kubectl(self, *arguments: str, stdin: str | None = None, expect: int = 0) -> str:
        """Runs kubectl and returns its output, errors last; raises LocalError for any other exit code than `expect`."""
        done = subprocess.run(
            self.command("kubectl", *arguments), input=stdin, capture_output=True, text=True, check=False
        )
        if done.returncode != expect:
            raise LocalError(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout if expect == 0 else done.stdout + done.stderr

    def api_faults(self, **faults: Any) -> None:
        """Makes the API server fail for clients outside and for pods, as `ApiFaults` says; no arguments: no faults."""
        try:
            wanted = ApiFaults(**faults).model_dump(by_alias=True) if faults else None
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise LocalError(f"faults of the API server: {'; '.join(problems)}") from error
        control_socket.request(self.state.control, do="faults", faults=wanted)

    def node(self, action: str, name: str) -> None:
        control_socket.request(self.state.control, do="node", action=action, name=name)


def up(
    name: str, spec: ClusterSpec, *, keep_in: Path | None = None, attached: bool = False, out: TextIO = sys.stderr
) -> Cluster:
    """Returns when every node is ready; raises LocalError, and then nothing is left of the cluster."""
    progress = Progress(out)
    # 1. What this machine must have, and what is built once.
    _check_machine(spec, progress)
    programs, stubs = build.programs(), build.stubs_path()
    oldest = build.oldest() if spec.oldest else None
    # 2. The folder: claimed by name, locked, emptied of what an earlier life left.
    cgroup_claims.sweep()
    state = ownership.claim(name, keep_in)
    with ownership.locked(state, name) as lock, ExitStack() as on_failure, _claimed_cgroup(name) as cgroup:
        if keep_in is None:
            on_failure.callback(ownership.forget, name, state)
        ownership.clear(state, kept=keep_in is not None)
        ownership.check_disk_space(state)
        if cgroup is None:
            progress.log(f"limits of CPU and memory are not enforced: {cgroup_claims.why_none()}")
        # 3. The plan, certificates and configuration: everything that the supervisor reads.
        ready = planner.Prerequisites(state, programs, stubs, oldest, cgroup.parent if cgroup else None)
        plan, listeners = planner.plan(name, spec, ready)
        _write_folder(state, plan, spec)
        # 4. The sandbox, with the supervisor as its first process.
        lifeline, far_end = socket.socketpair()
        fds = [far_end.fileno(), *(listener.fileno() for listener in listeners)]
        locks = [lock, *([cgroup.descriptor] if cgroup else [])]
        process = sandbox.start(state, fds, state.logs / "supervisor.log", locks)
        on_failure.callback(_kill, process)
        for handed_over in (far_end, *listeners):
            handed_over.close()
        # 5. Ready, or the reason why not; from now on the cluster stands alone, unless this process holds its lifeline.
        _wait_ready(lifeline, process, state, progress)
        if not attached:
            lifeline.sendall(json_lines.encode(detach=True))
            lifeline.close()
        on_failure.pop_all()
    return Cluster(name, state, programs, lifeline if attached else None)


def _check_machine(spec: ClusterSpec, progress: Progress) -> None:
    sandbox.check()
    file_watches.check(len(spec.nodes))
    for name, image in spec.images.items():
        if absent := [path for path in image.paths if not Path(path).exists()]:
            raise LocalError(f"image {name}: {', '.join(absent)} is not on this machine")
    if os.geteuid() and (why := user_ids.why_one()):
        progress.log(f"all containers run as one user: {why}")


def _write_folder(state: ClusterFolder, plan: ClusterPlan, spec: ClusterSpec) -> None:
    identities.create(state, plan)
    components.write_configuration(plan, state)
    more = {name: image.model_dump() for name, image in spec.images.items()}
    catalogue = images.default_catalogue(folders.checkout(), Path(sys.prefix), more=more)
    state.catalogue.write_text(json.dumps(catalogue, indent=1))
    plan.save(state.plan)


@contextlib.contextmanager
def _claimed_cgroup(name: str) -> Iterator[cgroup_claims.CgroupClaim | None]:
    """Claim of a cgroup, None without the right. The sandbox inherits it, as the folder's lock; ours is closed here."""
    claim = cgroup_claims.claim(name)
    try:
        yield claim
    finally:
        if claim:
            os.close(claim.descriptor)


def find(name: str) -> Cluster:
    """The cluster of that name; raises LocalError unless it is up."""
    state = ClusterFolder(folders.cluster(name))
    if not ownership.is_up(state):
        others = ", ".join(running()) or "none"
        raise LocalError(
            f"there is no cluster {name!r} up (up are: {others}). Start it: cotenant local up --name {name}"
        )
    return Cluster(name, state, ClusterPlan.load(state.plan).programs)


def running() -> list[str]:
    home = folders.clusters()
    return sorted(f.name for f in home.iterdir() if ownership.is_up(ClusterFolder(f))) if home.is_dir() else []


def known() -> list[str]:
    """Every name with something on disk, up or not."""
    home = folders.clusters()
    return sorted(f.name for f in home.iterdir()) if home.is_dir() else []


def status(name: str) -> dict[str, Any]:
    return control_socket.request(find(name).state.control, do="status")


def down(name: str) -> bool:
    """Ends the cluster and removes its folder, but not a folder given with --state. False: there was nothing."""
    folder = folders.cluster(name)
    if not folder.is_symlink() and not folder.exists():
        return False
    state = ClusterFolder(folder)
    if ownership.is_up(state):
        _stop_sandbox(state)
    ownership.forget(name, ClusterFolder(folder.resolve()) if folder.is_symlink() else state)
    return True


def _stop_sandbox(state: ClusterFolder) -> None:
    pid, seconds = _first_pid(state), 1.0
    with contextlib.suppress(OSError, LocalError):
        control_socket.request(state.control, do="stop", timeout=5.0)
        seconds = STOP_GRACE_S
    if ownership.wait_down(state, seconds):
        return
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if not ownership.wait_down(state, STOP_GRACE_S):
        raise LocalError(f"the processes that hold {state.lock} do not end; see: fuser -v {state.lock}")


def _first_pid(state: ClusterFolder) -> int | None:
    """The first process of the sandbox, in this PID namespace: the one that listens on the control socket."""
    with contextlib.suppress(OSError):
        return control_socket.peer(state.control)
    return None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _wait_ready(
    lifeline: socket.socket, process: "subprocess.Popen[bytes]", state: ClusterFolder, progress: Progress
) -> None:
    with lifeline.makefile("rb") as lines:
        for line in lines:
            message = json.loads(line)
            if "progress" in message:
                progress.log(message["progress"])
            if "failed" in message:
                raise LocalError(f"the cluster does not come up: {message['failed']}")
            if message.get("ready"):
                progress.log(f"cluster ready after {message['seconds']} s")
                return
    process.wait()
    from cotenant_local.host.processes import tail

    raise LocalError(f"the cluster's supervisor ended while starting:\n{tail(state.logs / 'supervisor.log')}")


def tools_folder(cluster: Cluster) -> Path:
    """A folder for PATH with `kubectl` and `helm` of the cluster's version, for users without their own."""
    folder = cluster.state.path / "bin"
    folder.mkdir(exist_ok=True)
    for program in ("kubectl", "helm"):
        script = folder / program
        script.write_text(f'#!/bin/sh\nexec {cluster.programs / "controlplane"} {program} "$@"\n')
        script.chmod(0o755)
    return folder
