"""The Container Device Interface: a name such as `nvidia.com/gpu=0` becomes environment, mounts and device nodes.

Specs are read from the node's folders at every container: a device plugin may have written them a moment ago. A later
folder overrides an earlier one; the same device twice in one folder is an error, as for other runtimes.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant_local.runtime.interface import yaml_or_json

log = logging.getLogger(__name__)
HARMLESS_HOOKS = frozenset({"update-ldcache", "create-symlinks", "chmod", "enable-cuda-compat"})
"""Of NVIDIA's toolkit. A container of this runtime needs none: it sees the machine's own /usr and linker cache."""


class CdiError(ValueError):
    """A device cannot be given; the message names the device and the folders or the spec."""


@dataclass
class ContainerEdits:
    """Edits of several devices together: environment, mounts, device nodes, groups."""

    env: dict[str, str] = field(default_factory=dict)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, str]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)


def edits(names: Iterable[str], folders: Iterable[Path]) -> ContainerEdits:
    """The edits of all devices, each spec's common ones once; raises CdiError."""
    wanted = list(names)
    result = ContainerEdits()
    if not wanted:
        return result
    folders = list(folders)
    known = _devices(folders)
    seen: set[Path] = set()
    for name in wanted:
        if name not in known:
            places = ", ".join(map(str, folders))
            raise CdiError(f"CDI device {name} is in no spec of {places}; known: {', '.join(sorted(known)) or 'none'}")
        path, common, own = known[name]
        if path not in seen:
            seen.add(path)
            _add(result, common, f"{path}")
        _add(result, own, f"{path}: device {name}")
    return result


def _devices(folders: list[Path]) -> dict[str, tuple[Path, dict[str, Any], dict[str, Any]]]:
    known: dict[str, tuple[Path, dict[str, Any], dict[str, Any]]] = {}
    for folder in folders:
        here: dict[str, tuple[Path, dict[str, Any], dict[str, Any]]] = {}
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            if path.suffix not in {".json", ".yaml", ".yml"}:
                continue
            try:
                spec = yaml_or_json.parse(path.read_text())
                kind, devices = spec["kind"], spec["devices"]
                common = spec.get("containerEdits") or {}
                found = {f"{kind}={device['name']}": (path, common, device["containerEdits"]) for device in devices}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("CDI spec %s is left out: %r", path, error)
                continue
            if twice := sorted(here.keys() & found.keys()):
                raise CdiError(f"CDI devices {', '.join(twice)} are in two specs of {folder}, one is {path}")
            here |= found
        known |= here
    return known


def _add(result: ContainerEdits, change: dict[str, Any], where: str) -> None:
    for entry in change.get("env") or ():
        key, _, value = str(entry).partition("=")
        result.env[key] = value
    for node in change.get("deviceNodes") or ():
        result.devices.append({"source": node.get("hostPath") or node["path"], "target": node["path"]})
    for mount in change.get("mounts") or ():
        result.mounts.append(_mount(mount, where))
    for hook in change.get("hooks") or ():
        if not HARMLESS_HOOKS & set(hook.get("args") or ()):
            raise CdiError(f"{where}: hook {hook.get('path')} {hook.get('args')} cannot be run by this runtime")
    for name in ("intelRdt", "netDevices"):
        if change.get(name):
            raise CdiError(f"{where}: {name} is not provided by this runtime")
    result.groups += [int(group) for group in change.get("additionalGids") or () if int(group)]


def _mount(mount: dict[str, Any], where: str) -> dict[str, Any]:
    options = set(mount.get("options") or ())
    if mount.get("type", "bind") not in {"", "bind", "none"}:
        raise CdiError(f"{where}: mount {mount['containerPath']} of type {mount['type']} is not provided")
    return {
        "source": mount["hostPath"],
        "target": mount["containerPath"],
        "readonly": "ro" in options,
        "propagation": "private",
    }
