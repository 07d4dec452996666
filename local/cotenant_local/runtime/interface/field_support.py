"""How this runtime treats every field of the interface's pod and container configuration.

A field is applied, or it does not matter here and the reason is written beside it, or a pod that sets it is refused by
its name. A field in neither table is refused, so a field of a newer interface is never ignored silently.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cotenant_local.runtime.interface.unsupported import UnsupportedError

FieldSupport = Mapping[str, str]
"""Path of a field to "" where it is applied, else why it does not matter. A path stands for all that is below it."""

APPLIED: Final = ""
OWN_PROCESS: Final = "about the pod's own process, which here runs no program: containers carry theirs"
SUM: Final = "the sum over the containers, for runtimes that start a machine per pod; each container's own limits hold"
PODS_OWN: Final = "the pod's own holds for every container of it"


def _each(names: str, meaning: str = APPLIED, *, of: str = "") -> dict[str, str]:
    return {of + name: meaning for name in names.split()}


POD: FieldSupport = {
    **_each("metadata hostname log_directory dns_config port_mappings labels annotations linux.sysctls"),
    **_each("network pid ipc userns_options", of="linux.security_context.namespace_options."),
    "linux.security_context.namespace_options.target_id": "of containers only",
    "linux.security_context": OWN_PROCESS,
    "linux.cgroup_parent": "pods are limited below the node's own group, wherever the kubelet would put them",
    "linux.overhead": "of a runtime class; this runtime costs a pod one sleeping process",
    "linux.resources": SUM,
}
CONTAINER: FieldSupport = {
    **_each("metadata command args working_dir envs devices labels annotations log_path stdin stdin_once tty"),
    **_each("CDI_devices stop_signal image.image image.user_specified_image image.image_ref"),
    "image.annotations": "for runtimes that choose among several forms of an image",
    "image.runtime_handler": "an image is the same for every runtime class",
    **_each("container_path host_path readonly propagation recursive_read_only", of="mounts."),
    **_each("image uidMappings gidMappings", of="mounts."),
    "mounts.selinux_relabel": "containers keep the runtime's SELinux label, so there is nothing to relabel for",
    **_each("cpu_period cpu_quota cpu_shares cpuset_cpus cpuset_mems hugepage_limits", of="linux.resources."),
    **_each("memory_limit_in_bytes memory_swap_limit_in_bytes oom_score_adj unified", of="linux.resources."),
    **_each("capabilities privileged run_as_user run_as_group run_as_username", of="linux.security_context."),
    **_each("readonly_rootfs supplemental_groups no_new_privs masked_paths", of="linux.security_context."),
    **_each("readonly_paths seccomp apparmor selinux_options", of="linux.security_context."),
    **_each("apparmor_profile seccomp_profile_path", of="linux.security_context."),
    **_each("pid target_id userns_options", of="linux.security_context.namespace_options."),
    **_each("network ipc", PODS_OWN, of="linux.security_context.namespace_options."),
    "linux.security_context.supplemental_groups_policy": "images here add no groups, so to merge adds none",
}


def reject_unknown(config: Any, meaning: FieldSupport) -> None:
    """Raises UnsupportedError when `config` sets a field that has no meaning here."""
    for path in _set_fields(config):
        if support_of(path, meaning) is None:
            raise UnsupportedError(f"{path} is not provided by this runtime")


def support_of(path: str, meaning: FieldSupport) -> str | None:
    """The support of a field or of the field that contains it; None if there is none."""
    while path:
        if path in meaning:
            return meaning[path]
        path = path.rpartition(".")[0]
    return None


def _set_fields(message: Any, above: str = "") -> Iterator[str]:
    """Paths of all fields that are not at their default. An empty part sets none."""
    for field, value in message.ListFields():
        path = above + field.name
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is None or is_map or not field.message_type.fields:
            yield path
            continue
        parts = [value] if hasattr(value, "ListFields") else value
        for part in parts:
            yield from _set_fields(part, path + ".")
