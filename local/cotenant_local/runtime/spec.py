"""From what the kubelet asks to what the shim does, in one function. What cannot be honoured is refused here, by name.

The result is the JSON document that `inside/` reads; nothing in it needs the interface's types.
"""

import dataclasses
import os
from typing import Any

from cotenant_local.runtime import nvidia, proto, users
from cotenant_local.runtime.cdi import Edits
from cotenant_local.runtime.cgroups import Group
from cotenant_local.runtime.images import PATH, Image
from cotenant_local.runtime.limits import unenforced

NONROOT_NAMES = {"root": (0, 0), "nonroot": (65532, 65532), "nobody": (65534, 65534)}
ETC_NAMES = """
alternatives bash.bashrc ca-certificates ca-certificates.conf debian_version fonts gai.conf host.conf inputrc
ld.so.cache ld.so.conf ld.so.conf.d localtime magic magic.mime mime.types nsswitch.conf os-release pki profile
profile.d protocols python3 python3.11 python3.12 python3.13 rpc services shells ssl
terminfo timezone xdg
"""
ETC = tuple(ETC_NAMES.split())
KINDS = ("net", "uts", "ipc")
TOP = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
FOLDERS = {
    **dict.fromkeys(
        ("/proc", "/sys", "/dev", "/run", "/var", "/var/log", "/var/lib", "/var/cache", "/var/spool"), 0o755
    ),
    **dict.fromkeys(("/etc", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/run/lock"), 0o755),
    **dict.fromkeys(("/tmp", "/var/tmp", "/home/nonroot"), 0o1777),
}


class RefusedError(ValueError):
    """The pod asks for something that this runtime cannot do; the message goes into the container's status."""


@dataclasses.dataclass(frozen=True)
class Place:
    """What the container finds where it starts: facts of the node and of its pod."""

    folder: str
    ids: users.IdMap
    sandbox_pid: int
    own: tuple[str, ...]
    """The namespaces that the pod has for itself; the others are the node's, which every container starts in."""
    hostname: str
    address: str
    resolv_conf: str
    shm: str
    pid_namespace: str
    """"new", a path, or "" for the sandbox's own."""
    log_directory: str
    group: Group | None = None
    devices: Edits = dataclasses.field(default_factory=Edits)
    """Of the CDI devices that the container was given."""
    handler: str = ""
    """The pod's runtime class, as the runtime names it."""


def build(config: Any, image: Image, place: Place) -> dict[str, Any]:
    """The whole document; raises RefusedError."""
    security = config.linux.security_context
    _refuse(config, security)
    process, notes = _process(config, image, place)
    group = place.group
    mounts = _in_order([*_mounts(config.mounts), *place.devices.mounts])
    if group is None and (missing := unenforced(config.linux.resources)):
        notes.append(missing)
    if _asks_for_default(security, "apparmor", security.apparmor_profile):
        notes.append("AppArmor profile RuntimeDefault is not applied: AppArmor is not provided")
    base = f"/proc/{place.sandbox_pid}/ns/"
    return {
        "folder": place.folder,
        "root": f"{place.folder}/root",
        "namespaces": {**{k: base + k if k in place.own else "" for k in KINDS}, "pid": place.pid_namespace},
        "readonly_root": security.readonly_rootfs,
        "privileged": security.privileged,
        "binds": _layered(_image_binds(image), (group.shown() if group else []) + mounts),
        "devices": [*_devices(config.devices), *place.devices.devices, *_gpus(process, place)],
        "shm": place.shm,
        "folders": FOLDERS,
        "files": _files(process, place),
        "links": {"/etc/mtab": "/proc/self/mounts", "/var/run": "/run", "/var/lock": "/run/lock", **_host_links()},
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


def _refuse(config: Any, security: Any) -> None:
    profile = proto.pb.SecurityProfile
    if security.seccomp.profile_type == profile.Localhost or security.seccomp_profile_path.startswith("localhost/"):
        name = security.seccomp.localhost_ref or security.seccomp_profile_path
        raise RefusedError(f"seccomp profile {name!r}: only RuntimeDefault and Unconfined are provided")
    if security.apparmor.profile_type == profile.Localhost or security.apparmor_profile.startswith("localhost/"):
        name = security.apparmor.localhost_ref or security.apparmor_profile
        raise RefusedError(f"AppArmor profile {name!r}: AppArmor is not provided")
    selinux = security.selinux_options
    if any((selinux.user, selinux.role, selinux.type, selinux.level)):
        raise RefusedError("seLinuxOptions: SELinux is not provided")
    if security.capabilities.add_ambient_capabilities:
        raise RefusedError("ambient capabilities are not provided")
    refuse_user_namespace(security.namespace_options)
    for mount in config.mounts:
        if mount.HasField("image"):
            raise RefusedError(f"mount {mount.container_path}: image volumes are not provided")
        if mount.recursive_read_only and (not mount.readonly or mount.propagation != proto.pb.PROPAGATION_PRIVATE):
            raise RefusedError(f"mount {mount.container_path}: recursiveReadOnly needs readOnly and no propagation")
        if mount.uidMappings or mount.gidMappings:
            raise RefusedError(f"mount {mount.container_path}: id-mapped mounts are not provided")


def refuse_user_namespace(options: Any) -> None:
    """Of a pod or of a container: `hostUsers: false`."""
    if options.HasField("userns_options") and options.userns_options.mode != proto.pb.NODE:
        raise RefusedError("hostUsers: false is not provided; pods share the cluster's user namespace")


def _process(config: Any, image: Image, place: Place) -> tuple[dict[str, Any], list[str]]:
    security = config.linux.security_context
    uid, gid = _user(security, image)
    notes = []
    groups, missing = place.ids.groups(dict.fromkeys([*security.supplemental_groups, *place.devices.groups, gid]))
    mapped = not place.ids.has(uid, gid)
    if missing := [group for group in missing if group != gid]:  # its own group is shown either way
        notes.append(f"groups {missing} are not shown: the cluster runs as an ordinary user, who owns every volume")
    try:
        added, dropped = security.capabilities.add_capabilities, security.capabilities.drop_capabilities
        have = place.ids.capabilities
        kept = users.capabilities(added, dropped, privileged=security.privileged, have=have)
    except users.UnknownCapabilityError as error:
        raise RefusedError(str(error)) from error
    args = [*(config.command or image.entrypoint), *(config.args or (() if config.command else image.args))]
    if not args:
        raise RefusedError(f"no command: image {image.name} has none of its own, name one in the pod")
    confined = _asks_for_default(security, "seccomp", security.seccomp_profile_path)
    return {
        "args": args,
        "env": _environment(config, image, place, uid),
        "cwd": config.working_dir or image.workdir,
        "uid": uid,
        "gid": gid,
        "groups": groups,
        "map_user": mapped,
        "may_set_groups": place.ids.may_set_groups,
        "capabilities": kept,
        "no_new_privs": security.no_new_privs,
        "seccomp": confined and not security.privileged,
        "rlimits": {},
        "oom_score_adj": config.linux.resources.oom_score_adj,
    }, notes


def _asks_for_default(security: Any, kind: str, deprecated: str) -> bool:
    """Whether the profile of that kind is the runtime's own, in the field of today or in the deprecated one."""
    if security.HasField(kind):
        return bool(getattr(security, kind).profile_type == proto.pb.SecurityProfile.RuntimeDefault)
    return deprecated in {"runtime/default", "docker/default"}


def _user(security: Any, image: Image) -> tuple[int, int]:
    uid, gid = image.uid, image.gid
    if security.HasField("run_as_user"):
        uid = security.run_as_user.value
        gid = next((g for u, g in NONROOT_NAMES.values() if u == uid), 0)
    elif security.run_as_username:
        if security.run_as_username not in NONROOT_NAMES:
            raise RefusedError(f"user {security.run_as_username!r} is not in the image; known: {sorted(NONROOT_NAMES)}")
        uid, gid = NONROOT_NAMES[security.run_as_username]
    elif security.HasField("run_as_group"):
        raise RefusedError("runAsGroup without runAsUser: whose group that would be is not said")
    if security.HasField("run_as_group"):
        gid = security.run_as_group.value
    return uid, gid


def _environment(config: Any, image: Image, place: Place, uid: int) -> dict[str, str]:
    env = {"PATH": PATH, "HOSTNAME": place.hostname, "HOME": "/root" if uid == 0 else "/home/nonroot"}
    if place.ids.single:
        env["TAR_OPTIONS"] = "--no-same-owner"  # tar as root would fail on other owners, and `kubectl cp` with it
    env.update(image.env)
    if config.tty:
        env["TERM"] = "xterm"
    for entry in config.envs:
        env[entry.key] = entry.value.decode("utf-8", "surrogateescape")
    return env | place.devices.env  # a device's environment is not for the tenant to override


def _image_binds(image: Image) -> list[dict[str, Any]]:
    base = ["/usr", *(f"/{name}" for name in TOP if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"))]
    paths = [f"/etc/{name}" for name in ETC if os.path.exists(f"/etc/{name}") and not os.path.islink(f"/etc/{name}")]
    readonly = {"readonly": True, "recursive_readonly": True}
    binds = [{"source": path, "target": path, **readonly} for path in [*base, *paths, *image.paths]]
    return [{**bind, "layered": True} if bind["target"] in base else bind for bind in binds]


def _host_links() -> dict[str, str]:
    links = {f"/{name}": os.readlink(f"/{name}") for name in TOP if os.path.islink(f"/{name}")}
    links |= {f"/etc/{name}": os.readlink(f"/etc/{name}") for name in ETC if os.path.islink(f"/etc/{name}")}
    return links


def _mounts(mounts: Any) -> list[dict[str, Any]]:
    pb = proto.pb
    kinds = {pb.PROPAGATION_HOST_TO_CONTAINER: "slave", pb.PROPAGATION_BIDIRECTIONAL: "shared"}
    return [
        {
            "source": os.path.realpath(mount.host_path),
            "target": "/" + os.path.normpath(mount.container_path).lstrip("/"),
            "readonly": mount.readonly,
            "recursive_readonly": mount.recursive_read_only,
            "propagation": kinds.get(mount.propagation, "private"),
        }
        for mount in mounts
    ]


def _layered(image: list[dict[str, Any]], mounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pod's mounts over the image, but no mount hides a folder of the image below it: the image of a checkout under
    /tmp must outlive the pod's own /tmp."""
    below = tuple(mount["target"].rstrip("/") + "/" for mount in mounts)
    hidden = [bind for bind in image if bind["target"].startswith(below)] if below else []
    return [bind for bind in image if bind not in hidden] + mounts + hidden


def _in_order(mounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parents before children, so that none hides another."""
    return sorted(mounts, key=lambda mount: mount["target"].rstrip("/").count("/"))


def _gpus(process: dict[str, Any], place: Place) -> list[dict[str, str]]:
    if place.handler != nvidia.HANDLER:
        return []
    try:
        return nvidia.devices(process["env"])
    except nvidia.GpuError as error:
        raise RefusedError(str(error)) from error


def _devices(devices: Any) -> list[dict[str, str]]:
    """Of device plugins. A folder stands for all device nodes in it, as for other runtimes."""
    found = []
    for device in devices:
        if not os.path.exists(device.host_path):
            raise RefusedError(f"device {device.host_path} is not on this node")
        if device.permissions and not {"r", "w"} <= set(device.permissions):
            raise RefusedError(f"device {device.host_path}: access {device.permissions!r} is not provided, only rw")
        found.append({"source": device.host_path, "target": device.container_path})
    return found


def _files(process: dict[str, Any], place: Place) -> dict[str, str]:
    uid, gid = process["uid"], process["gid"]
    passwd = ["root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/bin/sh"]
    passwd.append("nonroot:x:65532:65532:nonroot:/home/nonroot:/bin/sh")
    group = ["root:x:0:", "nogroup:x:65534:", "nonroot:x:65532:", "tty:x:5:"]
    if uid not in {0, 65532, 65534}:
        passwd.append(f"user{uid}:x:{uid}:{gid}::/home/nonroot:/bin/sh")
    group += [f"group{g}:x:{g}:" for g in sorted({gid, *process["groups"]} - {0, 5, 65532, 65534})]
    return {
        "/etc/passwd": "\n".join(passwd) + "\n",
        "/etc/group": "\n".join(group) + "\n",
        "/etc/hostname": place.hostname + "\n",
        "/etc/hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{place.address}\t{place.hostname}\n",
        "/etc/resolv.conf": place.resolv_conf,
    }
