"""Scores of node states: each state is scored once per question, whatever ledger, row, tenant or class it is asked for.

Two nodes in the same state (equal rows of `Ledger.packed`) get the same answer, so rows are mapped to *states* and only
states are scored. In a cluster of equal nodes that are a few dozen, whatever the number of nodes; where all nodes
differ, what a decision changes is scored and nothing else. What the scores of a shape do not depend on
(`ScoreScope`) is left out of the question, so tenants and class options share answers.

Bounded: beyond `_STATES` the book starts anew, beyond `_ANSWERS` the question that was not asked for longest is
forgotten; both change what is worked out again and no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.fitting import Tenancy, fit, room
from cotenant.core.placement.scoring import Scorer, ScoreScope
from cotenant.core.placement.shapes import Shape, without_classes

Question: TypeAlias = tuple[Shape, Tenancy | None]
"""(shape, the tenant for whom its GPUs fit; None where it makes no difference)."""

_STATES = 8_192
"""States that are known beyond two for each row."""
_ANSWERS = 12 << 20
"""Scores of GPUs that are kept over all questions; 8 bytes each."""
_UNKNOWN = -1
_Number = TypeVar("_Number", np.int64, np.bool_)


class ScoreBook:
    """Shared by ledgers of one inventory, under one scorer."""

    __slots__ = ("_answers", "_numbers", "generation", "scorer")

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.generation = 0
        """States of another generation are numbered anew."""
        self._numbers: dict[bytes, int] = {}
        self._answers: dict[Question, StateScores] = {}
        """Last asked last."""

    def numbers(self, ledger: Ledger, rows: Sequence[int]) -> list[int]:
        """The number of the state that each row is in. A new generation begins where there are too many."""
        known, packed = self._numbers, ledger.packed
        if len(known) > 2 * len(packed) + _STATES:
            self.generation += 1
            self._answers.clear()
            known = self._numbers = {}
        return [known.setdefault(packed[row].tobytes(), len(known)) for row in rows]

    def answers(self, shape: Shape, tenancy: Tenancy) -> StateScores:
        scope = self.scorer.scope(shape)
        question = (shape, tenancy) if scope is ScoreScope.FIT else (without_classes(shape), None)
        found = self._answers.pop(question, None)
        if found is None:
            self._forget()
            found = StateScores(self.scorer, question, scope)
        self._answers[question] = found
        return found

    def _forget(self) -> None:
        while self._answers and sum(kept.size for kept in self._answers.values()) > _ANSWERS:
            del self._answers[next(iter(self._answers))]


class StateScores:
    """Answers to one question, one row per state in the order of first use."""

    __slots__ = ("_gpu", "_known", "_node", "_question", "_scorer", "_slots", "scope")

    def __init__(self, scorer: Scorer, question: Question, scope: ScoreScope) -> None:
        self._scorer, self._question, self.scope = scorer, question, scope
        self._slots: IntArray = np.zeros(0, dtype=np.int64)
        """State → its row in the answers."""
        self._known = 0
        self._node: IntArray = np.zeros(0, dtype=np.int64)
        self._gpu: IntArray = np.zeros((0, 0), dtype=np.int64)

    @property
    def size(self) -> int:
        return int(self._node.size + self._gpu.size + self._slots.size)

    def of(self, ledger: Ledger, rows: IntArray, states: IntArray) -> tuple[IntArray | None, IntArray | None]:
        """([R] score of each row, [R, G] scores of its GPUs); None for what the scope leaves out: a row is as good as
        its best GPU, or all its GPUs are as good."""
        most = int(states.max(initial=0))
        if most >= len(self._slots):
            self._slots = _longer(self._slots, 2 * most + 1, _UNKNOWN)
        slots = self._slots[states]
        new = slots == _UNKNOWN
        if new.any():
            unknown, first = np.unique(states[new], return_index=True)
            self._score(ledger, rows[new][first], unknown)
            slots = self._slots[states]
        node = None if self.scope is ScoreScope.GPU else self._node[slots]
        return node, None if self.scope is ScoreScope.NODE else self._gpu[slots]

    def _score(self, ledger: Ledger, rows: IntArray, states: IntArray) -> None:
        shape, tenancy = self._question
        fits = room(ledger, shape, rows) if tenancy is None else fit(ledger, shape, rows, tenancy)
        scores = self._scorer.score(ledger, shape, rows, fits)
        used = self._known + len(rows)
        if self.scope is not ScoreScope.GPU:
            self._node = _filled(self._node, self._known, scores.node)
        if self.scope is not ScoreScope.NODE:
            self._gpu = _filled(self._gpu, self._known, scores.gpu)
        self._slots[states] = np.arange(self._known, used)
        self._known = used


def _filled(array: IntArray, known: int, more: IntArray) -> IntArray:
    """The first `known` rows, and `more` after them; in place where there is space."""
    used = known + len(more)
    if used > len(array):
        if not known:
            return more.copy()
        array = _longer(array, max(used, known + known // 2), 0)
    array[known:used] = more
    return array


def _longer(array: npt.NDArray[_Number], height: int, value: int) -> npt.NDArray[_Number]:
    bigger = np.full((height, *array.shape[1:]), value, dtype=array.dtype)
    bigger[: len(array)] = array
    return bigger
