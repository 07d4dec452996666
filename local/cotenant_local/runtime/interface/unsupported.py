"""Requests that this runtime refuses. The message goes into the pod's or the container's status."""

from typing import Any

from cotenant_local.runtime.interface import proto


class UnsupportedError(ValueError):
    """The pod asks for something that this runtime cannot do; the message goes into the container's status."""


def reject_container(config: Any) -> None:
    """Raises UnsupportedError for a container. Fields in no table at all are refused by `field_support`."""
    security = config.linux.security_context
    profile = proto.pb.SecurityProfile
    if security.seccomp.profile_type == profile.Localhost or security.seccomp_profile_path.startswith("localhost/"):
        name = security.seccomp.localhost_ref or security.seccomp_profile_path
        raise UnsupportedError(f"seccomp profile {name!r}: only RuntimeDefault and Unconfined are provided")
    if security.apparmor.profile_type == profile.Localhost or security.apparmor_profile.startswith("localhost/"):
        name = security.apparmor.localhost_ref or security.apparmor_profile
        raise UnsupportedError(f"AppArmor profile {name!r}: AppArmor is not provided")
    selinux = security.selinux_options
    if any((selinux.user, selinux.role, selinux.type, selinux.level)):
        raise UnsupportedError("seLinuxOptions: SELinux is not provided")
    if security.capabilities.add_ambient_capabilities:
        raise UnsupportedError("ambient capabilities are not provided")
    reject_user_namespace(security.namespace_options)
    for mount in config.mounts:
        if mount.HasField("image"):
            raise UnsupportedError(f"mount {mount.container_path}: image volumes are not provided")
        if mount.recursive_read_only and (not mount.readonly or mount.propagation != proto.pb.PROPAGATION_PRIVATE):
            raise UnsupportedError(f"mount {mount.container_path}: recursiveReadOnly needs readOnly and no propagation")
        if mount.uidMappings or mount.gidMappings:
            raise UnsupportedError(f"mount {mount.container_path}: id-mapped mounts are not provided")


def reject_user_namespace(options: Any) -> None:
    """Raises UnsupportedError for `hostUsers: false`, of a pod or of a container."""
    if options.HasField("userns_options") and options.userns_options.mode != proto.pb.NODE:
        raise UnsupportedError("hostUsers: false is not provided; pods share the cluster's user namespace")
