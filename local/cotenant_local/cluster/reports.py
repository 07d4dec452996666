"""The output of `cotenant local status` and `logs`."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from cotenant_local.host import folders
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.errors import LocalError

FOLLOW_INTERVAL_S: Final = 0.2
LAST_LINES, LINE_WIDTH = 3, 160
"""Of a dead component's log in `status`; `logs` has all of it."""


def as_json(status: dict[str, Any]) -> str:
    return json.dumps(status, indent=2)


def as_text(status: dict[str, Any]) -> str:
    state = "ready" if status["ready"] else "starting"
    rows = [
        f"cluster {status['name']}: {state}, up {_age(status['since'])}, API server at "
        f"https://127.0.0.1:{status['apiPort']}"
    ]
    if not status.get("limitsEnforced", True):  # absent from clusters that an earlier version started
        rows.append("  containers' limits of CPU and memory are not enforced: this cluster has no cgroups")
    rows += [f"  http://127.0.0.1:{port} → {service}" for service, port in status["forwards"]]
    rows += _components(status["components"], skip=set(status["nodes"]))
    for name, node in status["nodes"].items():
        cut = ", cut off from the API server" if node["isolated"] else ""
        power = "its first process is stopped by a signal" if node.get("stopped") else node["power"]
        rows.append(f"node {name} ({node['address']}): {power}{cut}")
        rows += _components(node["components"], skip=set())
    return "\n".join(rows)


def _components(components: dict[str, Any], skip: set[str]) -> list[str]:
    rows = []
    for name, component in components.items():
        if name in skip:
            continue
        here = f"up {_age(component['since'])}" if component["pid"] else "not running"
        if component.get("stopped"):
            here = "stopped by a signal"
        again = f", restarted {component['restarts']}×" if component["restarts"] else ""
        rows.append(f"  {name:24} {here}{again}")
        if death := component["lastDeath"]:
            rows.append(f"    last death {_age(death['at'])} ago: {death['how']}; its log ended:")
            rows += [f"      {line[:LINE_WIDTH]}" for line in death["last_lines"].splitlines()[-LAST_LINES:]]
    return rows


def _age(moment: float) -> str:
    seconds = int(time.time() - moment)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


def logs(name: str, component: str | None, *, follow: bool) -> int:
    state = ClusterFolder(folders.cluster(name))
    there = {str(f.relative_to(state.logs).with_suffix("")): f for f in sorted(state.logs.rglob("*.log"))}
    if component is None:
        print("\n".join(there))
        return 0
    if component not in there:
        known = ", ".join(there) or f"none in {state.logs}"
        raise LocalError(f"cluster {name!r} has no log of {component!r}; there are: {known}.")
    _copy(there[component], follow=follow)
    return 0


def _copy(path: Path, *, follow: bool) -> None:
    with path.open(errors="replace") as file:
        while True:
            for line in file:
                sys.stdout.write(line)
            sys.stdout.flush()
            if not follow:
                return
            time.sleep(FOLLOW_INTERVAL_S)
