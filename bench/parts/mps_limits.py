"""Whether MPS v3 holds a process to its share of a GPU's compute, by the agent's own daemon and commands."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.parts.gpu_processes import MIB, SHARE, Child, GpuBench
from cotenant_agent.mps.configuration import MpsError, NamespaceLimits, configuration, gpu_folder
from cotenant_agent.mps.control_program import PROGRAM
from cotenant_agent.mps.gpu_daemon import GpuDaemon
from tests.agent.mps.ready_daemon import wait_ready

NAMESPACE = "share"


def compute_limits_hold(bench: GpuBench) -> None:
    """A client in a namespace of 40 %: multiprocessors that it has, limits as read back, whether it is seen there; then
    the same program without the variable.
    """
    name = "MPS v3 holds a namespace to its compute"
    control = shutil.which(PROGRAM)
    if control is None:
        bench.add(name, None, f"not measured: there is no {PROGRAM} here")
        return
    asked = NamespaceLimits(compute_percent=int(SHARE * 100), memory_mib=int(bench.total * SHARE) // MIB)
    whole = multiprocessors(bench, {})
    with tempfile.TemporaryDirectory(prefix="mps-", dir="/dev/shm") as root:
        folder = gpu_folder(Path(root), bench.uuid)
        folder.path.mkdir()
        folder.file.write_text(configuration(bench.uuid, {NAMESPACE: asked}))
        daemon = GpuDaemon(folder, control, multi_user=False)
        try:
            daemon.start()
            wait_ready(daemon)
        except MpsError as error:
            daemon.stop()
            print(error)
            bench.add(name, None, "not measured: this driver has no MPS v3, r615 and later have")
            return
        try:
            read_back = daemon.control.namespaces()[NAMESPACE]
            pipe = {"CUDA_MPS_PIPE_DIRECTORY": str(folder.namespace(NAMESPACE))}
            child = Child("multiprocessors", env=bench.plain() | pipe)
            found, seen = child.answer(), daemon.control.namespace_of(child.process.pid)
            listed = daemon.control.clients().get(child.process.pid, "")
            child.end()
            beside = multiprocessors(bench, {})
        finally:
            daemon.stop()
    held = found["multiprocessors"] <= whole * SHARE + 1 and seen == listed == NAMESPACE and read_back == asked
    text = (
        f"{found['multiprocessors']} of {whole} multiprocessors at {asked.compute_percent} %; read back:"
        f" {read_back.compute_percent} %, {read_back.memory_mib} MiB; seen in namespace {seen or 'none'},"
        f" listed in {listed or 'none'}"
    )
    bench.add(name, held, text, whole=whole, namespace=seen, **found)
    text = f"{beside} multiprocessors: only a GPU for one process at a time keeps this out"
    bench.add("… without the variable (known bypass)", None, text, multiprocessors=beside)


def multiprocessors(bench: GpuBench, variables: dict[str, str]) -> int:
    child = Child("multiprocessors", env=bench.plain() | variables)
    found = int(child.answer()["multiprocessors"])
    child.end()
    return found
