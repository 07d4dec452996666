"""From what the kubelet asks to what the shim does, in one function. What cannot be honoured is refused here, by name.

The result is the JSON document that `inside/` reads; nothing in it needs the interface's types.
"""

import os
from typing import Any

from cotenant_local.runtime import filesystem, program, refusals
from cotenant_local.runtime.images import Image
from cotenant_local.runtime.limits import unenforced
from cotenant_local.runtime.place import Place

KINDS = ("net", "uts", "ipc")


def build(config: Any, image: Image, place: Place) -> dict[str, Any]:
    """The whole document; raises RefusedError."""
    security = config.linux.security_context
    refusals.check(config)
    process, notes = program.build(config, image, place)
    group = place.group
    mounts = filesystem.in_order([*filesystem.mounts(config.mounts), *place.devices.mounts])
    if group is None and (missing := unenforced(config.linux.resources)):
        notes.append(missing)
    if program.asks_for_default(security, "apparmor", security.apparmor_profile):
        notes.append("AppArmor profile RuntimeDefault is not applied: AppArmor is not provided")
    base = f"/proc/{place.sandbox_pid}/ns/"
    return {
        "folder": place.folder,
        "root": f"{place.folder}/root",
        "namespaces": {**{k: base + k if k in place.own else "" for k in KINDS}, "pid": place.pid_namespace},
        "readonly_root": security.readonly_rootfs,
        "privileged": security.privileged,
        "binds": filesystem.layered(filesystem.image_binds(image), (group.shown() if group else []) + mounts),
        "devices": [*filesystem.devices(config.devices), *place.devices.devices, *filesystem.gpus(process, place)],
        "shm": place.shm,
        "folders": filesystem.FOLDERS,
        "files": program.account_files(process, place),
        "links": {
            "/etc/mtab": "/proc/self/mounts",
            "/var/run": "/run",
            "/var/lock": "/run/lock",
            **filesystem.host_links(),
        },
        "masked_paths": [] if security.privileged else list(security.masked_paths),
        "readonly_paths": [] if security.privileged else list(security.readonly_paths),
        "process": process,
        "tty": config.tty,
        "stdin": config.stdin,
        "stdin_once": config.stdin_once,
        "log_path": os.path.join(place.log_directory, config.log_path) if config.log_path else "",
        "cgroup_files": group.files() if group else [],
        "oom_file": group.oom_file if group else "",
        "cgroup_folder": bool(group and not group.unified),
        "notes": notes,
    }
