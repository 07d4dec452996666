"""The image catalogue: which image names this machine provides, and which files a container of each sees.

A file of JSON or YAML, `{"images": {"ghcr.io/cotenant/worker": {...}}}`, with the fields of `Image`. Any tag or
digest of a listed repository is the same image. `default_catalogue` is what a cluster starts with.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from cotenant_local.runtime.interface import yaml_or_json


class CatalogueError(ValueError):
    """The catalogue cannot be used; the message names the file and the entry."""


@dataclass(frozen=True)
class Image:
    """One entry. Folders of the machine are shown read-only, at the same place."""

    name: str
    paths: tuple[str, ...] = ()
    """Shown beside the base (`/usr`, `/bin`, `/lib*`, parts of `/etc`)."""
    env: tuple[tuple[str, str], ...] = ()
    entrypoint: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    workdir: str = "/"
    uid: int = 0
    gid: int = 0

    @property
    def id(self) -> str:
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return "sha256:" + hashlib.sha256(content).hexdigest()


PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NONROOT: Final = 65532


def repository(name: str) -> str:
    """The repository of a reference: no tag, no digest, in short form, so docker.io/library/nginx:1 is nginx.

    A port in the host part is kept.
    """
    name = name.split("@", 1)[0]
    head, colon, tail = name.rpartition(":")
    name = head if colon and "/" not in tail else name
    for registry in ("docker.io/", "index.docker.io/"):
        name = name.removeprefix(registry)
    return name.removeprefix("library/")


class ImageCatalogue:
    """The images of this machine by repository."""

    def __init__(self, path: Path, images: dict[str, Image]) -> None:
        self.path = path
        self.images = images
        self.by_id = {image.id: image for image in images.values()}

    def find(self, reference: str) -> Image | None:
        return self.by_id.get(reference) or self.images.get(repository(reference))

    def pull_error(self, reference: str) -> str:
        """The message of a pod's ErrImagePull."""
        names = ", ".join(sorted(self.images))
        return (
            f"image {reference!r} is not on this machine: the local cluster pulls nothing, it provides what "
            f"{self.path} lists: {names}. Add an entry there, or use one of these."
        )


def load(path: Path) -> ImageCatalogue:
    """Reads and checks the file."""
    try:
        document = yaml_or_json.parse(path.read_text())
        entries = document["images"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CatalogueError(f"{path}: want {{images: {{<repository>: {{...}}}}}}: {error}") from error
    return ImageCatalogue(path, {repository(name): _image(path, name, entry or {}) for name, entry in entries})


def _image(path: Path, name: str, entry: dict[str, Any]) -> Image:
    known = {field.name for field in fields(Image)} - {"name"}
    if unknown := sorted(set(entry) - known):
        raise CatalogueError(f"{path}: image {name}: unknown fields {unknown}; known are {sorted(known)}")
    values = dict(entry)
    for sequence in ("paths", "entrypoint", "args"):
        if sequence in values:
            if not isinstance(values[sequence], list):
                raise CatalogueError(f"{path}: image {name}: {sequence} must be a list")
            values[sequence] = tuple(map(str, values[sequence]))
    for shown in values.get("paths", ()):
        if not os.path.isabs(shown):
            raise CatalogueError(f"{path}: image {name}: path {shown!r} is not absolute")
    values["env"] = tuple((str(k), str(v)) for k, v in (entry.get("env") or {}).items())
    return Image(name=name, **values)


OURS: Final = "ghcr.io/cotenant"


def default_catalogue(
    checkout: Path, environment: Path = Path(sys.prefix), *, more: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """This project's images out of its checkout and its Python environment, and `tools`: the machine's own programs.

    `more`: repository → `like` (which of these it is made from), `paths` and `env` that come on top.
    """
    interpreter = (environment / "bin" / "python").resolve()
    paths = [str(environment), str(interpreter.parent.parent), str(Path(sys.base_prefix))]
    paths += [str(checkout / room) for room in ("operator", "worker", "local") if (checkout / room).is_dir()]
    ours = {
        "paths": sorted({path for path in paths if not path.startswith("/usr/") and path != "/usr"}),
        "env": {
            "PATH": f"{environment}/bin:{PATH}",
            "VIRTUAL_ENV": str(environment),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        },
        "uid": NONROOT,
        "gid": NONROOT,
    }
    modules = {"operator": ["cotenant", "operator"], "agent": ["cotenant_agent"], "worker": ["cotenant_worker"]}
    images: dict[str, Any] = {
        f"{OURS}/{name}": {**ours, "entrypoint": ["python", "-m", *module]} for name, module in modules.items()
    }
    images[f"{OURS}/tools"] = {"paths": [], "env": {"PATH": PATH}, "entrypoint": [], "args": ["/bin/sh"]}
    for name, added in (more or {}).items():
        base = images[f"{OURS}/{added['like']}"]
        paths = sorted({*base["paths"], *added["paths"]})
        images[name] = {**base, "paths": paths, "env": {**base["env"], **added["env"]}}
    return {"images": images}
