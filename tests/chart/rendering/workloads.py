"""What a rendered workload holds."""

from collections.abc import Callable, Mapping
from typing import Any

NAMESPACE = "cotenant-system"
Render = Callable[..., dict[tuple[str, str], dict[str, Any]]]
SET_BY_THE_CHART = {
    "namespace": "COTENANT_NAMESPACE",
    "worker_image": "COTENANT_WORKER_IMAGE",
    "runtime_class": "COTENANT_RUNTIME_CLASS",
    "tolerations": "COTENANT_TOLERATIONS",
    "run_as_user": "COTENANT_RUN_AS_USER",
    "pod_labels": "COTENANT_POD_LABELS",
    "pod_annotations": "COTENANT_POD_ANNOTATIONS",
    "image_pull_secrets": "COTENANT_IMAGE_PULL_SECRETS",
    "tenant_namespaces": "COTENANT_TENANT_NAMESPACES",
    "metrics_readers": "COTENANT_METRICS_READERS",
    "metrics_certificate": "COTENANT_METRICS_CERTIFICATE",
    "device_claims": "COTENANT_DEVICE_CLAIMS",
    "certificate_secrets": "COTENANT_CERTIFICATE_SECRETS",
    "query_port": "COTENANT_QUERY_PORT",
    "query_server_name": "COTENANT_QUERY_SERVER_NAME",
    "query_address": "COTENANT_QUERY_ADDRESS",
}
OF_A_VOLUME = {
    "decision_log_folder": "COTENANT_DECISION_LOG_FOLDER",
    "decision_log_mib": "COTENANT_DECISION_LOG_MIB",
}
"""Settings that the chart sets where `decisionLog.storage` is a volume."""
OF_A_MOUNTED_CERTIFICATE = {"query_certificate": "COTENANT_QUERY_CERTIFICATE"}
"""Settings that the chart sets where `query.certificateSecret` or `query.certManager` is."""
OF_PRICES = {"prices": "COTENANT_PRICES"}
"""Settings that the chart sets where `prices` is."""
DEFAULTED = {"COTENANT_POD_PRIORITY_CLASS"}
"""Variables that the chart sets unless `operator.settings` does."""


def pod_of(workload: Mapping[str, Any]) -> Any:
    return workload["spec"]["template"]["spec"]


def container_of(workload: Mapping[str, Any]) -> Any:
    (container,) = pod_of(workload)["containers"]
    return container


def env_of(workload: Mapping[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container_of(workload)["env"]}
