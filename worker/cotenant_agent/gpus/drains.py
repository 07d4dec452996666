"""GPUs that an administrator takes out of service: their pods have to leave, and no pod gets them until they are
uncordoned.

The request is the annotation `cotenant.dev/drain` of the GPUNode, JSON `{"GPU-…": "why"}`. It becomes a cordon, which
survives a restart of the agent and a reboot of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from cotenant import names
from cotenant.contract.decoding.bounded_json import Bounds, Malformed, parse
from cotenant.contract.decoding.plain_text import plain_text
from cotenant_agent.gpus.health import SEPARATOR, ClearedBy, Cordon, NodeHealth
from cotenant_agent.gpus.readings import Gpu

BOUNDS: Final = Bounds(bytes_max=16 * 1024, depth_max=1, values_max=256)
REASON_CHARS_MAX: Final = 200
NO_REASON: Final = "an administrator takes it out"


def read_drains(text: str) -> dict[str, str]:
    """GPU UUID → reason. Entries that cannot be read are left out."""
    found = parse(text, BOUNDS)
    if isinstance(found, Malformed) or not isinstance(found, dict):
        return {}
    reasons = {str(uuid): why if isinstance(why, str) and why else NO_REASON for uuid, why in found.items()}
    return {uuid: plain_text(why, REASON_CHARS_MAX).replace(SEPARATOR, ", ") for uuid, why in reasons.items()}


def drained(health: NodeHealth, reasons: Mapping[str, str], gpus: Iterable[Gpu], now: float) -> NodeHealth:
    """The state with these GPUs taken out, including all their MIG instances."""
    cordons = dict(health.cordons)
    for gpu in gpus:
        why = reasons.get(gpu.uuid) or reasons.get(gpu.parent or "")
        if why:
            cordon = Cordon(names.HEALTH_DRAINED, why, now, ClearedBy.MANUAL, drains=True)
            others = (one for one in cordons.get(gpu.uuid, ()) if one.code != cordon.code)
            cordons[gpu.uuid] = (*others, cordon)
    return replace(health, cordons=cordons)
