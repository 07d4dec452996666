"""The environment variables that a tenant may not set, and why: one table for CRD, parser and admission policy.

They would show a container more of the node's GPUs, lift the memory limit of a share, open the job's Ray cluster, or
contradict the ranks that the operator gave. `PYTORCH_*ALLOC_CONF` may be set to keys that do not touch the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
ALLOCATOR: Final = r"^PYTORCH_[A-Z_]*ALLOC_CONF$"
ALLOCATOR_VALUE: Final = (
    r"^((expandable_segments|max_split_size_mb|max_non_split_rounding_mb|garbage_collection_threshold"
    r"|roundup_power2_divisions):[A-Za-z0-9.]+(,|$))+$"
)
"""Short, because the API server computes the cost of a rule from the length of its expression."""


@dataclass(frozen=True, slots=True)
class Denied:
    """One group of names: an anchored expression that is valid in RE2 and in Python."""

    names: str
    why: str


DENIED: Final = (
    Denied(
        r"^(NVIDIA_.*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_.*|CUDA_MPS_.*|CUDA_DISABLE_CONTROL|GPU_DEVICE_ORDINAL"
        r"|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES)$",
        "which GPUs a job sees is decided by its placement; ask for GPUs in spec.gpu",
    ),
    Denied(r"^(LD_PRELOAD|LD_AUDIT)$", "libraries cannot be put in front of the container's own"),
    Denied(
        r"^(PYTORCH_NO_CUDA_MEMORY_CACHING|XLA_.*MEM.*|XLA_PYTHON_CLIENT_ALLOCATOR|TF_GPU_ALLOCATOR"
        r"|TF_FORCE_GPU_ALLOW_GROWTH|CUPY_GPU_MEMORY_LIMIT)$",
        "the memory limit of a job's GPUs is set from its share; ask for more in spec.gpu",
    ),
    Denied(
        r"^(RAY_AUTH_.*|RAY_ENABLE_K8S_TOKEN_AUTH|RAY_ADDRESS|RAY_USE_TLS|RAY_TLS_.*|RAY_EXPERIMENTAL_NOSET_.*)$",
        "the job's Ray cluster is set up by the operator and belongs to this job alone",
    ),
    Denied(
        r"^(COTENANT_.*|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|MASTER_ADDR|MASTER_PORT"
        r"|TORCHELASTIC_.*|TF_CONFIG|JAX_COORDINATOR_.*|OMPI_COMM_WORLD_.*|POD_IP"
        r"|HOROVOD_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE|HOSTNAME|CONTROLLER|GLOO_RENDEZVOUS_.*))$",
        "ranks and addresses are given by the operator",
    ),
)
