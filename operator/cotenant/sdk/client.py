"""The same verbs for programs without an event loop: `Client`, and the `Run` that it returns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cotenant.sdk.async_client import AsyncClient
from cotenant.sdk.background_loop import BackgroundLoop
from cotenant.sdk.gpu_request import GpuText
from cotenant.sdk.job import JobRequest
from cotenant.sdk.objects.async_run import AsyncRun
from cotenant.sdk.objects.handles import SessionHandle, SweepHandle
from cotenant.sdk.objects.object_handle import Document, ObjectHandle
from cotenant.sdk.objects.requests import Values
from cotenant.sdk.plan import SubmissionPlan

if TYPE_CHECKING:
    from cotenant.sdk.local_machine import LocalMachine


@dataclass(frozen=True, slots=True, repr=False)
class Run(ObjectHandle[AsyncRun]):
    """One submitted job. Its state is read each time. If the program ends, the job goes on."""

    def why(self) -> Document:
        """The operator's explanation: reason, position, who is ahead, when it starts, what would change it."""
        return self._loop.call(self._object.why())

    def events(self) -> Iterator[Document]:
        """The status at each change of phase, reason, message or progress, until the job has ended."""
        return self._loop.iterate(self._object.events())

    def logs(self, *, rank: int | None = None, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """Lines of the newest attempt. `follow` needs a `rank` if there are several pods."""
        return self._loop.iterate(self._object.logs(rank=rank, follow=follow, tail=tail))

    def result(self, timeout_s: float | None = None) -> Document:
        """Its results. Raises JobFailed, with the rank and its last lines, or JobTimeout."""
        return self._loop.call(self._object.result(timeout_s))


class Client:
    """A namespace and its queue, with the rights of the kubeconfig's user or of the pod's ServiceAccount."""

    def __init__(
        self,
        *,
        queue: str = "",
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | None = None,
    ) -> None:
        """The default namespace is that of the context; the default queue has the namespace's name."""
        self._client = AsyncClient.connect(queue=queue, namespace=namespace, context=context, kubeconfig=kubeconfig)
        self._loop = BackgroundLoop(at_end=self._client.server.close)
        flags = {"--context": context, "--kubeconfig": kubeconfig}
        words = [word for flag, value in flags.items() if value for word in (flag, value)]
        self._open_session = (sys.executable, "-m", "cotenant", "session", "open", *words)

    @staticmethod
    def local() -> LocalMachine:
        """The same verbs with processes of this machine: no cluster, no queue, no limits."""
        from cotenant.sdk.local_machine import LocalMachine

        return LocalMachine()

    @property
    def namespace(self) -> str:
        return self._client.namespace

    @property
    def queue(self) -> str:
        return self._client.queue

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._loop.close()

    def plan(self, job: JobRequest | Mapping[str, Any]) -> SubmissionPlan:
        """What would happen to the job now. A mapping is read as a manifest. Nothing is made. Raises InvalidJob if it
        is invalid.
        """
        return self._loop.call(self._client.plan(job))

    def what_if(self, name: str, change: Mapping[str, Any]) -> Document:
        """What a waiting job would do with other fields: `{"spec.gpu.count": 1}`."""
        return self._loop.call(self._client.what_if(name, change))

    def submit(self, job: JobRequest | Mapping[str, Any] | SubmissionPlan) -> Run:
        """Make the job, and the files that it needs."""
        return self._run(self._loop.call(self._client.submit(job)))

    def map(self, job: JobRequest, arguments: Iterable[Sequence[object]]) -> list[Run]:
        """One job for each list of arguments, appended to the job's own: all, or none."""
        return [self._run(one) for one in self._loop.call(self._client.map(job, arguments))]

    def get(self, name: str) -> Run:
        return self._run(self._loop.call(self._client.get(name)))

    def runs(self) -> list[Run]:
        """All jobs of the namespace, by name."""
        return [self._run(one) for one in self._loop.call(self._client.runs())]

    def sweep(
        self,
        job: JobRequest,
        *,
        parameters: Mapping[str, Values],
        metric: str,
        goal: str,
        max_trials: int,
        algorithm: str = "TPE",
        parallelism: int = 1,
        spec: Mapping[str, Any] | None = None,
    ) -> SweepHandle:
        """Make a sweep over the job.

        `parameters` by name: a Range or list of values each. `goal` is Minimize or Maximize. A parameter that the job's
        args and env do not name becomes the argument `--NAME=VALUE`. Raises InvalidJob.
        """
        made = self._client.sweep(
            job,
            parameters=parameters,
            metric=metric,
            goal=goal,
            max_trials=max_trials,
            algorithm=algorithm,
            parallelism=parallelism,
            spec=spec,
        )
        return SweepHandle(self._loop.call(made), self._loop)

    def get_sweep(self, name: str) -> SweepHandle:
        return SweepHandle(self._loop.call(self._client.get_sweep(name)), self._loop)

    def session(
        self,
        application: str,
        *,
        name: str,
        gpu: GpuText | Sequence[str] | None = None,
        profile: str = "",
        image: str | None = None,
        volume: str | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> SessionHandle:
        """Make a session: JupyterLab, CodeServer, Shell or Program. `volume` is the claim of its home. Raises
        InvalidJob.
        """
        made = self._client.session(
            application, name=name, gpu=gpu, profile=profile, image=image, volume=volume, spec=spec
        )
        return SessionHandle(self._loop.call(made), self._loop, self._open_session)

    def get_session(self, name: str) -> SessionHandle:
        return SessionHandle(self._loop.call(self._client.get_session(name)), self._loop, self._open_session)

    def offer(self) -> list[Document]:
        """What the namespace's queues could get now: guaranteed and borrowable GPUs of each class."""
        return self._loop.call(self._client.offer())

    def queues(self) -> list[Document]:
        """The tree of queues, for those who may see all of them."""
        return self._loop.call(self._client.queues())

    def _run(self, run: AsyncRun) -> Run:
        return Run(run, self._loop)
