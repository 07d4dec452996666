"""What the Node says of extended resources: which ones the kubelet counts, and who else offers GPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cotenant.api.conversion.device_shares import WHOLE
from cotenant.api.scalars.quantities import amount_or_0
from cotenant_agent.device_plugin.offered_shares import OfferedShares

NVIDIA: Final = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")
"""Resources of NVIDIA's own plugin for GPUs: `nvidia.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`. Its
Network Operator offers network devices in the same domain, such as `nvidia.com/hostdev`.
"""


def disagreement(node: Mapping[str, Any], offered: Iterable[OfferedShares]) -> str:
    """How the published amounts differ from the offered ones; empty if the kubelet has published all of them."""
    capacity: Mapping[str, Any] = (node.get("status") or {}).get("capacity") or {}
    others = sorted(name for name, amount in capacity.items() if NVIDIA.fullmatch(name) and str(amount) != "0")
    if others:
        return (
            f"NVIDIA's device plugin offers the same GPUs ({', '.join(others)}): turn it off on this node by the label"
            " nvidia.com/gpu.deploy.device-plugin=false"
        )
    for one in offered:
        shown = capacity.get(one.resource, "")
        if amount_or_0(shown) != WHOLE:
            return f"the Node shows {shown or 'no'} {one.resource}, {WHOLE} were offered to the kubelet"
    return ""
