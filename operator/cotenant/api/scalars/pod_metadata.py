"""Labels and annotations that jobs' pods carry for other programs of the cluster, and how their setting is read.

The chart's policies refuse a pod to which a mesh adds its proxy, or a monitoring agent its init container; with a proxy
it would run on after its program. A node autoscaler sees no GPU in the requests of these pods, so it would take their
node for an idle one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from cotenant import names
from cotenant.api.scalars.networks import listed

LABELS: Final = {
    "sidecar.istio.io/inject": "false",
    "istio.io/dataplane-mode": "none",
    "kuma.io/sidecar-injection": "disabled",
    "admission.datadoghq.com/enabled": "false",
    "instana-autotrace": "false",
}
ANNOTATIONS: Final = {
    "linkerd.io/inject": "disabled",
    "consul.hashicorp.com/connect-inject": "false",
    "dynatrace.com/inject": "false",
    "instrumentation.opentelemetry.io/inject-python": "false",
    "sidecar.opentelemetry.io/inject": "false",
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
}
_KEY: Final = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def read(text: str) -> dict[str, str]:
    """Raises ValueError if it is no JSON object of texts, or has one of the operator's own keys."""
    try:
        pairs: Any = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
        raise ValueError('must be a JSON object of texts, such as {"team": "ml"}')
    _refuse_own(pairs)
    return pairs


def _refuse_own(keys: Iterable[str]) -> None:
    for key in keys:
        prefix = key.partition("/")[0]
        if key == names.LABEL_MANAGED_BY or prefix == names.GROUP or prefix.endswith(f".{names.GROUP}"):
            raise ValueError(f"must not have {key}, which is the operator's own")


def _checked(text: str) -> str:
    read(text)
    return text


def _checked_keys(text: str) -> str:
    keys = listed(text)
    for key in keys:
        if not re.fullmatch(_KEY, key):
            raise ValueError(
                f"has {key!r}, which is no key of a label; write keys such as cost-center,example.com/team"
            )
    _refuse_own(keys)
    return text


PodMetadata = Annotated[str, AfterValidator(_checked)]
"""A setting: a JSON object of texts."""
LabelKeys = Annotated[str, AfterValidator(_checked_keys)]
"""A setting: keys of labels, separated by commas."""
