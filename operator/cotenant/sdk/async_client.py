"""The verbs over one connection: plan, submit, map, find, and the questions of a queue."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from cotenant.sdk import kubeconfig as kubeconfigs
from cotenant.sdk.api_session import ApiSession
from cotenant.sdk.errors import CotenantError
from cotenant.sdk.gpu_request import GpuText
from cotenant.sdk.job import JobRequest, of_manifest
from cotenant.sdk.job_paths import QUESTIONS, core_path, jobs_path, object_path, question_path, what_if
from cotenant.sdk.objects.async_object import AsyncObject
from cotenant.sdk.objects.async_run import AsyncRun
from cotenant.sdk.objects.async_session import AsyncSession
from cotenant.sdk.objects.async_sweep import AsyncSweep
from cotenant.sdk.objects.requests import Values, session_document, sweep_documents
from cotenant.sdk.plan import SubmissionPlan
from cotenant.sdk.working_folder import owned

SUFFIX_BYTES: Final = 3
PAGE: Final = "500"
ObjectT = TypeVar("ObjectT", bound=AsyncObject)
Document = dict[str, Any]


@dataclass(slots=True)
class AsyncClient:
    """A namespace and its queue, as the caller of a kubeconfig. Use it in `async with`, or close it."""

    server: ApiSession
    namespace: str
    queue: str
    """Queue for jobs that name none."""

    @classmethod
    def connect(
        cls,
        *,
        queue: str = "",
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | None = None,
    ) -> AsyncClient:
        """The default namespace is that of the context; the default queue has the namespace's name. Raises
        CredentialsError.
        """
        server = kubeconfigs.load(kubeconfig, context)
        here = namespace or server.namespace
        return cls(ApiSession(server), here, queue or here)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def plan(self, job: JobRequest | Mapping[str, Any]) -> SubmissionPlan:
        """What would happen to the job now. A mapping is read as a manifest. Nothing is made. Raises InvalidJobError,
        RequestRefusedError.
        """
        manifest, code = self._documents(job)
        return SubmissionPlan(manifest, code, await self._answer({"manifest": manifest}))

    async def what_if(self, name: str, change: Mapping[str, Any]) -> Document:
        """What a waiting job would do with other fields: `{"spec.gpu.count": 1}`."""
        return await self._answer({"job": name, "change": dict(change)})

    async def dry_run(self, plan: SubmissionPlan) -> None:
        """Have the API server look at it as at a job that is made, and make nothing. Raises RequestRefusedError."""
        await self.server.request("POST", jobs_path(self.namespace), plan.manifest, {"dryRun": "All"})

    async def submit(self, job: JobRequest | Mapping[str, Any] | SubmissionPlan) -> AsyncRun:
        """Make the job and its files. If the files cannot be made, the job is deleted again."""
        plan = job if isinstance(job, SubmissionPlan) else SubmissionPlan(*self._documents(job), {})
        return await self._made(AsyncRun, plan.manifest, plan.code)

    async def map(self, job: JobRequest, arguments: Iterable[Sequence[object]]) -> list[AsyncRun]:
        """One job for each list of arguments, appended to the job's own. The queue makes those wait for which there is
        no room.

        All or none: if one job is refused, those before it are deleted.
        """
        runs: list[AsyncRun] = []
        try:
            for index, words in enumerate(arguments):
                name = f"{job.name}-{index}" if job.name else ""
                runs.append(await self.submit(replace(job, name=name, args=(*job.args, *words))))
        except BaseException:
            for run in runs:
                await run.delete()
            raise
        return runs

    async def get(self, name: str) -> AsyncRun:
        """A job that is there. Raises MissingObjectError."""
        return await self._found(AsyncRun, name)

    async def runs(self) -> list[AsyncRun]:
        """All jobs of the namespace, by name."""
        found: list[AsyncRun] = []
        query = {"limit": PAGE}
        while True:
            page = await self.server.request("GET", jobs_path(self.namespace), query=query)
            metadata = [one["metadata"] for one in page.get("items") or ()]
            found += [AsyncRun(self.server, self.namespace, one["name"], one["uid"]) for one in metadata]
            if not page["metadata"].get("continue"):
                return sorted(found, key=lambda run: run.name)
            query["continue"] = page["metadata"]["continue"]

    async def sweep(
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
    ) -> AsyncSweep:
        """Make a sweep over the job.

        `parameters` by name: a Range or list of values each. `goal` is Minimize or Maximize. A parameter that the job's
        args and env do not name becomes the argument `--NAME=VALUE`. Other fields go into `spec`, under the names of a
        Sweep. Raises InvalidJobError.
        """
        document, code = sweep_documents(
            job,
            parameters=parameters,
            metric=metric,
            goal=goal,
            max_trials=max_trials,
            algorithm=algorithm,
            parallelism=parallelism,
            spec=spec or {},
            namespace=self.namespace,
            queue=self.queue,
            suffix=secrets.token_hex(SUFFIX_BYTES),
        )
        return await self._made(AsyncSweep, document, code)

    async def get_sweep(self, name: str) -> AsyncSweep:
        """A sweep that is there. Raises MissingObjectError."""
        return await self._found(AsyncSweep, name)

    async def session(
        self,
        application: str,
        *,
        name: str,
        gpu: GpuText | Sequence[str] | None = None,
        profile: str = "",
        image: str | None = None,
        volume: str | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> AsyncSession:
        """Make a session: JupyterLab, CodeServer, Shell or Program. `volume` is the claim of its home.

        Other fields go into `spec`, under the names of a Session. Raises InvalidJobError.
        """
        document = session_document(
            application,
            name=name,
            gpu=gpu,
            profile=profile,
            image=image,
            volume=volume,
            spec=spec or {},
            namespace=self.namespace,
            queue=self.queue,
        )
        return await self._made(AsyncSession, document, None)

    async def get_session(self, name: str) -> AsyncSession:
        """A session that is there. Raises MissingObjectError."""
        return await self._found(AsyncSession, name)

    async def offer(self) -> list[Document]:
        """What the namespace's queues could get now, by GPU class: guaranteed and borrowable."""
        return await self._of_queues(question_path(self.namespace, "offers"))

    async def queues(self) -> list[Document]:
        """The tree of queues with the arithmetic of fair share; for those who may see all queues."""
        return await self._of_queues(f"{QUESTIONS}/queuetrees")

    async def _of_queues(self, path: str) -> list[Document]:
        found = await self.server.request("GET", path)
        return [{"queue": one["metadata"]["name"], **(one.get("status") or {})} for one in found.get("items") or ()]

    def _documents(self, job: JobRequest | Mapping[str, Any]) -> tuple[Document, Document | None]:
        if not isinstance(job, JobRequest):
            return of_manifest(job, self.namespace), None
        return job.documents(self.namespace, self.queue, secrets.token_hex(SUFFIX_BYTES))

    async def _answer(self, spec: Mapping[str, Any]) -> Document:
        path = question_path(self.namespace, "whatifs")
        return dict((await self.server.request("POST", path, what_if(spec))).get("status") or {})

    async def _found(self, kind: type[ObjectT], name: str) -> ObjectT:
        found = await self.server.request("GET", object_path(kind.PLURAL, self.namespace, name))
        return kind(self.server, self.namespace, name, found["metadata"]["uid"])

    async def _made(self, kind: type[ObjectT], document: Mapping[str, Any], code: Document | None) -> ObjectT:
        """Make the object, then the ConfigMap with its files. If that fails, the object is deleted again."""
        answer = await self.server.request("POST", object_path(kind.PLURAL, self.namespace), document)
        metadata = answer["metadata"]
        made = kind(self.server, self.namespace, metadata["name"], metadata["uid"])
        if code is None:
            return made
        try:
            path = core_path(self.namespace, "configmaps")
            await self.server.request("POST", path, owned(code, made.name, made.uid, kind.KIND))
        except BaseException as error:
            if isinstance(error, CotenantError):
                error.add_note(f"the files of {made.namespace}/{made.name} could not be sent; it is deleted again")
            await made.delete()
            raise
        return made
