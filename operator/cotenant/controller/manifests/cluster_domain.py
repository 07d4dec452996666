"""DNS domain of the cluster, under which the pods of a job find each other. Pure.

No Kubernetes object names the domain. The kubelet writes it into /etc/resolv.conf of each pod, including the
operator's.
"""

from __future__ import annotations

import logging
from typing import Final

from cotenant.controller.settings import Settings

log = logging.getLogger(__name__)

USUAL: Final = "cluster.local"


def with_domain(settings: Settings, resolv_conf: str) -> Settings:
    """The settings with the domain of this cluster, unless the administrator has named one."""
    if settings.cluster_domain:
        return settings
    found = domain_in(resolv_conf, settings.namespace)
    if found not in {"", USUAL}:
        log.info("the DNS domain of the cluster is %s", found)
    return settings.model_copy(update={"cluster_domain": found or USUAL})


def domain_in(text: str, namespace: str) -> str:
    """The domain in the search list of a pod of this namespace: "NAMESPACE.svc.DOMAIN". Empty if it is not there."""
    prefix = f"{namespace}.svc."
    for line in text.splitlines():
        words = line.split()
        for word in words[1:] if words[:1] == ["search"] else ():
            if word.startswith(prefix):
                return word.removeprefix(prefix).rstrip(".")
    return ""
