"""A session with its job, as the API server would have them after so many steps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cotenant import names
from cotenant.api.conversion.to_core import parse_queue, parse_session
from cotenant.api.resources.queues import Queue
from cotenant.controller.client.kube import SESSIONS, Document
from cotenant.controller.composites.composite import Create, Patch, SeenJob, Writes
from cotenant.controller.composites.sessions.session_step import SessionObserved, plan
from cotenant.controller.composites.sessions.times import times_of
from tests.controller.builders import T0


def moment(seconds: float) -> str:
    """RFC 3339 time, this many seconds after the first moment."""
    return datetime.fromtimestamp(T0 + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SessionStory:
    """Plays the API server for one session: writes are taken in, and generations grow with the spec."""

    def __init__(self, **spec: Any) -> None:
        self.document: Document = {
            "apiVersion": names.API_VERSION,
            "kind": "Session",
            "metadata": {"name": "nb", "namespace": "red", "uid": "s1", "resourceVersion": "1", "generation": 1},
            "spec": {"application": "JupyterLab", "queue": "red", "gpu": {"memoryFraction": "0.5"}} | spec,
        }
        self.job: Document | None = None
        self.queues: dict[str, Queue] = {}
        self.events: list[str] = []
        self.look_again_at: float | None = None

    def step(self, seconds: float = 0.0, *, gpu_busy: bool = False) -> Writes:
        """Decide once, this many seconds after the first moment, and take in the writes."""
        session = parse_session(self.document)
        made = plan(
            SessionObserved(
                session=session,
                times=times_of(session.spec, self.queues),
                document=self.document,
                job=None if self.job is None else SeenJob(self.job),
                gpu_busy=gpu_busy,
                now=T0 + seconds,
            )
        )
        for write in made.objects:
            if isinstance(write, Create):
                self.job = {**write.body, "metadata": dict(write.body["metadata"])}
            elif isinstance(write, Patch):
                self._change(write)
        if made.status is not None:
            if made.status != self.document.get("status"):
                self.events += [event.reason for event in made.events]
            self.document = self.document | {"status": made.status}
        self.look_again_at = None if made.look_again_at is None else made.look_again_at - T0
        return made

    def settle(self, seconds: float = 0.0, *, gpu_busy: bool = False) -> None:
        """Step until nothing more is to be written."""
        for _ in range(5):
            made = self.step(seconds, gpu_busy=gpu_busy)
            if not made.objects:
                return
        raise AssertionError("it never settles")

    def spec(self, **fields: Any) -> None:
        """A person writes fields of the spec."""
        metadata = self.document["metadata"]
        self.document = self.document | {
            "metadata": metadata | {"generation": metadata["generation"] + 1},
            "spec": self.document["spec"] | fields,
        }

    def job_is(self, phase: str, attempts: int = 1, **status: Any) -> None:
        assert self.job is not None
        self.job = self.job | {"status": {"phase": phase, "attempts": attempts, **status}}

    def used(self, *, busy: bool = False, at: float | None = None) -> None:
        """What the pod reports of its application."""
        assert self.job is not None
        told = {"busy": busy} | ({} if at is None else {"lastActivity": moment(at)})
        self.job = self.job | {"status": self.job["status"] | {"progress": told}}

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document.get("status") or {}
        return found

    @property
    def phase(self) -> tuple[str, str]:
        return self.status["phase"], self.status["reason"]

    @property
    def ready(self) -> str:
        return next(str(one["status"]) for one in self.status["conditions"] if one["type"] == "Ready")

    @property
    def suspends(self) -> tuple[bool, bool]:
        """`suspend` in the specs of the session and of its job."""
        job = self.job or {"spec": {}}
        return bool(self.document["spec"].get("suspend")), bool(job["spec"].get("suspend"))

    def _change(self, write: Patch) -> None:
        if write.resource == SESSIONS:
            self.spec(**write.patch["spec"])
        else:
            assert self.job is not None
            spec = self.job["spec"] | write.patch.get("spec", {})
            annotations = write.patch.get("metadata", {}).get("annotations", {})
            metadata = self.job["metadata"]
            metadata = metadata | {"annotations": metadata["annotations"] | annotations}
            self.job = self.job | {"metadata": metadata, "spec": {k: v for k, v in spec.items() if v is not None}}


def queue(name: str, parent: str | None = None, **sessions: str) -> Queue:
    """A queue with these bounds for sessions."""
    spec = ({"sessions": sessions} if sessions else {}) | ({"parent": parent} if parent else {})
    return parse_queue({"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec})


def running(**spec: Any) -> SessionStory:
    """A session whose application runs since the first moment."""
    story = SessionStory(**spec)
    story.settle()
    story.job_is("Running")
    story.used()
    story.settle()
    return story
