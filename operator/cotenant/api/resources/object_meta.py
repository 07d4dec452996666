"""Version and metadata of a document, with the API server's own rules for names, labels and annotations."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from cotenant import names
from cotenant.api.scalars.fields import SUBDOMAIN, Int, Str, Timestamp
from cotenant.api.validation.rules import Model, ValueRefusedError, given

ApiVersion: TypeAlias = Annotated[
    Literal["cotenant.dev/v1beta1", "cotenant.dev/v1alpha1"], AfterValidator(lambda _: names.API_VERSION)
]
"""All versions have one shape, so a document of any version is read as the newest. No other code knows that there are
several.
"""

_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_ANNOTATIONS_BYTES = 256 * 1024


def _named(value: str) -> str:
    if len(value) > 253 or re.fullmatch(SUBDOMAIN, value) is None:
        dashed = re.sub(r"[^a-z0-9.]+", "-", value[:253].lower()).strip("-.")
        message = "must be a name of lower-case letters, digits, '-' and '.'"
        raise ValueRefusedError(message, f", not {given(value)}", dashed or None)
    return value


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if _KEY.fullmatch(key) is None:
            raise ValueError(f"{key!r} is not a label key; write one such as team or example.com/team")
        if _VALUE.fullmatch(text) is None:
            raise ValueError(f"{text!r}, the value of {key}, must be at most 63 letters, digits, '-', '_' and '.'")
    return value


def _annotations(value: dict[str, str]) -> dict[str, str]:
    for key in value:
        if _KEY.fullmatch(key.lower()) is None:
            raise ValueError(f"{key!r} is not an annotation key; write one such as team or example.com/team")
    if sum(len(key.encode()) + len(text.encode()) for key, text in value.items()) > _ANNOTATIONS_BYTES:
        raise ValueError("all annotations together must be at most 256 KiB")
    return value


Name: TypeAlias = Annotated[Str, AfterValidator(_named)]


class ObjectMeta(Model):
    name: Name | None = None
    generate_name: Str | None = None
    namespace: Name | None = None
    labels: Annotated[dict[str, Str], AfterValidator(_labels)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, Str], AfterValidator(_annotations)] = Field(default_factory=dict)
    finalizers: tuple[Str, ...] = ()
    owner_references: tuple[dict[str, Any], ...] = ()
    # Written by the API server; accepted so that `kubectl get -o yaml` can be checked as it is.
    uid: Str = ""
    resource_version: Str = ""
    generation: Int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: Int | None = None
    managed_fields: tuple[dict[str, Any], ...] = ()
    self_link: Str = ""

    @property
    def final_name(self) -> str:
        """The name, or a placeholder for a generated one: the API server adds five random letters to `generateName`."""
        return self.name or (f"{self.generate_name}xxxxx" if self.generate_name else "")
