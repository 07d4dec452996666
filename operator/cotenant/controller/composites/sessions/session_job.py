"""The TrainingJob of a session: its name, its spec, and the program in its pod. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from cotenant import names
from cotenant.api.resources.sessions.session import Application, Session
from cotenant.controller.client.kube import Document

SPEC_DIGEST: Final = f"{names.GROUP}/session-spec"
"""Annotation on the job: digest of the session's fields that it was made from. Defaults that the API server fills in
are then no change.
"""
RETRIES: Final = 3
"""The application is started again after this many failures of its own."""
_JOB_SUFFIX: Final = "-session"
_HOME: Final = "home"


def job_name(session: Session) -> str:
    return f"{session.metadata.final_name}{_JOB_SUFFIX}"


def path_of(session: Session) -> str:
    """Path of its application. Each session has its own, so that a browser keeps the cookies of two sessions on one
    host apart.
    """
    return f"/sessions/{session.metadata.namespace}/{session.metadata.final_name}/app/"


def port_of(session: Session) -> int | None:
    """Port in its pod; None for a shell."""
    if session.spec.application is Application.SHELL:
        return None
    return session.spec.program.port if session.spec.program else names.SESSION_PORT


def serves_below_path(session: Session) -> bool:
    """True if the application can be served below a path. Others are served at the root of their port."""
    return session.spec.application is Application.JUPYTER_LAB


def job_document(session: Session) -> Document:
    """The job without its owner reference."""
    spec = job_spec(session)
    annotations = {SPEC_DIGEST: digest(spec)}
    if user := session.metadata.annotations.get(names.ANNOTATION_USER):
        annotations[names.ANNOTATION_USER] = user
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingJob",
        "metadata": {"name": job_name(session), "annotations": annotations},
        "spec": spec | {"suspend": False},
    }


def job_spec(session: Session) -> dict[str, Any]:
    """Spec of the job, without `suspend`."""
    written = session.spec.to_document()
    home = {"persistentVolumeClaim": written["volume"]} if session.spec.volume is not None else {"emptyDir": {}}
    runtime: dict[str, Any] = {
        "command": command(session),
        "volumes": [{"name": _HOME, "mountPath": names.SESSION_HOME, **home}],
    }
    runtime |= {name: written[name] for name in ("image", "env") if written.get(name)}
    passed_on = ("queue", "priority", "priorityClassName", "profile", "gpu", "resources", "gracePeriod")
    return {
        **{name: written[name] for name in passed_on if name in written},
        "workers": 1,
        "retries": RETRIES,
        "runtime": runtime,
    }


def command(session: Session) -> list[str]:
    """Program of the worker: the process that watches the session in the pod, and the application that it starts."""
    path = path_of(session) if serves_below_path(session) else "/"
    words = ["python", "-m", "cotenant_worker.sessions", session.spec.application.value, "--path", path]
    if session.spec.program is not None:
        words += ["--port", str(session.spec.program.port), "--", *session.spec.program.command]
    return words


def digest(spec: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:32]
