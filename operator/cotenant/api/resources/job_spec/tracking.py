"""Destinations of a TrainingJob's metrics besides its status."""

from __future__ import annotations

from typing import Annotated

from cotenant.api.resources.job_spec.volumes import SubPath
from cotenant.api.scalars.fields import Str, bounded, text
from cotenant.api.validation.rules import Model


class TensorBoard(Model):
    path: SubPath = "tensorboard"
    """Folder for event files, below the checkpoint path."""


class MLflow(Model):
    tracking_uri: Annotated[
        Str, *text(r"^https?://[^\s]+$", "must be the address of a tracking server, http:// or https://", longest=512)
    ]
    """The address of the tracking server."""
    experiment: Annotated[str, bounded(256, shortest=1)] | None = None
    """Default: the job's namespace."""


class Tracking(Model):
    """Where reported metrics go in addition to the job's status."""

    tensor_board: TensorBoard | None = None
    """Write event files into the checkpoint volume."""
    mlflow: MLflow | None = None
    """Send metrics to an MLflow server."""
