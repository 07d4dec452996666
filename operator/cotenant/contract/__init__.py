"""Documents between operator and worker pod: the contract, and the pod's answers. Stdlib only: both sides import it.

One JSON document each way, so that the two sides can never disagree about a list of variables:
the operator writes a `Contract` into the environment variable `COTENANT_CONTRACT`, or into several of them where it is
longer than Linux lets one variable be; rank 0's pod serves `Progress`; every pod leaves a `Termination` in its
termination message. What a pod tells is read through `cotenant.contract.decoding`.
"""

from cotenant.contract.decoding.bounded_json import Malformed
from cotenant.contract.job_contract import (
    PART,
    CheckpointSpec,
    Collective,
    Contract,
    DataSource,
    EvaluatorSpec,
    GpuGrant,
    Mode,
    PodGrant,
    Precision,
    RankGrant,
    Role,
    Strategy,
    needs_ray,
)
from cotenant.contract.progress import Progress, progress_bounds
from cotenant.contract.strict_object import ContractError
from cotenant.contract.termination import Termination

__all__ = [
    "PART",
    "CheckpointSpec",
    "Collective",
    "Contract",
    "ContractError",
    "DataSource",
    "EvaluatorSpec",
    "GpuGrant",
    "Malformed",
    "Mode",
    "PodGrant",
    "Precision",
    "Progress",
    "RankGrant",
    "Role",
    "Strategy",
    "Termination",
    "needs_ray",
    "progress_bounds",
]
