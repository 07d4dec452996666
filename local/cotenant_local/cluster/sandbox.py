"""The set of namespaces that a cluster lives in: whether this machine allows it, and starting it.

Runs as root, or as an ordinary user in a user namespace. `unshare --kill-child` and the PID namespace
guarantee that nothing is left behind: when the first process inside dies, the kernel kills all others.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from cotenant_local.host import user_ids
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.errors import LocalError

PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "nft": "nftables"}
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSTALLERS = {
    "apt-get": "apt-get install -y {packages}",
    "dnf": "dnf install -y {packages}",
    "zypper": "zypper --non-interactive install {packages}",
    "pacman": "pacman -S --noconfirm {packages}",
    "apk": "apk add {packages}",
}
PACKAGES = {"dnf": {"iproute2": "iproute"}}
SWITCHES = (
    # (file, value that forbids, command that allows)
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=10000"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


GOGC: Final = "400"
"""Percent by which a heap grows between two collections. With Go's 100 they take a fifth of the CPU of an API server
that has just started. With 400 it holds some 100 MB more.
"""


def environment() -> dict[str, str]:
    """System programs are found though the user's PATH has no /usr/sbin; proxies and Go settings stay outside."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}".lstrip(":")
    dropped = {"KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "GOFLAGS", "GODEBUG"}
    return {**{k: v for k, v in os.environ.items() if k not in dropped}, "PATH": path, "GOGC": GOGC}


def check() -> None:
    """Refuses early, with the command that helps."""
    if sys.platform != "linux":
        raise LocalError("the local cluster needs Linux; elsewhere use it in a virtual machine.")
    path = environment()["PATH"]
    if missing := {package for name, package in PROGRAMS.items() if not shutil.which(name, path=path)}:
        _install(sorted(missing), path)
    done = subprocess.run(
        [*_unshare(), "true"], capture_output=True, text=True, check=False, env=environment(), cwd="/"
    )
    if done.returncode:
        raise LocalError(_explain_refusal(done.stderr.strip()))


def start(state: ClusterFolder, fds: list[int], log: Path, locks: list[int]) -> subprocess.Popen[bytes]:
    """`fds` are the supervisor's arguments; `locks` are only inherited: held as long as it lives."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [
                *_unshare(),
                sys.executable,
                "-m",
                "cotenant_local.controlplane.supervisor",
                str(state.path),
                *map(str, fds),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(),
            cwd="/",
            pass_fds=[*fds, *locks],
            start_new_session=True,  # the terminal's Ctrl-C is for `up`, which then ends this in order
        )


def _unshare() -> list[str]:
    kinds = ["--mount", "--net", "--pid", "--ipc", "--uts"]
    return ["unshare", *user_ids.flags(), *kinds, "--fork", "--kill-child", "--mount-proc"]


def _install(packages: list[str], path: str) -> None:
    installer = next((name for name in INSTALLERS if shutil.which(name, path=path)), None)
    if installer is None:
        raise LocalError(f"programs are missing: install {' and '.join(packages)} and try again.")
    names = [PACKAGES.get(installer, {}).get(package, package) for package in packages]
    command = INSTALLERS[installer].format(packages=" ".join(names))
    if os.geteuid() != 0:
        raise LocalError(f"the packages {' and '.join(names)} are missing. Run: sudo {command}")
    print(f"» {command}", file=sys.stderr)
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        raise LocalError(f"`{command}` failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")


def _explain_refusal(output: str) -> str:
    if os.geteuid() == 0:
        return (
            f"this process may not create namespaces (unshare said: {output}). In a container, run it privileged "
            "(for example with --privileged, or --cap-add SYS_ADMIN,NET_ADMIN and unconfined seccomp and AppArmor)."
        )
    for file, forbidding, command in SWITCHES:
        try:
            forbidden = Path(file).read_text().strip() == forbidding
        except OSError:
            continue
        if forbidden:
            return (
                f"this machine does not let ordinary users create namespaces: {file} is {forbidding}. "
                f"Run: {command}\nor run the same command as root."
            )
    return (
        f"this machine does not let you create namespaces (unshare said: {output}). In a container, run it privileged; "
        "elsewhere run the same command as root."
    )
