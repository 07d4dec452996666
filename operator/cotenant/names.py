"""Names that several rooms and Kubernetes itself must agree on. Constants only; imports nothing.

The worker and the agent import this module too, so it must stay free of dependencies.
"""

from typing import Final

GROUP: Final = "cotenant.dev"
VERSION: Final = "v1beta1"
"""In which objects are stored, and in which all of Cotenant speaks to the API server."""
DEPRECATED_VERSION: Final = "v1alpha1"
"""Of the same shape, and served beside it: docs/versions.md says until when."""
API_VERSION: Final = f"{GROUP}/{VERSION}"
API_VERSIONS: Final = (API_VERSION, f"{GROUP}/{DEPRECATED_VERSION}")
"""In which a document may be written, and a reference to an object."""
QUERY_GROUP: Final = f"query.{GROUP}"
"""Group of the questions that the operator answers behind the API server's aggregator."""
QUERY_VERSION: Final = "v1alpha1"
"""Of that group: nothing of it is stored, so it has versions of its own."""

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
"""On the pod of a parameter server: which one. Such a pod holds no GPU."""

BASE_NETWORK_POLICY: Final = f"jobs.{GROUP}"
"""NetworkPolicy of a namespace that closes all pods of its jobs. A job's own is called like the job: without a dot."""

LABEL_SWEEP: Final = f"{GROUP}/sweep"
"""On the TrainingJob of a trial: the name of its Sweep."""
LABEL_TRIAL: Final = f"{GROUP}/trial"
"""On the same: the trial's number."""

# Labels on a TrainingJob that another cluster has handed over.
LABEL_ORIGIN: Final = f"{GROUP}/origin"
"""The cluster that it is from: the uid of its namespace kube-system."""
LABEL_ORIGIN_NAME: Final = f"{GROUP}/origin-remote-cluster"
"""Name of the RemoteCluster in that cluster."""
LABEL_ORIGIN_JOB: Final = f"{GROUP}/origin-job"
"""The uid of the TrainingJob in that cluster."""
ANNOTATION_ORIGIN: Final = f"{GROUP}/origin"
"""On the same: `namespace/name` there."""
ANNOTATION_RELEASED: Final = f"{GROUP}/released"
"""On the same, by the cluster that it is from: it may start since then. Before, it is suspended."""

# Labels on nodes.
LABEL_GPU_CLASS: Final = f"{GROUP}/gpu-class"
LABEL_VELERO_RESTORE: Final = "velero.io/restore-name"
LABEL_NVIDIA_PRESENT: Final = "nvidia.com/gpu.present"
"""By NVIDIA's feature discovery, where that is installed."""
LABEL_ZONE: Final = "topology.kubernetes.io/zone"
LABEL_RACK: Final = "topology.kubernetes.io/rack"

DRA_DRIVER: Final = f"gpu.{GROUP}"
"""Driver of the agents' ResourceSlices, and name of the DeviceClass of their GPUs."""
TAINT_HELD: Final = f"{GROUP}/held-without-claim"
"""On a device: a pod of the operator holds the GPU without a claim, so the kube-scheduler does not count it."""

LABEL_DRIVER_UPGRADE: Final = "nvidia.com/gpu-driver-upgrade-state"
LABEL_MIG_STATE: Final = "nvidia.com/mig.config.state"
"""By which NVIDIA's GPU Operator says that it works on a node."""
TAINT_DRAIN: Final = f"{GROUP}/drain"
"""On a device: it computes no longer, or wrong. Kubernetes ends pods of others, the operator those of its own jobs."""

# Labels on namespaces.
LABEL_TENANT: Final = f"{GROUP}/tenant"
""""true" on the namespaces that the admission policies hold to their rules."""

