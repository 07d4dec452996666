"""The description of a job, and the documents made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cotenant import names
from cotenant.api.conversion.to_core import parse_job
from cotenant.api.validation.problems import DocumentError
from cotenant.sdk.errors import InvalidJobError
from cotenant.sdk.gpu_request import GpuText, gpu_spec
from cotenant.sdk.working_folder import Folder, read_folder

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A data-parallel training job: a program, and what each of its workers needs.

    `script` is a file of this machine. Its text, and that of `files`, is sent as it is when the job is planned. A
    program in the image is named by `command` instead. Times are written as in manifests: `"90m"`, `"2h"`. Other fields
    go into `spec`, under the names of a TrainingJob.
    """

    script: str | Path | None = None
    args: Sequence[object] = ()
    command: Sequence[str] = ()
    files: Sequence[str | Path] = ()
    """Files that are placed beside the script, in one folder."""
    folder: str | Path | None = None
    """A working folder that is sent whole, with the script in it, except what `.cotenantignore` names."""
    name: str = ""
    """Default: the script's name, with a suffix that differs for each submission."""
    queue: str = ""
    profile: str = ""
    """A TrainingProfile: defaults for workers, gpu, cpu, memory and image."""
    workers: int | None = None
    """Number of ranks. Default: 1, or that of the profile."""
    min_workers: int | None = None
    gpu: GpuText | Sequence[str] | None = None
    """GPUs of each worker. Default: 1, or those of the profile."""
    cpu: str | int | None = None
    memory: str | None = None
    image: str | None = None
    env: Mapping[str, object] = field(default_factory=dict)
    expected_runtime: str | None = None
    max_runtime: str | None = None
    retries: int | None = None
    priority: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    def documents(self, namespace: str, queue: str, suffix: str) -> tuple[Document, Document | None]:
        """(TrainingJob, ConfigMap with its code or None) for this namespace.

        `queue` is used if the job names none; `suffix` is that of a generated name. Raises InvalidJobError, as the API
        server would refuse it.
        """
        name = self.name or f"{self._stem()}-{suffix}"
        try:
            code = self._code()
            config = code.config_map(f"{name}-code", namespace) if code.files else None
            spec = self._spec(queue, code, f"{name}-code" if config else "")
        except ValueError as error:
            raise InvalidJobError([str(error)]) from error
        metadata: Document = {"name": name, "namespace": namespace}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        job = {"apiVersion": names.API_VERSION, "kind": "TrainingJob", "metadata": metadata, "spec": spec}
        check(job, parse_job)
        return job, config

    def _program(self, code: Folder) -> list[str]:
        words = [str(one) for one in self.args]
        if self.script is None:
            return code.begun([*self.command, *words])
        return code.command(self._script_below() if self.folder is not None else Path(self.script).name, words)

    def _script_below(self) -> str:
        root, script = Path(self.folder or ".").resolve(), Path(self.script or "")
        found = script.resolve() if script.is_absolute() or script.exists() else (root / script).resolve()
        try:
            return found.relative_to(root).as_posix()
        except ValueError:
            raise ValueError(f"script: {script} is not in the folder that travels, {root}") from None

    def _stem(self) -> str:
        named = Path(self.script).stem if self.script else (Path(self.command[-1]).stem if self.command else "job")
        kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in named.lower()).strip("-")
        return (kept if kept[:1].isalpha() else f"job-{kept}").strip("-")[:40].rstrip("-")

    def _code(self) -> Folder:
        """The code that is sent. Raises ValueError."""
        if self.folder is not None:
            if self.files:
                raise ValueError("give either folder, which travels whole, or files")
            return self._whole_folder()
        found: dict[str, bytes] = {}
        for path in (*([self.script] if self.script is not None else ()), *self.files):
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise ValueError(f"{path}: {error.strerror or error}") from None
            if Path(path).name in found:
                raise ValueError(f"two files are called {Path(path).name}: where they run, they lie in one folder")
            found[Path(path).name] = content
        return Folder(tuple(sorted(found.items())))

    def _whole_folder(self) -> Folder:
        root = Path(self.folder or ".")
        if not root.is_dir():
            raise ValueError(f"folder: {root} is no folder")
        code = read_folder(root)
        if self.script is not None and (below := self._script_below()) not in dict(code.files):
            raise ValueError(f"script: there is no {below} in what travels of {root}")
        return code

    def _spec(self, queue: str, code: Folder, config: str) -> Document:
        if (self.script is None) == (not self.command):
            raise ValueError('give either script="train.py" or command=["python", "-m", "package"]')
        runtime: Document = {"command": self._program(code), "image": self.image}
        if config:
            runtime["code"] = {"configMap": {"name": config}}
        if self.env:
            runtime["env"] = [{"name": key, "value": str(value)} for key, value in self.env.items()]
        resources = {"cpu": None if self.cpu is None else str(self.cpu), "memory": self.memory}
        gpu = self.gpu if self.gpu is not None or self.profile else 1
        spec: Document = {
            "queue": self.queue or queue,
            "profile": self.profile or None,
            "workers": self.workers if self.workers is not None or self.profile else 1,
            "minWorkers": self.min_workers,
            "gpu": None if gpu is None else gpu_spec(gpu),
            "resources": _filled(resources) or None,
            "runtime": _filled(runtime),
            "expectedRuntime": self.expected_runtime,
            "maxRuntime": self.max_runtime,
            "retries": self.retries,
            "priority": self.priority,
        }
        return _merged(_filled(spec), self.spec)


def of_manifest(manifest: Mapping[str, Any], namespace: str) -> Document:
    """A TrainingJob from a manifest, in this namespace. Raises InvalidJobError."""
    metadata = manifest.get("metadata")
    own = dict(metadata) if isinstance(metadata, Mapping) else {}
    if own.setdefault("namespace", namespace) != namespace:
        raise InvalidJobError([f"metadata.namespace: {own['namespace']!r}; this client is of namespace {namespace!r}"])
    document = {key: value for key, value in manifest.items() if key != "status"} | {"metadata": own}
    check(document, parse_job)
    return document | {"apiVersion": names.API_VERSION}  # the version of the path that it is sent to


def check(document: Document, parse: Callable[[Document], object]) -> None:
    """Raises InvalidJobError with the problems that `parse` finds."""
    try:
        parse(document)
    except DocumentError as error:
        raise InvalidJobError([str(problem) for problem in error.problems]) from error


def _filled(fields: Mapping[str, Any]) -> Document:
    return {key: value for key, value in fields.items() if value is not None}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Document:
    """Both objects merged field by field, as in a merge patch; `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        here = merged.get(key)
        merged[key] = _merged(here, value) if isinstance(here, dict) and isinstance(value, Mapping) else value
    return _filled(merged)
