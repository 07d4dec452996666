"""Names that newcomers give to fields of a TrainingJob: from Kubernetes, Kubeflow, Ray, Volcano, SLURM and compose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cotenant.api.advice import carried_over, pod_templates
from cotenant.api.advice.guessed_name import GuessedName, left_out, renamed, taken_apart
from cotenant.api.scalars import respellings

_POD: Final = (
    "there is no pod template: what runs stands in spec.runtime, GPUs in spec.gpu, CPU and memory in spec.resources"
)
_PROGRAM: Final = {"spec.runtime.command": pod_templates.PROGRAM}
_CLAIM: Final = {"claimName": "data"}
_VARIABLES: Final = [{"name": "LR", "value": "0.1"}]
_ENV_WHY: Final = "one entry for every variable"
_OPERATOR: Final = "pods are the operator's, and tenants cannot set it"
_NOT_THE_NODE: Final = "paths of the node cannot be mounted; put the files into a PersistentVolumeClaim"
_WHERE: Final = "where pods run is decided by what they ask for: spec.gpu.classes, spec.gpu.zones and spec.topology"

_SPEC: Final = (
    renamed(
        "replicas numWorkers worldSize numNodes nodes nnodes ntasks parallelism completions numReplicas maxReplicas"
        " maxWorkers workerCount numProcesses",
        "spec.workers",
        2,
        carried_over.counted,
    ),
    renamed("minReplicas minAvailable minNodes minMember", "spec.minWorkers", 1, carried_over.counted),
    renamed(
        "gpus gpuCount numGpus ngpus gpusPerWorker gpusPerNode gpuPerWorker nvidia.com/gpu gres resourcesPerNode"
        " resourcesPerWorker accelerators",
        "spec.gpu",
        {"count": 1},
        carried_over.gpu,
    ),
    renamed("nprocPerNode numProcPerNode procPerNode ntasksPerNode slotsPerWorker", "spec.workers", 2,
        lambda value: None,
        "a worker is one process: write as many workers as nodes × processes per node"),
    renamed("gpuType gpuClass gpuModel accelerator acceleratorType", "spec.gpu.classes", ["H100"], carried_over.names),
    renamed("gpuMemory vram gpuMem", "spec.gpu.memory", "16Gi", pod_templates.amount_of_memory),
    renamed("gpuFraction fraction gpuShare", "spec.gpu.memoryFraction", "0.5", respellings.fraction),
    renamed("cpu cpus cpusPerTask cpusPerWorker numCpus", "spec.resources.cpu", 4, pod_templates.amount_of_cpu),
    renamed("mem ram memoryPerWorker memPerNode", "spec.resources.memory", "16Gi", pod_templates.amount_of_memory),
    taken_apart("template podTemplate podSpec containers container trainer tasks rayClusterSpec workerGroupSpecs"
           " replicatedJobs", pod_templates.program, _PROGRAM, _POD),
    taken_apart("pytorchReplicaSpecs tfReplicaSpecs mpiReplicaSpecs replicaSpecs", pod_templates.roles,
           {"spec.workers": 2, **_PROGRAM}, _POD),
    taken_apart("runPolicy", pod_templates.policy, {"spec.retries": 3, "spec.maxRuntime": "8h"}),
    renamed("script program cmd run", "spec.runtime.command", pod_templates.PROGRAM, carried_over.command),
    renamed("environment envVars variables", "spec.runtime.env", _VARIABLES, carried_over.environment, _ENV_WHY),
    renamed("backoffLimit maxRetries maxRestarts maxRetry numRetries restarts", "spec.retries", 3, carried_over.whole),
    renamed("restartPolicy", "spec.retries", 3, carried_over.one_of({"Never": 0, "OnFailure": 3, "Always": 3}),
        "a job is started again after a fault of its own as often as this says"),
    renamed("activeDeadlineSeconds timeout time timeLimit walltime deadline maxDuration maxRunTime", "spec.maxRuntime",
        "8h", respellings.duration),
    renamed("ttlSecondsAfterFinished ttl", "spec.ttlAfterFinished", "1h", respellings.duration),
    renamed("terminationGracePeriodSeconds gracePeriodSeconds", "spec.gracePeriod", "2m", respellings.duration),
    renamed("priorityClass", "spec.priorityClassName", "high", carried_over.name),
    renamed("queueName localQueue clusterQueue partition", "spec.queue", "team-a", carried_over.name),
    renamed("namespace", "metadata.namespace", "team-a", carried_over.name),
    renamed("name jobName", "metadata.name", "digits", carried_over.name),
    renamed("paused hold", "spec.suspend", True),
    renamed("backend", "spec.runtime.collective", "nccl"),
    renamed("checkpointPath checkpointDir checkpointing outputDir", "spec.checkpoint", {"path": "s3://bucket/runs"},
        lambda value: {"path": value} if isinstance(value, str) and "://" in value else None),
    left_out("nodeSelector nodeName affinity tolerations nodeList constraint", _WHERE),
    left_out("schedulerName", "jobs are placed by Cotenant itself"),
    left_out("serviceAccountName serviceAccount hostNetwork hostIPC hostPID securityContext imagePullSecrets"
         " initContainers"
         " selector completionMode podFailurePolicy schedulingPolicy mlPolicy runtimeRef cleanPodPolicy"
         " runtimeClassName", _OPERATOR),
)  # fmt: skip

_GPU: Final = (
    renamed("gpus number num amount quantity nvidia.com/gpu request requests limit limits size total", ".count", 1,
        carried_over.counted, "per worker"),
    renamed("type class model product kind gpuType name gpuClass", ".classes", ["H100"], carried_over.names),
    renamed("fraction share percent percentage part milli", ".memoryFraction", "0.5", respellings.fraction),
    renamed("vram mem gpuMemory memoryGB memoryGi memoryGiB memoryInGB", ".memory", "16Gi",
        pod_templates.amount_of_memory),
    renamed("memoryMB memoryMiB", ".memory", "16384Mi", lambda value:
        f"{value}Mi" if carried_over.counted(value) else None),
    renamed("compute cores sm smPercent", ".computeFraction", "0.5", respellings.fraction),
    renamed("exclusive", ".sharing", "Never", carried_over.one_of({True: "Never", False: "Queue"})),
    renamed("shared shareable", ".sharing", "Queue", carried_over.one_of({True: "Queue", False: "Never"})),
    left_out("mig migProfile vendor driver uuid index device devices",
        "which GPUs a job gets is decided by its placement;"
         " ask for memory, memoryFraction or classes"),
)  # fmt: skip

_RESOURCES: Final = (
    taken_apart("requests limits", pod_templates.resources, {".cpu": 4, ".memory": "16Gi"},
           "requests and limits of a pod are the same, and are written once"),
    renamed("nvidia.com/gpu gpu gpus amd.com/gpu", "spec.gpu", {"count": 1}, carried_over.gpu),
    renamed("cpus cores vcpu numCpus", ".cpu", 4, pod_templates.amount_of_cpu),
    renamed("mem ram", ".memory", "16Gi", pod_templates.amount_of_memory),
    left_out("ephemeral-storage storage disk shm shmSize rdma/hca",
        "pods ask for CPU and memory only; for scratch space"
         " mount a volume of the kind emptyDir with a sizeLimit"),
)  # fmt: skip

_RUNTIME: Final = (
    renamed("cmd script program run", ".command", pod_templates.PROGRAM, carried_over.command),
    renamed("file main scriptPath pythonFile", ".command", pod_templates.PROGRAM, carried_over.command),
    renamed("arguments argv", ".args", ["--lr", "0.1"], carried_over.arguments),
    renamed("environment envs envVars variables", ".env", _VARIABLES, carried_over.environment, _ENV_WHY),
    renamed("envFrom", ".env", [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}],
        lambda value: None, _ENV_WHY),
    renamed("volumeMounts mounts", ".volumes", [{"name": "data", "mountPath": "/data",
        "persistentVolumeClaim": _CLAIM}],
        carried_over.volumes, "a volume and its mountPath are one entry"),
    renamed("function module", ".entrypoint", "train:main", carried_over.entrypoint),
    renamed("backend", ".collective", "nccl"),
    renamed("dtype mixedPrecision", ".precision", "bf16"),
    renamed("gpus", "spec.gpu", {"count": 1}, carried_over.gpu),
    renamed("replicas numWorkers nprocPerNode nnodes", "spec.workers", 2, carried_over.counted),
    taken_apart("template containers container", pod_templates.program, _PROGRAM, _POD),
    renamed("workingDir workdir cwd working_dir", ".command", ["sh", "-c", "cd /workspace && python train.py"],
        lambda value: None, "a program starts in a folder of its own beside its code"),
    left_out("pip packages requirements dependencies runtimeEnv pythonVersion conda", "packages come with the image:"
         " build one on the worker image and name it in runtime.image"),
    left_out("gitRepo repo", "put the code into a ConfigMap or onto a volume, and name it in runtime.code"),
    left_out("nodeSelector affinity tolerations", _WHERE),
    left_out("securityContext privileged hostNetwork hostIPC hostPID serviceAccountName serviceAccount imagePullPolicy"
         " imagePullSecrets initContainers ports livenessProbe readinessProbe lifecycle restartPolicy"
         " runtimeClassName name shmSize ipc stdin tty user", _OPERATOR),
)  # fmt: skip

_ENV_VAR: Final = (
    renamed("key variable", ".name", "LR", carried_over.text),
    renamed("val", ".value", "0.1", carried_over.text),
)

_ENV_SOURCE: Final = (
    left_out("fieldRef resourceFieldRef", "fields of the pod cannot be read; RANK, WORLD_SIZE and the like are set for"
         " every worker"),
    renamed("secretRef secret", ".secretKeyRef", {"name": "keys", "key": "token"}, lambda value: None),
    renamed("configMapRef configMap", ".configMapKeyRef", {"name": "settings", "key": "lr"}, lambda value: None),
)  # fmt: skip

_VOLUME: Final = (
    renamed("path target mount mountpath destination", ".mountPath", "/data"),
    renamed("claim claimName pvc", ".persistentVolumeClaim", _CLAIM, carried_over.claim),
    renamed("secretName", ".secret", {"secretName": "keys"}, lambda value: {"secretName": value}),
    renamed("subPath", ".persistentVolumeClaim.subPath", "runs/today"),
    renamed("size sizeLimit", ".emptyDir", {"sizeLimit": "10Gi"}, lambda value: None),
    renamed("hostPath nfs csi source local", ".persistentVolumeClaim", _CLAIM, lambda value: None, _NOT_THE_NODE),
    left_out(
        "type", "the kind of a volume is the name of its field: persistentVolumeClaim, configMap, secret or emptyDir"
    ),
)

_CODE: Final = (
    renamed("hostPath path", ".configMap", {"name": "code"}, lambda value: None, _NOT_THE_NODE),
    renamed("git repo url image", ".configMap", {"name": "code"}, lambda value: None,
        "files come from a ConfigMap or a volume"),
    renamed("name", ".configMap", {"name": "code"},
        lambda value: {"name": value} if carried_over.name(value) else None),
    renamed("pvc claim claimName", ".persistentVolumeClaim", _CLAIM, carried_over.claim),
    renamed("subPath", ".persistentVolumeClaim.subPath", "runs/today"),
)  # fmt: skip

_NAMED: Final = (renamed("configMapName secretName", ".name", "settings", carried_over.name),)
_CLAIMED: Final = (
    renamed("name pvc", ".claimName", "data", carried_over.name),
    left_out("readOnly", "whether a volume is mounted for reading only is said beside it, in readOnly of the volume"),
)
_SECRET: Final = (renamed("name", ".secretName", "keys", carried_over.name),)
_EMPTY_DIR: Final = (
    renamed("size", ".sizeLimit", "10Gi", pod_templates.amount_of_memory),
    left_out("medium", "scratch space lies on the node's disk; /dev/shm is there for memory"),
)

_CHECKPOINT: Final = (
    renamed("dir directory folder uri url storage s3 location", ".path", "s3://bucket/runs"),
    renamed("every frequency period intervalSeconds saveInterval", ".interval", "10m", respellings.duration),
    renamed("persistentVolumeClaim pvc claim claimName", ".volume", {"persistentVolumeClaim": _CLAIM},
        lambda value: {"persistentVolumeClaim": carried_over.claim(value)} if carried_over.claim(value) else None),
    left_out("keep enabled maxToKeep", "the program decides what it saves; the job resumes from the newest"),
)  # fmt: skip

_LEVELS: Final = {"kubernetes.io/hostname": "node", "topology.kubernetes.io/zone": "zone"}
_TOPOLOGY: Final = (
    renamed("topologyKey key domain", ".level", "rack", carried_over.one_of(_LEVELS)),
    renamed("policy type whenUnsatisfiable", ".mode", "Required", lambda value: None),
)

_SPREAD: Final = (
    renamed("topologyKey key domain over", ".level", "node", carried_over.one_of(_LEVELS)),
    renamed("policy type whenUnsatisfiable", ".mode", "Required", lambda value: None),
    renamed("most maxPods maxPerNode perNode maxSkew", ".maxWorkers", 1, carried_over.counted),
)

_TRACKING: Final = (
    renamed("mlFlow mlflowUri", ".mlflow", {"trackingUri": "http://mlflow:5000"}, lambda value: None),
    left_out("wandb comet clearml", "set its variables, such as WANDB_API_KEY from a Secret, in runtime.env"),
)
_MLFLOW: Final = (renamed("uri url address server", ".trackingUri", "http://mlflow:5000"),)
_SERVERS: Final = (
    renamed("replicas count number num", ".servers", 2, carried_over.counted),
    left_out("tolerations affinity", "name nodes in nodeSelector; for nodes that are tainted for GPU work write"
         " tolerateGpuTaints: true"),
    left_out("gpu gpus image command", "servers are the operator's own program and have no GPU"),
)  # fmt: skip

GUESSED_OF_JOBS: Final[Mapping[str, tuple[GuessedName, ...]]] = {
    "TrainingJobSpec": _SPEC,
    "GpuSpec": _GPU,
    "Resources": _RESOURCES,
    "ServerResources": _RESOURCES,
    "Runtime": _RUNTIME,
    "EnvVar": _ENV_VAR,
    "EnvSource": _ENV_SOURCE,
    "Volume": _VOLUME,
    "Code": _CODE,
    "KeyOf": _NAMED,
    "ConfigMapSource": _NAMED,
    "SecretSource": _SECRET,
    "ClaimSource": _CLAIMED,
    "EmptyDirSource": _EMPTY_DIR,
    "Checkpoint": _CHECKPOINT,
    "TopologySpec": _TOPOLOGY,
    "SpreadSpec": _SPREAD,
    "Tracking": _TRACKING,
    "MLflow": _MLFLOW,
    "ParameterServer": _SERVERS,
}
"""Name of the model → names that are no fields of it."""
