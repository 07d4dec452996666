"""Pure: pods whose kubelet does not get their volumes or their network ready, and what a tenant should look at.

A ConfigMap or Secret that is not there keeps a pod in ContainerCreating for ever; the kubelet says so in an Event only,
and the operator may not read other people's ConfigMaps. But it knows which ones the job has named.
"""

from __future__ import annotations

from cotenant.api.resources.trainingjobs import CheckpointVolume, TrainingJobSpec
from cotenant.api.resources.volumes import Code, Volume
from cotenant.controller.informers.pod_record import PodRecord

REASON = "ContainerCreating"
"""As `kubectl get pods` shows it."""
REPORT_AFTER_S = 30.0
"""A volume may have to be attached first."""


def reportable_at(pod: PodRecord) -> float | None:
    """When it is time to say that this pod waits; None for one that does not."""
    return pod.preparing_since + REPORT_AFTER_S if pod.preparing_since and not pod.ready and pod.exit is None else None


def describe(pod: PodRecord, spec: TrainingJobSpec | None, namespace: str) -> str:
    """What is said of it then."""
    named = mounted_sources(spec) if spec else []
    what = f"; look whether they are there: {', '.join(named)}" if named else ""
    return (
        f"pod {pod.name} on node {pod.node} has waited more than {REPORT_AFTER_S:.0f} s for its volumes or its"
        f" network{what}. `kubectl describe pod -n {namespace} {pod.name}` has the kubelet's words"
    )


def mounted_sources(spec: TrainingJobSpec) -> list[str]:
    """What the job's pods mount, in its own order, each once: `ConfigMap digits-code`."""
    checkpoint = spec.checkpoint.volume if spec.checkpoint else None
    sources: list[Code | Volume | CheckpointVolume | None] = [spec.runtime.code, *spec.runtime.volumes, checkpoint]
    found: list[str] = []
    for source in [one for one in sources if one is not None]:
        if config_map := getattr(source, "config_map", None):
            found.append(f"ConfigMap {config_map.name}")
        if secret := getattr(source, "secret", None):
            found.append(f"Secret {secret.secret_name}")
        if claim := source.persistent_volume_claim:
            found.append(f"PersistentVolumeClaim {claim.claim_name}")
    return list(dict.fromkeys(found))
