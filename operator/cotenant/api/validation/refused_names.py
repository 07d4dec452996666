"""Wrong names that newcomers write so often that the API server itself answers them.

For an unknown field the API server says "unknown field", or drops it silently without validation. Therefore the schema
has these names, and refuses them with what to write instead (`schema.answered_names`). As with every name in the
schema, null is the same as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _given(**names: str) -> Mapping[str, str]:
    """Shape → names, as name → shape."""
    return {name: shape for shape, words in names.items() for name in words.split()}


_POD: Final = _given(
    text="serviceAccountName", object="nodeSelector securityContext", objects="tolerations", flag="hostNetwork"
)
REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "TrainingJobSpec": {
        **_given(
            amount="replicas numWorkers numNodes nnodes parallelism completions minReplicas maxReplicas minAvailable"
            " gpus numGpus gpuCount backoffLimit maxRetries activeDeadlineSeconds timeout ttlSecondsAfterFinished"
            " terminationGracePeriodSeconds",
            text="image entrypoint restartPolicy queueName priorityClass namespace",
            object="template runPolicy pytorchReplicaSpecs code",
            objects="env volumes containers",
            words="command args",
        ),
        **_POD,
    },
    "GpuSpec": _given(amount="gpus nvidia.com/gpu limits", text="type model"),
    "Resources": _given(object="requests limits", amount="gpu gpus nvidia.com/gpu"),
    "Runtime": {
        **_given(
            objects="volumeMounts envFrom containers ports", text="workingDir imagePullPolicy", object="resources"
        ),
        **_POD,
    },
    "Volume": _given(object="hostPath nfs", text="claimName"),
    "Code": _given(object="hostPath git", text="name path"),
    "EnvSource": _given(object="fieldRef resourceFieldRef"),
    "QueueSpec": _given(text="cohort namespace", objects="resourceGroups", amount="gpus limit"),
    "QuotaSpec": _given(amount="nominalQuota borrowingLimit gpus", text="class"),
    "SweepSpec": _given(amount="maxTrialCount parallelTrialCount", object="trialTemplate", text="method"),
    "Parameter": _given(object="feasibleSpace", text="parameterType", amount="min max"),
    "Objective": _given(text="type objectiveMetricName direction"),
}
"""Name of the model → refused name → the usual type of its value."""
