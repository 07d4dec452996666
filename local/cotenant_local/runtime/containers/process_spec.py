"""The process of a container: command, user and groups, rights, environment, and the files that name its ids."""

from typing import Any

from cotenant_local.runtime.containers.container_environment import ContainerEnvironment
from cotenant_local.runtime.containers.images import PATH, Image
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation import capabilities

NONROOT_NAMES = {"root": (0, 0), "nonroot": (65532, 65532), "nobody": (65534, 65534)}


def build(config: Any, image: Image, environment: ContainerEnvironment) -> tuple[dict[str, Any], list[str]]:
    """The process that the shim starts, and notes about settings that were left out. Raises UnsupportedError."""
    security = config.linux.security_context
    uid, gid = _user(security, image)
    notes = []
    groups, missing = environment.ids.groups(
        dict.fromkeys([*security.supplemental_groups, *environment.devices.groups, gid])
    )
    mapped = not environment.ids.has(uid, gid)
    if missing := [group for group in missing if group != gid]:  # its own group is shown either way
        notes.append(f"groups {missing} are not shown: the cluster runs as an ordinary user, who owns every volume")
    try:
        added, dropped = security.capabilities.add_capabilities, security.capabilities.drop_capabilities
        have = environment.ids.capabilities
        kept = capabilities.kept_numbers(added, dropped, privileged=security.privileged, have=have)
    except capabilities.UnknownCapabilityError as error:
        raise UnsupportedError(str(error)) from error
    args = [*(config.command or image.entrypoint), *(config.args or (() if config.command else image.args))]
    if not args:
        raise UnsupportedError(f"no command: image {image.name} has none of its own, name one in the pod")
    confined = asks_for_default(security, "seccomp", security.seccomp_profile_path)
    return {
        "args": args,
        "env": _variables(config, image, environment, uid),
        "cwd": config.working_dir or image.workdir,
        "uid": uid,
        "gid": gid,
        "groups": groups,
        "map_user": mapped,
        "may_set_groups": environment.ids.may_set_groups,
        "capabilities": kept,
        "no_new_privs": security.no_new_privs,
        "seccomp": confined and not security.privileged,
        "rlimits": {},
        "oom_score_adj": config.linux.resources.oom_score_adj,
    }, notes


def asks_for_default(security: Any, kind: str, deprecated: str) -> bool:
    """True if the profile of that kind is `RuntimeDefault`, in the current field or in the deprecated one."""
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
            raise UnsupportedError(
                f"user {security.run_as_username!r} is not in the image; known: {sorted(NONROOT_NAMES)}"
            )
        uid, gid = NONROOT_NAMES[security.run_as_username]
    elif security.HasField("run_as_group"):
        raise UnsupportedError("runAsGroup without runAsUser: whose group that would be is not said")
    if security.HasField("run_as_group"):
        gid = security.run_as_group.value
    return uid, gid


def _variables(config: Any, image: Image, environment: ContainerEnvironment, uid: int) -> dict[str, str]:
    env = {"PATH": PATH, "HOSTNAME": environment.hostname, "HOME": "/root" if uid == 0 else "/home/nonroot"}
    if environment.ids.single:
        env["TAR_OPTIONS"] = "--no-same-owner"  # tar as root would fail on other owners, and `kubectl cp` with it
    env.update(image.env)
    if config.tty:
        env["TERM"] = "xterm"
    for entry in config.envs:
        env[entry.key] = entry.value.decode("utf-8", "surrogateescape")
    return env | environment.devices.env  # a device's environment is not for the tenant to override


def account_files(process: dict[str, Any], environment: ContainerEnvironment) -> dict[str, str]:
    """Files of /etc: users and groups by name, and the pod's own names and addresses."""
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
        "/etc/hostname": environment.hostname + "\n",
        "/etc/hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{environment.address}\t{environment.hostname}\n",
        "/etc/resolv.conf": environment.resolv_conf,
    }
