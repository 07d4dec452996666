"""Identifies the caller: the aggregator, by its client certificate, for the user that its headers name. Pure.

The ConfigMap kube-system/extension-apiserver-authentication names the authority of the aggregator's certificate, its
allowed names, and the headers with the user. All extension API servers of Kubernetes work so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from multidict import MultiMapping

CONFIG_MAP: Final = "extension-apiserver-authentication"
NAMESPACE: Final = "kube-system"
GROUPS_MAX: Final = 1_000
Headers: TypeAlias = MultiMapping[str]
"""Headers of a request, case-insensitive."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user as the API server knows it."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for callers with equal rights."""
        return self.user, self.groups, self.uid, tuple(sorted(self.extra.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    authority: str
    """Certificates in PEM."""
    names: tuple[str, ...]
    """Allowed common names of the aggregator's certificate. If empty, any certificate of the authority is accepted."""
    user_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    @classmethod
    def of(cls, config: Mapping[str, str]) -> FrontProxy | None:
        """Read it from the ConfigMap's data; None if the API server has no aggregator."""
        authority = config.get("requestheader-client-ca-file", "")
        users = _names(config, "requestheader-username-headers")
        if not authority or not users:
            return None
        return cls(
            authority=authority,
            names=_names(config, "requestheader-allowed-names"),
            user_headers=users,
            group_headers=_names(config, "requestheader-group-headers"),
            uid_headers=_names(config, "requestheader-uid-headers"),
            extra_prefixes=_names(config, "requestheader-extra-headers-prefix"),
        )

    def caller(self, certificate: Mapping[str, Any] | None, headers: Headers) -> Caller | None:
        """User of a request; None unless the aggregator shows its certificate, as `ssl` has verified it."""
        if not certificate or (self.names and not _common_names(certificate).intersection(self.names)):
            return None
        user = _first(headers, self.user_headers)
        if not user:
            return None
        groups = [one for name in self.group_headers for one in headers.getall(name, [])]
        return Caller(user, tuple(groups[:GROUPS_MAX]), _first(headers, self.uid_headers), self._extra(headers))

    def _extra(self, headers: Headers) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name in headers.keys():  # noqa: SIM118 - a multidict
            for prefix in self.extra_prefixes:
                if name.lower().startswith(prefix.lower()):
                    found[unquote(name[len(prefix) :]).lower()] = tuple(headers.getall(name, []))
        return found


def _names(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    try:
        found = json.loads(config.get(key) or "[]")
    except json.JSONDecodeError:
        return ()
    return tuple(str(one) for one in found) if isinstance(found, list) else ()


def _common_names(certificate: Mapping[str, Any]) -> set[str]:
    return {value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"}


def _first(headers: Headers, names: tuple[str, ...]) -> str:
    return next((value for name in names for value in headers.getall(name, []) if value), "")
