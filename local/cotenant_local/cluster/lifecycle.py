"""A cluster from outside: up, down, status. Used by `cotenant local`, by the demo and by the tests' fixture.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from cotenant_local.cluster import identities, ownership, planner, sandbox
from cotenant_local.cluster.api_faults import ApiFaults
from cotenant_local.cluster.spec import ClusterSpec
from cotenant_local.controlplane import components, control_socket
from cotenant_local.host import cgroup_claims, folders, user_ids
from cotenant_local.host.cluster_folder import ClusterFolder, ClusterPlan
from cotenant_local.host.errors import LocalError
from cotenant_local.host.progress import Progress
from cotenant_local.programs import build
from cotenant_local.runtime.containers import images

STOP_GRACE_S = 20.0


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
        """What it printed, errors last; anything but the expected exit code is raised."""
        done = subprocess.run(
            self.command("kubectl", *arguments), input=stdin, capture_output=True, text=True, check=False
        )
        if done.returncode != expect:
            raise LocalError(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout if expect == 0 else done.stdout + done.stderr

    def api_faults(self, **faults: Any) -> None:
        """What clients outside and pods meet from now on; no arguments: no faults. `ApiFaults` has the names."""
        try:
            wanted = ApiFaults(**faults).model_dump(by_alias=True) if faults else None
        except ValidationError as error:
            said = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise LocalError(f"faults of the API server: {'; '.join(said)}") from error
        control_socket.request(self.state.control, do="faults", faults=wanted)

    def node(self, action: str, name: str) -> None:
        control_socket.request(self.state.control, do="node", action=action, name=name)


def up(
    name: str, spec: ClusterSpec, *, keep_in: Path | None = None, attached: bool = False, out: TextIO = sys.stderr
) -> Cluster:
    progress = Progress(out)
    sandbox.check()
    _check_images(spec)
    if os.geteuid() and (why := user_ids.why_one()):
        progress.log(f"all containers run as one user: {why}")
    programs, stubs = build.programs(), build.stubs_path()
    oldest = build.oldest() if spec.oldest else None
    cgroup_claims.sweep()
    state = ownership.claim(name, keep_in)
    with ownership.locked(state, name) as lock, contextlib.ExitStack() as on_failure, _claimed_cgroup(name) as group:
        if keep_in is None:
            on_failure.callback(ownership.forget, name, state)
        ownership.clear(state, kept=keep_in is not None)
        ownership.check_disk_space(state)
        places = planner.Prerequisites(state, programs, stubs, oldest, group.parent if group else None)
        if group is None:
            progress.log(f"limits of CPU and memory are not enforced: {cgroup_claims.why_none()}")
        plan, listeners = planner.plan(name, spec, places)
        identities.create(state, plan)
        components.write_configuration(state)
        more = {name: image.model_dump() for name, image in spec.images.items()}
        catalogue = images.default_catalogue(folders.checkout(), Path(sys.prefix), more=more)
        state.catalogue.write_text(json.dumps(catalogue, indent=1))
        plan.save(state.plan)
        here, there = socket.socketpair()
        fds = [there.fileno(), *(listener.fileno() for listener in listeners)]
        locks = [lock, *([group.descriptor] if group else [])]
        process = sandbox.start(state, fds, state.logs / "supervisor.log", locks)
        on_failure.callback(_kill, process)
        for finished in (there, *listeners):
            finished.close()
        _wait_ready(here, process, state, progress)
        if not attached:
            here.sendall(b'{"detach": true}\n')
            here.close()
        on_failure.pop_all()
    return Cluster(name, state, programs, here if attached else None)


def _check_images(spec: ClusterSpec) -> None:
    for name, image in spec.images.items():
        if absent := [path for path in image.paths if not Path(path).exists()]:
            raise LocalError(f"image {name}: {', '.join(absent)} is not on this machine")


@contextlib.contextmanager
def _claimed_cgroup(name: str) -> Iterator[cgroup_claims.CgroupClaim | None]:
    """The claim on a cgroup goes to the sandbox, as the folder's lock does."""
    claim = cgroup_claims.claim(name)
    try:
        yield claim
    finally:
        if claim:
            os.close(claim.descriptor)


def find(name: str) -> Cluster:
    """A cluster that is up."""
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
    """Up or not: every name with something on disk."""
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
    """The sandbox's first process, in this PID namespace: the kernel says who listens on the control socket."""
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
    """For a PATH: `kubectl` and `helm` of the cluster's own version, as far as the user has none of their own."""
    folder = cluster.state.path / "bin"
    folder.mkdir(exist_ok=True)
    for program in ("kubectl", "helm"):
        script = folder / program
        script.write_text(f'#!/bin/sh\nexec {cluster.programs / "controlplane"} {program} "$@"\n')
        script.chmod(0o755)
    return folder
