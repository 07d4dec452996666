"""Runs questions about the last plan, one at a time, in a thread, with bounds on number and time.

Nobody writes to the plan and its snapshot, so neither questions nor cycles need a lock. They share the interpreter, so
a question may slow a cycle down.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from cotenant import names
from cotenant.controller.leader.leadership import Leadership
from cotenant.core.model.objects import JobKey
from cotenant.core.model.plan import Plan
from cotenant.core.policy import Policy
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.query.explanation import Explanation, summarise
from cotenant.query.situation import Situation
from cotenant.query.waiting_line import WaitingLine

T = TypeVar("T")
WAITING_MAX: Final = 16
WAITING_OF_ONE_MAX: Final = 4
"""At most this many concurrent questions per user."""
QUESTION_S: Final = 10.0


class NotFoundError(RuntimeError):
    """What is asked about is not there."""

    @classmethod
    def of_job(cls, namespace: str, name: str) -> NotFoundError:
        return cls(f'trainingjobs.{names.GROUP} "{name}" not found in namespace "{namespace}"')


class NoSituationError(RuntimeError):
    """This replica does not lead, or has not decided yet."""


class TooManyQuestionsError(RuntimeError):
    """Too many questions wait to answer another one in time."""


class NotNowError(RuntimeError):
    """There is no answer yet: for example, a container that has not started has no log."""


class ElsewhereError(RuntimeError):
    """Another cluster, which has the answer, does not give it."""


@dataclass(frozen=True)
class Subject:
    """The plan that questions are about, and values that several questions share."""

    situation: Situation

    @cached_property
    def line(self) -> WaitingLine:
        return WaitingLine(self.situation)

    def summary(self, key: JobKey) -> Explanation | None:
        """The explanation without the jobs ahead, for lists."""
        return summarise(self.situation, key, self._places)

    @cached_property
    def _places(self) -> dict[JobKey, int]:
        return {job.key: number for number, job in enumerate(self.line.jobs, start=1)}


@dataclass(slots=True)
class Questions:
    policy: Policy
    leadership: Leadership
    _subject: Subject | None = None
    _waiting: Counter[str] = field(default_factory=Counter)
    """User → number of questions in progress."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "questions"))

    def __post_init__(self) -> None:
        self.leadership.on_lost(self.forget)

    def on_plan(self, snapshot: Snapshot, plan: Plan) -> None:
        self._subject = Subject(Situation(snapshot, plan, self.policy))

    def forget(self) -> None:
        """Another replica leads."""
        self._subject = None

    async def ask(self, by: str, question: Callable[[Subject], T]) -> T:
        """The answer for the caller `by`. Raises NoSituationError, TooManyQuestionsError, TimeoutError."""
        subject = self._subject
        if subject is None:
            raise NoSituationError("no replica leads yet, or it has not decided yet; ask again in some seconds")
        if self._waiting.total() >= WAITING_MAX or self._waiting[by] >= WAITING_OF_ONE_MAX:
            raise TooManyQuestionsError("too many questions at a time; ask again in some seconds")
        self._waiting[by] += 1
        try:
            async with asyncio.timeout(QUESTION_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, question, subject)
        finally:
            self._waiting[by] -= 1
            self._waiting += Counter()  # without those who ask nothing any more
