"""Names that several rooms and Kubernetes itself must agree on. Constants only; imports nothing.

The worker and the agent import this module too, so it must stay free of dependencies.
"""

from typing import Final

GROUP: Final = "cotenant.dev"
VERSION: Final = "v1beta1"
"""Version in which objects are stored. All parts of Cotenant use it with the API server."""
DEPRECATED_VERSION: Final = "v1alpha1"
"""An older version with the same fields, which is still served. docs/versions.md says until when."""
API_VERSION: Final = f"{GROUP}/{VERSION}"
API_VERSIONS: Final = (API_VERSION, f"{GROUP}/{DEPRECATED_VERSION}")
"""Versions that documents, and references to objects, may name."""
QUERY_GROUP: Final = f"query.{GROUP}"
"""Group of the questions that the operator answers behind the API server's aggregator."""
QUERY_VERSION: Final = "v1alpha1"
"""Version of that group. Nothing of it is stored, so it has versions of its own."""

# Labels on every pod, Service, Secret and NetworkPolicy that the operator makes.
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "cotenant"
LABEL_JOB: Final = f"{GROUP}/job"
LABEL_JOB_UID: Final = f"{GROUP}/job-uid"
LABEL_ATTEMPT: Final = f"{GROUP}/attempt"
LABEL_NODE_RANK: Final = f"{GROUP}/node-rank"
LABEL_QUEUE: Final = f"{GROUP}/queue"
LABEL_ROLE: Final = f"{GROUP}/role"
"""On every pod of a job: `worker`, `parameter-server` or `evaluator`."""
LABEL_SERVER: Final = f"{GROUP}/server"
"""On the pod of a parameter server: its number. Such a pod holds no GPU."""

BASE_NETWORK_POLICY: Final = f"jobs.{GROUP}"
"""Name of the NetworkPolicy that closes all pods of jobs in a namespace. A job's own policy has the name of the job,
which has no dot."""

LABEL_SWEEP: Final = f"{GROUP}/sweep"
"""On the TrainingJob of a trial: the name of its Sweep."""
LABEL_TRIAL: Final = f"{GROUP}/trial"
"""On the TrainingJob of a trial: the number of the trial."""

# Labels on a TrainingJob that another cluster has handed over.
LABEL_ORIGIN: Final = f"{GROUP}/origin"
"""The cluster that the job comes from, by the uid of its namespace kube-system."""
LABEL_ORIGIN_NAME: Final = f"{GROUP}/origin-remote-cluster"
"""Name of the RemoteCluster in that cluster."""
LABEL_ORIGIN_JOB: Final = f"{GROUP}/origin-job"
"""The uid of the TrainingJob in that cluster."""
ANNOTATION_ORIGIN: Final = f"{GROUP}/origin"
"""On a job from another cluster: `namespace/name` of the job there."""
ANNOTATION_RELEASED: Final = f"{GROUP}/released"
"""On a job from another cluster, written by that cluster: since when it may start. Before, it is suspended."""

# Labels on nodes.
LABEL_GPU_CLASS: Final = f"{GROUP}/gpu-class"
LABEL_VELERO_RESTORE: Final = "velero.io/restore-name"
LABEL_NVIDIA_PRESENT: Final = "nvidia.com/gpu.present"
"""Written by NVIDIA's GPU feature discovery, if that is installed."""
LABEL_ZONE: Final = "topology.kubernetes.io/zone"
LABEL_RACK: Final = "topology.kubernetes.io/rack"

DRA_DRIVER: Final = f"gpu.{GROUP}"
"""Driver of the agents' ResourceSlices, and name of the DeviceClass of their GPUs."""
TAINT_HELD: Final = f"{GROUP}/held-without-claim"
"""On a device: a pod of the operator holds the GPU without a claim, so the kube-scheduler does not count it."""

LABEL_DRIVER_UPGRADE: Final = "nvidia.com/gpu-driver-upgrade-state"
LABEL_MIG_STATE: Final = "nvidia.com/mig.config.state"
"""Labels of nodes on which NVIDIA's GPU Operator is at work, with the state of its work."""
TAINT_DRAIN: Final = f"{GROUP}/drain"
"""On a device that no longer computes, or computes wrong. Kubernetes ends pods of others; the operator ends its own."""

# Labels on namespaces.
LABEL_TENANT: Final = f"{GROUP}/tenant"
"""`true` on the namespaces of tenants, in which the admission policies apply."""

