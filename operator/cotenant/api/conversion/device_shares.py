"""Extended resources by which a kubelet counts what pods hold of one GPU, in thousandths of its memory and compute.

A resource has the GPU's UUID in its name. So the request itself names the GPU that the ledger chose, and means the same
one after the driver has numbered the GPUs again. Amounts are rounded down. ⌊a⌋ + ⌊b⌋ ≤ ⌊a + b⌋, so pods that fit into a
GPU together fit into its shares together, and nothing right is refused. For each pod on the GPU, less than a thousandth
may be missed.
"""

from __future__ import annotations

from typing import Final

from cotenant.api.conversion.device_claims import device_name
from cotenant.names import DRA_DRIVER

WHOLE: Final = 1000
"""Shares of one GPU, of its memory and of its compute."""
PREFIX: Final = f"{DRA_DRIVER}/"
MEMORY: Final = "memory"
COMPUTE: Final = "compute"
_NAME_MAX: Final = 63 - len(f"{COMPUTE}.")
"""Kubernetes allows 63 characters after the slash."""


def share_resource(uuid: str, dimension: str) -> str:
    """`gpu.cotenant.dev/memory.gpu-0a…`: a name that Kubernetes accepts for every UUID."""
    return f"{PREFIX}{dimension}.{device_name(uuid, _NAME_MAX)}"


def memory_shares(mib: int, of_mib: int) -> int:
    """Shares for `mib` of a GPU with `of_mib`: at least one. More memory than the GPU has gives more shares than it
    has.
    """
    return max(1, mib * WHOLE // max(1, of_mib))


def compute_shares(milli: int) -> int:
    return max(1, milli)


def requests(uuid: str, memory: tuple[int, int], compute_milli: int) -> dict[str, str]:
    """What a pod requests to hold this much of one GPU. `memory` is (MiB, MiB of the GPU)."""
    return {
        share_resource(uuid, MEMORY): str(memory_shares(*memory)),
        share_resource(uuid, COMPUTE): str(compute_shares(compute_milli)),
    }
