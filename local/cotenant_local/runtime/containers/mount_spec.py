"""Mounts of a container: of its image, of its pod, of the node's devices. Looked up on this machine."""

import os
from typing import Any

from cotenant_local.runtime.containers.container_environment import ContainerEnvironment
from cotenant_local.runtime.containers.images import Image
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation import nvidia

ETC_NAMES = """
alternatives bash.bashrc ca-certificates ca-certificates.conf debian_version fonts gai.conf host.conf inputrc
ld.so.cache ld.so.conf ld.so.conf.d localtime magic magic.mime mime.types nsswitch.conf os-release pki profile
profile.d protocols python3 python3.11 python3.12 python3.13 rpc services shells ssl
terminfo timezone xdg
"""
ETC = tuple(ETC_NAMES.split())
TOP = ("bin", "sbin", "lib", "lib64", "lib32", "libx32")
FOLDERS = {
    **dict.fromkeys(
        ("/proc", "/sys", "/dev", "/run", "/var", "/var/log", "/var/lib", "/var/cache", "/var/spool"), 0o755
    ),
    **dict.fromkeys(("/etc", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/run/lock"), 0o755),
    **dict.fromkeys(("/tmp", "/var/tmp", "/home/nonroot"), 0o1777),
}


def image_binds(image: Image) -> list[dict[str, Any]]:
    base = ["/usr", *(f"/{name}" for name in TOP if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"))]
    paths = [f"/etc/{name}" for name in ETC if os.path.exists(f"/etc/{name}") and not os.path.islink(f"/etc/{name}")]
    readonly = {"readonly": True, "recursive_readonly": True}
    binds = [{"source": path, "target": path, **readonly} for path in [*base, *paths, *image.paths]]
    return [{**bind, "layered": True} if bind["target"] in base else bind for bind in binds]


def host_links() -> dict[str, str]:
    links = {f"/{name}": os.readlink(f"/{name}") for name in TOP if os.path.islink(f"/{name}")}
    links |= {f"/etc/{name}": os.readlink(f"/etc/{name}") for name in ETC if os.path.islink(f"/etc/{name}")}
    return links


def mounts(mounts: Any) -> list[dict[str, Any]]:
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


def layered(image: list[dict[str, Any]], mounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pod's mounts over the image, but no mount hides a folder of the image below it: the image of a checkout under
    /tmp must outlive the pod's own /tmp."""
    below = tuple(mount["target"].rstrip("/") + "/" for mount in mounts)
    hidden = [bind for bind in image if bind["target"].startswith(below)] if below else []
    return [bind for bind in image if bind not in hidden] + mounts + hidden


def in_order(mounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parents before children, so that none hides another."""
    return sorted(mounts, key=lambda mount: mount["target"].rstrip("/").count("/"))


def gpus(process: dict[str, Any], environment: ContainerEnvironment) -> list[dict[str, str]]:
    if environment.handler != nvidia.HANDLER:
        return []
    try:
        return nvidia.devices(process["env"])
    except nvidia.GpuError as error:
        raise UnsupportedError(str(error)) from error


def devices(devices: Any) -> list[dict[str, str]]:
    """Device nodes of device plugins. A folder stands for all device nodes in it, as for other runtimes."""
    found = []
    for device in devices:
        if not os.path.exists(device.host_path):
            raise UnsupportedError(f"device {device.host_path} is not on this node")
        if device.permissions and not {"r", "w"} <= set(device.permissions):
            raise UnsupportedError(f"device {device.host_path}: access {device.permissions!r} is not provided, only rw")
        found.append({"source": device.host_path, "target": device.container_path})
    return found
