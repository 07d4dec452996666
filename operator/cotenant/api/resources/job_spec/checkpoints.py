"""`spec.checkpoint`: where a job's state is stored, in a volume or in an object store."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from cotenant.api.resources.job_spec.volumes import ClaimSource
from cotenant.api.scalars.amounts import Duration
from cotenant.api.scalars.fields import bounded, cel_text
from cotenant.api.validation.rules import Model, Rule

_URL = r"^[a-z][a-z0-9+.-]{0,15}://[^\s]+$"
_RELATIVE = r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$"


class CheckpointVolume(Model):
    persistent_volume_claim: ClaimSource
    """A claim in the job's namespace; mounted at /checkpoints."""


class Checkpoint(Model):
    """Where the job's state is stored, so that it continues after an eviction or a fault."""

    volume: CheckpointVolume | None = None
    """A volume that every pod can mount."""
    path: Annotated[str, bounded(512, shortest=1)] | None = None
    """With a volume: a folder in it (default: the job's name). Without: the address of a store, such as s3://bucket/runs."""
    interval: Duration | None = None
    """How often the program is asked to save. Default: when it saves by itself, and before an eviction."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "path",
            f"has(self.volume) || (has(self.path) && self.path.matches({cel_text(_URL)}))",
            "a checkpoint needs a volume, or a path that is the address of a store, such as s3://bucket/runs",
            lambda it: it.volume is not None or (it.path is not None and re.fullmatch(_URL, it.path) is not None),
        ),
        Rule(
            "path",
            f"!(has(self.volume) && has(self.path)) || self.path.matches({cel_text(_RELATIVE)})",
            "with a volume, path is a folder inside it: relative, without '..', such as \"runs/today\"",
            lambda it: it.volume is None or it.path is None or re.fullmatch(_RELATIVE, it.path) is not None,
        ),
    )