# Annotations.
ANNOTATION_PLACEMENT: Final = f"{GROUP}/placement"
"""On a pod: JSON `{"node": ..., "ranks": {"0": ["GPU-..."], ...}}`, what the operator granted to this pod."""
ANNOTATION_USER: Final = f"{GROUP}/user"
"""On a TrainingJob: its user, for the limits per user of a queue. Admission policies write it, and refuse any other
user. All ServiceAccounts of a namespace count as one user."""
ANNOTATION_MOVE: Final = f"{GROUP}/move"
"""On a TrainingJob, by the administrator: the place to which its running attempt should move, as JSON."""
ANNOTATION_STOP: Final = f"{GROUP}/stop"
"""On a TrainingJob: the reason to end it now and for good, in any phase. The operator writes it on trials of sweeps."""
ANNOTATION_SUSPEND_REASON: Final = f"{GROUP}/suspend-reason"
"""On a TrainingJob: why it is suspended, for its owner. It means something only while `spec.suspend` is true."""
ANNOTATION_SIMULATED_GPUS: Final = f"{GROUP}/simulated-gpus"
"""On a Node: JSON `{"class": "H100", "memory": "80Gi", "count": 2}`, read by an agent that simulates GPUs."""
ANNOTATION_SHARED_BY_QUEUES: Final = f"{GROUP}/shared-by-queues"
"""On a Node, by the administrator: "true" lets jobs of different queues that say `sharing: Any` share its GPUs."""
ANNOTATION_UNCORDON: Final = f"{GROUP}/uncordon"
"""On a GPUNode, by the administrator: UUIDs of GPUs whose cordons the agent lifts, comma-separated, or "all"."""
ANNOTATION_DRAIN: Final = f"{GROUP}/drain"
"""On a GPUNode, by the administrator: GPUs that the agent takes out of service, as JSON: UUID → reason."""
ANNOTATION_RESET: Final = f"{GROUP}/reset"
"""On a GPUNode, by the administrator: UUIDs of GPUs to reset, comma-separated. The agent refuses GPUs that are held."""
ANNOTATION_SUSPECT: Final = f"suspect.{GROUP}"
"""On a GPUNode, by the operator, as `suspect.cotenant.dev/<UUID>`: jobs of several tenants found this GPU slow."""
ANNOTATION_SLOW_REPORTS: Final = f"slow-reports.{GROUP}"
"""On a GPUNode, by the operator, as `slow-reports.cotenant.dev/<UUID>`: tenants whose jobs found this GPU slow, and
when."""

HEALTH_SLOW: Final = "Slow"
"""First word of the `health` of a slow GPU. It counts as healthy, and is handed out last."""

HEALTH_DRAINED: Final = "Drained"
"""First word of the `health` of a GPU that an administrator took out of service."""

# The worker's contract: how a pod is told what it is. The document is `cotenant.contract.Contract` as JSON.
ENV_CONTRACT: Final = "COTENANT_CONTRACT"
ENV_MEMORY_REQUEST: Final = "NVIDIA_GPU_MEMORY_REQUEST"
ENV_MEMORY_LIMIT: Final = "NVIDIA_GPU_MEMORY_LIMIT"
"""Variables that the hook of NVIDIA's container toolkit reads, in MiB. It sets a limit only if both are there."""
ENV_MPS_PIPES: Final = "COTENANT_MPS_PIPES"
"""Folder in a container with a folder for each GPU that MPS serves, by UUID: the pipes of the pod's MPS namespace."""
ENV_RAY_TOKEN: Final = "RAY_AUTH_TOKEN"
ENV_POD_IP: Final = "POD_IP"
SECRET_TOKEN_KEY: Final = "auth_token"
SECRET_PREFIX: Final = "cotenant-token-"
"""Only the operator may make Secrets with such names. An admission policy refuses everybody else."""
PROGRESS_PORT: Final = 8099
"""Rank 0's pod answers `GET /progress` (JSON, `cotenant.contract.Progress`) and `GET /metrics` (Prometheus) here."""
AGENT_PORT: Final = 8098
"""The agent's pod answers `GET /healthz` and `/readyz` here."""
HEARTBEAT_S: Final = 15
"""An agent writes its GPUNode at least this often, and less often in large clusters: `status.heartbeatSeconds`."""
HEARTBEATS_MISSED: Final = 4
"""A node whose agent has missed more heartbeats is silent: it gets no new jobs."""
ENOUGH_SAMPLES: Final = 8
"""Nothing is concluded about a job's use from fewer samples. This is two minutes of one GPU."""
METRICS_PORT: Final = 8443
"""Operator and agent answer `GET /metrics` here, to authorized readers."""
QUERY_PORT: Final = 10250
"""The operator answers questions here, to the API server's aggregator."""
CONTAINER: Final = "worker"
SESSION_HOME: Final = "/home/session"
"""Mount path of a session's volume, and working directory of its application."""
SESSION_FILE: Final = "/tmp/cotenant-session.json"
"""File in the pod of a session with port, path and token of its application, for people who may execute commands
there."""
SESSION_PORT: Final = 8888
CODE_PATH: Final = "/workspace"
"""Mount path of the job's code (ConfigMap or volume). It is at the end of `sys.path`."""
CHECKPOINT_PATH: Final = "/checkpoints"
TERMINATION_PATH: Final = "/dev/termination-log"

# Exit codes of the launcher with a fixed meaning. 0 and 1–79 and 128+n are the user's own.
EXIT_RENDEZVOUS_TIMEOUT: Final = 80
EXIT_RAY_DIED: Final = 81
EXIT_PEER_LOST: Final = 82
EXIT_QUOTA: Final = 83
EXIT_BAD_CONTRACT: Final = 84
EXIT_DATA_UNREACHABLE: Final = 85
EXIT_GPUS_UNUSABLE: Final = 86
EXIT_PREEMPTED: Final = 143
PLATFORM_FAULTS: Final = frozenset(
    {EXIT_RENDEZVOUS_TIMEOUT, EXIT_RAY_DIED, EXIT_PEER_LOST, EXIT_DATA_UNREACHABLE, EXIT_GPUS_UNUSABLE}
)
"""Exit codes that are not the user's fault: the attempt is repeated, and `retries` does not count it."""