# Annotations.
ANNOTATION_PLACEMENT: Final = f"{GROUP}/placement"
"""On a pod: JSON `{"node": ..., "ranks": {"0": ["GPU-..."], ...}}`, what the operator granted to this pod."""
ANNOTATION_USER: Final = f"{GROUP}/user"
"""On a TrainingJob: whose it is, for the limits per user of a queue. Admission policies fill it in and hold it to the
real user; all ServiceAccounts of a namespace are one."""
ANNOTATION_MOVE: Final = f"{GROUP}/move"
"""On a TrainingJob, by the administrator: where its running attempt is to lie instead, as JSON."""
ANNOTATION_STOP: Final = f"{GROUP}/stop"
"""On a TrainingJob: why it is to end for good, at once, whatever its phase. The operator writes it on trials of a
sweep."""
ANNOTATION_SIMULATED_GPUS: Final = f"{GROUP}/simulated-gpus"
"""On a Node: JSON `{"class": "H100", "memory": "80Gi", "count": 2}`, read by an agent that is told to simulate."""
ANNOTATION_SHARED_BY_QUEUES: Final = f"{GROUP}/shared-by-queues"
"""On a Node, by the administrator: "true" lets jobs of different queues that say `sharing: Any` share its GPUs."""
ANNOTATION_UNCORDON: Final = f"{GROUP}/uncordon"
"""On a GPUNode, by the administrator: GPU UUIDs, comma-separated, or "all": the agent lifts their cordons."""
ANNOTATION_DRAIN: Final = f"{GROUP}/drain"
"""On a GPUNode, by the administrator: JSON of GPU UUID → why: the agent takes these out of service."""
ANNOTATION_RESET: Final = f"{GROUP}/reset"
"""On a GPUNode, by the administrator: GPU UUIDs, comma-separated: the agent resets those that nobody holds."""
ANNOTATION_SUSPECT: Final = f"suspect.{GROUP}"
"""On a GPUNode, by the operator: `suspect.cotenant.dev/<UUID>`: jobs of several tenants found this GPU slow."""
ANNOTATION_SLOW_REPORTS: Final = f"slow-reports.{GROUP}"
"""On a GPUNode, by the operator: `slow-reports.cotenant.dev/<UUID>`: whose jobs found this GPU slow, and when."""

HEALTH_SLOW: Final = "Slow"
"""How the `health` of such a GPU begins, which stays healthy; it is handed out last."""

HEALTH_DRAINED: Final = "Drained"
"""How the `health` of a GPU begins that an administrator takes out."""

# The worker's contract: how a pod is told what it is. The document is `cotenant.contract.Contract` as JSON.
ENV_CONTRACT: Final = "COTENANT_CONTRACT"
ENV_MEMORY_REQUEST: Final = "NVIDIA_GPU_MEMORY_REQUEST"
ENV_MEMORY_LIMIT: Final = "NVIDIA_GPU_MEMORY_LIMIT"
"""What the hook of NVIDIA's container toolkit reads, in MiB: with one of the two alone it sets no limit."""
ENV_MPS_PIPES: Final = "COTENANT_MPS_PIPES"
"""Folder of a container in which each GPU that MPS serves has the pipes of the pod's namespace, under its UUID."""
ENV_RAY_TOKEN: Final = "RAY_AUTH_TOKEN"
ENV_POD_IP: Final = "POD_IP"
SECRET_TOKEN_KEY: Final = "auth_token"
SECRET_PREFIX: Final = "cotenant-token-"
"""Secrets of such names are made by the operator alone: an admission policy keeps everybody else from it."""
PROGRESS_PORT: Final = 8099
"""Rank 0's pod answers `GET /progress` (JSON, `cotenant.contract.Progress`) and `GET /metrics` (Prometheus) here."""
AGENT_PORT: Final = 8098
"""The agent's pod answers `GET /healthz` and `/readyz` here."""
METRICS_PORT: Final = 8443
"""Operator and agent answer `GET /metrics` here, to whom they may."""
QUERY_PORT: Final = 10250
"""The operator answers questions here, to the API server's aggregator."""
CONTAINER: Final = "worker"
SESSION_HOME: Final = "/home/session"
"""Where the volume of a session is mounted, and where its application starts."""
SESSION_FILE: Final = "/tmp/cotenant-session.json"
"""In the pod of a session: port, path and token of its application, for who may execute commands there."""
SESSION_PORT: Final = 8888
CODE_PATH: Final = "/workspace"
"""Where the job's code (ConfigMap or volume) is mounted; at the end of `sys.path`."""
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
"""Not the user's fault: retried without being charged against `retries`."""
