"""Profiles: named shapes of TrainingJobs, of a namespace or of the whole cluster."""

from __future__ import annotations

from typing import Literal

from cotenant.api.resources.job_spec.profile import ProfileSpec
from cotenant.api.resources.object_meta import ApiVersion, ObjectMeta
from cotenant.api.validation.rules import Model, StatusModel


class ProfileObjectStatus(StatusModel):
    """Empty: the status of each job says what its profile stood for."""


class TrainingProfile(Model):
    """A named shape for jobs of its namespace. It takes precedence over a ClusterTrainingProfile of the same name."""

    api_version: ApiVersion
    kind: Literal["TrainingProfile"]
    metadata: ObjectMeta
    spec: ProfileSpec


class ClusterTrainingProfile(Model):
    """A named shape for jobs of all namespaces, made by administrators."""

    api_version: ApiVersion
    kind: Literal["ClusterTrainingProfile"]
    metadata: ObjectMeta
    spec: ProfileSpec
