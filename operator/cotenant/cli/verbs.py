"""The module of each verb of `cotenant`. The program imports only the module of the verb that is typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUP: Final = "cotenant.verbs"
"""Entry-point group with which other packages add verbs: name → module."""

_OWN: Final[Mapping[str, str]] = {
    "advise": "tenants.advise",
    "agent": "agent",
    "attach": "tenants.access.attach",
    "audit": "administrators.audit",
    "capsule": "administrators.replay",
    "clusters": "administrators.clusters",
    "completions": "reference.completions",
    "__complete": "reference.completions",
    "cost": "tenants.cost",
    "crds": "crds",
    "dashboard": "dashboard",
    "doctor": "administrators.doctor",
    "drain": "administrators.drain",
    "drill": "tenants.drill",
    "eff": "tenants.eff",
    "gpus": "administrators.gpus",
    "history": "tenants.history",
    "hold": "administrators.hold",
    "logs": "tenants.logs",
    "migrate": "administrators.migrate",
    "move": "administrators.move",
    "nodes": "administrators.nodes",
    "offer": "queries.offer",
    "operator": "operator",
    "plugin": "plugin",
    "port-forward": "tenants.access.port_forward",
    "ps": "queries.ps",
    "queues": "queries.queues",
    "quota": "tenants.quota",
    "release": "administrators.hold",
    "replay": "administrators.replay",
    "resume": "tenants.resume",
    "retry": "tenants.retry",
    "session": "tenants.access.session",
    "showback": "tenants.showback",
    "simulate": "simulation.simulate",
    "stop": "tenants.stop",
    "submit": "tenants.submit",
    "sweep": "queries.sweep",
    "top": "administrators.top.verb",
    "validate": "validate",
    "whatif": "queries.whatif",
    "why": "queries.why",
}


OWN: Final = {name: f"cotenant.cli.{module}" for name, module in _OWN.items()}


def modules() -> dict[str, str]:
    """Verb → the module that registers it, sorted by verb."""
    from importlib.metadata import entry_points  # slower than all of a verb's own modules

    found = OWN | {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return dict(sorted(found.items(), key=lambda item: item[0].strip("_")))
