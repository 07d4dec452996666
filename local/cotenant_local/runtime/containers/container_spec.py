"""The spec of a container: the kubelet's request in the form that the shim carries out. Unsupported fields are refused.

The result is the JSON document that `inside/` reads; nothing in it needs the interface's types.
"""

import os
from typing import Any

from cotenant_local.runtime.containers import mount_spec, process_spec
from cotenant_local.runtime.containers.container_environment import ContainerEnvironment
from cotenant_local.runtime.containers.images import Image
from cotenant_local.runtime.interface import unsupported
from cotenant_local.runtime.isolation.cgroup_settings import unenforced

KINDS = ("net", "uts", "ipc")


def build(config: Any, image: Image, environment: ContainerEnvironment) -> dict[str, Any]:
    """The whole document; raises UnsupportedError."""
    security = config.linux.security_context
    unsupported.reject_container(config)
    process, notes = process_spec.build(config, image, environment)
    cgroup = environment.cgroup
    mounts = mount_spec.in_order([*mount_spec.mounts(config.mounts), *environment.devices.mounts])
    if cgroup is None and (missing := unenforced(config.linux.resources)):
        notes.append(missing)
    if process_spec.asks_for_default(security, "apparmor", security.apparmor_profile):
        notes.append("AppArmor profile RuntimeDefault is not applied: AppArmor is not provided")
    base = f"/proc/{environment.sandbox_pid}/ns/"
    return {
        "folder": environment.folder,
        "root": f"{environment.folder}/root",
        "namespaces": {
            **{k: base + k if k in environment.private_namespaces else "" for k in KINDS},
            "pid": environment.pid_namespace,
        },
        "readonly_root": security.readonly_rootfs,
        "privileged": security.privileged,
        "binds": mount_spec.layered(mount_spec.image_binds(image), (cgroup.shown() if cgroup else []) + mounts),
        "devices": [
            *mount_spec.devices(config.devices),
            *environment.devices.devices,
            *mount_spec.gpus(process, environment),
        ],
        "shm": environment.shm,
        "folders": mount_spec.FOLDERS,
        "files": process_spec.account_files(process, environment),
        "links": {
            "/etc/mtab": "/proc/self/mounts",
            "/var/run": "/run",
            "/var/lock": "/run/lock",
            **mount_spec.host_links(),
        },
        "masked_paths": [] if security.privileged else list(security.masked_paths),
        "readonly_paths": [] if security.privileged else list(security.readonly_paths),
        "process": process,
        "tty": config.tty,
        "stdin": config.stdin,
        "stdin_once": config.stdin_once,
        "log_path": os.path.join(environment.log_directory, config.log_path) if config.log_path else "",
        "cgroup_files": cgroup.files() if cgroup else [],
        "oom_file": cgroup.oom_file if cgroup else "",
        "cgroup_folder": bool(cgroup and not cgroup.unified),
        "notes": notes,
    }
