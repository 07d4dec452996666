"""`spec.data`: what is fetched from object stores before the ranks start."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import Field

from cotenant.api.resources.job_spec.volumes import RESERVED_PATHS, Volume
from cotenant.api.scalars.amounts import VolumeSize
from cotenant.api.scalars.fields import Str, cel_text, text
from cotenant.api.validation.rules import Model, Rule

MAX_DATA = 8
_ADDRESS = r"^(s3|gs|az|https?)://[A-Za-z0-9][-A-Za-z0-9._:]*(/[!$->@-\[\]-~]*)?$"
_FILE = r"^https?://[^/]+/(.*/)?[^/]+$"


class StagedData(Model):
    """Each pod fetches it once, before its ranks start. The GPUs are held meanwhile."""

    source: Annotated[
        Str,
        *text(
            _ADDRESS,
            "must be an address such as s3://bucket/folder, gs://bucket/folder, az://container/folder or"
            " https://host/file, without spaces, '?' and '#'",
            longest=1024,
        ),
    ] = Field(alias="from")
    """An object, or everything below the address. From a web server: one file."""
    to: Annotated[
        Str,
        *text(
            r"^(/[A-Za-z0-9_][-A-Za-z0-9_.]*)+$",
            "must be an absolute path below / without '..', such as \"/data/images\"",
            longest=256,
        ),
    ]
    """Folder for the data in every pod: in a volume of the job that is mounted there or above, otherwise in scratch
    space that is deleted with the pod. Not below another `to`, nor a path that Cotenant or the system uses.
    """
    size_limit: VolumeSize | None = None
    """If there is more data, the job fails before anything is fetched. Default: no limit."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "to",
            f"!self.to.matches({cel_text(RESERVED_PATHS)})",
            "this path is used by Cotenant or by the system; let the data lie elsewhere, such as in /data",
            lambda it: re.fullmatch(RESERVED_PATHS, it.to) is None,
        ),
        Rule(
            "from",
            f"!self.from.startsWith('http') || self.from.matches({cel_text(_FILE)})",
            "a web server has no folders to be listed; name one file, such as https://host/data.tar",
            lambda it: not it.source.startswith("http") or re.fullmatch(_FILE, it.source) is not None,
        ),
    )


def _holds(volume: Volume, path: str) -> bool:
    return f"{path}/".startswith(f"{volume.mount_path}/")


def volume_of(to: str, volumes: tuple[Volume, ...]) -> Volume | None:
    """The volume of the job that contains this folder; None if it is scratch space of its own."""
    return max((one for one in volumes if _holds(one, to)), key=lambda one: len(one.mount_path), default=None)


def _is_writable(volume: Volume) -> bool:
    return not volume.read_only and volume.config_map is None and volume.secret is None


DATA_APART = Rule(
    "data",
    "self.all(a, self.exists_one(b, (a.to + '/').startsWith(b.to + '/')))",
    "a folder of data lies in another one; give each a folder beside the others, such as /data/images and /data/texts",
    lambda it: all(sum(f"{a.to}/".startswith(f"{b.to}/") for b in it.data) == 1 for a in it.data),
    about_field=True,
)
DATA_IN_VOLUMES = Rule(
    "data",
    "!has(self.data) || !has(self.runtime.volumes) || self.data.all(d, self.runtime.volumes.all(v,"
    " !v.mountPath.startsWith(d.to + '/') && (!(d.to + '/').startsWith(v.mountPath + '/')"
    " || !v.readOnly && !has(v.configMap) && !has(v.secret))))",
    "a folder of data lies in a volume that cannot be written, or a volume is mounted inside of it; let it lie in a"
    " claim or an emptyDir without readOnly, or beside all volumes",
    lambda it: all(
        not volume.mount_path.startswith(f"{one.to}/") and (not _holds(volume, one.to) or _is_writable(volume))
        for one in it.data
        for volume in it.runtime.volumes
    ),
)
