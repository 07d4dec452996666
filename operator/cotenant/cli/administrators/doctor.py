"""`cotenant doctor`: checks a cluster before and after the installation. Each finding has its fix.

The exit code is 1 if something does not work, otherwise 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from cotenant import names
from cotenant.cli.administrators.gpus import GPU_NODES
from cotenant.cli.administrators.health.checks import CHECKS
from cotenant.cli.administrators.health.decision_log import decision_log
from cotenant.cli.administrators.health.diagnoses import Diagnosis, SeenCluster, Severity
from cotenant.cli.administrators.health.gpu_classes import gpu_classes
from cotenant.cli.administrators.health.platforms import platforms
from cotenant.cli.administrators.health.runtime_failures import RUNTIME_FAILING, runtime_failures
from cotenant.cli.administrators.health.taints import taints
from cotenant.cli.errors import EXIT_FORBIDDEN, EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNAVAILABLE, UserError
from cotenant.cli.terminal.clock import clock
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.output import Colour, counted, painted, printed
from cotenant.cli.terminal.watch import show
from cotenant.sdk.job_paths import object_path

INSTALLED: Final = "labelSelector=app.kubernetes.io/name=cotenant"
PATHS: Final = {
    "version": "/version",
    "nodes": "/api/v1/nodes",
    "runtimeClasses": "/apis/node.k8s.io/v1/runtimeclasses",
    "namespaces": "/api/v1/namespaces",
    "crds": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "apiService": f"/apis/apiregistration.k8s.io/v1/apiservices/{names.QUERY_VERSION}.{names.QUERY_GROUP}",
    "frontProxy": "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
    "policies": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "bindings": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "deployments": f"/apis/apps/v1/deployments?{INSTALLED}",
    "daemonSets": f"/apis/apps/v1/daemonsets?{INSTALLED}",
    "roleBindings": f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?{INSTALLED}",
    "leases": "/apis/coordination.k8s.io/v1/leases",
    "gpuNodes": GPU_NODES,
    "queues": object_path("queues"),
    "queueTree": f"/apis/{names.QUERY_GROUP}/{names.QUERY_VERSION}/queuetrees",
    "refusedJobs": "/api/v1/events?fieldSelector=reason%3DPodRefused",
    "failingNodes": RUNTIME_FAILING,
    "refusedPods": "/api/v1/events?fieldSelector=reason%3DFailedCreate",
}
"""Name of what is read → its path in the API."""
MARKS: Final = {Severity.ERROR: Colour.RED, Severity.WARNING: Colour.YELLOW, Severity.NOTE: Colour.BOLD}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    cluster_verb(
        verbs,
        "doctor",
        run,
        "check a cluster before and after the installation; each finding has a fix",
        printed=True,
    )


def run(args: argparse.Namespace) -> int:
    cluster = look(connect(args))
    found = [
        one
        for check in (*CHECKS, taints, runtime_failures, gpu_classes, decision_log, platforms)
        for one in check(cluster)
    ]
    document = {
        "kind": "Diagnosis",
        "installed": cluster.is_installed,
        "findings": [asdict(one) for one in found],
        "notLookedAt": cluster.refused,
    }
    subjects = [one.subject for one in found]
    show(args, lambda: printed(document, args.output, lambda: subjects, lambda _: "\n".join(lines(found, cluster))))
    return EXIT_REFUSED if any(one.severity is Severity.ERROR for one in found) else 0


def look(connection: Connection) -> SeenCluster:
    """Read everything that the checks need. Missing objects are absent; unreadable ones are named."""
    seen: dict[str, Any] = {}
    refused: list[str] = []
    for name, path in PATHS.items():
        try:
            seen[name] = connection.read(path)
        except UserError as error:
            if name == "version" or error.exit_code not in {EXIT_NOT_FOUND, EXIT_FORBIDDEN, EXIT_UNAVAILABLE}:
                raise
            if error.exit_code == EXIT_FORBIDDEN:
                refused.append(f"{name}: {error}")
    return SeenCluster(seen, refused, clock.now())


def lines(found: Sequence[Diagnosis], cluster: SeenCluster) -> Iterator[str]:
    """The findings. The worst come first."""
    for severity in Severity:
        for one in found:
            if one.severity is severity:
                yield f"{painted(severity.value, MARKS[severity])}: {one.subject}: {one.message}"
                yield f"  {one.fix}"
    if cluster.refused:
        yield "Not looked at, because you may not read it: " + ", ".join(
            one.partition(":")[0] for one in cluster.refused
        )
        yield "  ask an administrator of the cluster to run this; `-o json` has the API server's words"
    counts = {severity: sum(one.severity is severity for one in found) for severity in Severity}
    if cluster.is_installed:
        state = "Cotenant is installed"
    elif cluster.refused:
        state = "You may not see whether Cotenant is installed"
    else:
        state = "Cotenant is not installed here"
    if not found and cluster.refused:
        yield f"{state}; {len(cluster.refused)} of {len(PATHS)} things were not looked at, and nothing else is wrong."
    elif not found:
        yield painted(f"{state}; nothing is wrong.", Colour.GREEN)
    else:
        yield f"{state}; " + ", ".join(counted(number, severity.value.lower()) for severity, number in counts.items())
