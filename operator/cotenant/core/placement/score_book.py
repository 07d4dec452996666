"""Scores of node states: each state is scored once per shape, whatever ledger, row, tenant or class it is asked for.

Two nodes in the same state (equal rows of `Ledger.packed`) get the same score, so rows are mapped to *states* and only
states are scored. A cluster of equal nodes has a few dozen states, whatever the number of nodes. If all nodes differ,
each is scored once, and again when a decision changes it. Scores are kept without what they do not depend on
(`ScoreScope`), so that tenants and class options share them.

Bounded: beyond `_STATES` the book starts anew; beyond `_ANSWERS` the shape that was asked for least recently is
dropped. Both change what is worked out again, and no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.fitting import Rows, Tenancy
from cotenant.core.placement.scoring import LOWEST, Scorer, ScoreScope
from cotenant.core.placement.shapes import Shape, without_classes

_STATES = 8_192
"""States that are known beyond two for each row."""
_ANSWERS = 1 << 20
"""Scores of states that are kept over all shapes: 100 MB if nodes have 8 GPUs."""
_UNKNOWN = -1
_FEW = 8
_Number = TypeVar("_Number", np.int64, np.bool_)


class ScoredLedger(Protocol):
    """A ledger with its scorer, its scores and its cached fits."""

    ledger: Ledger
    scorer: Scorer
    book: ScoreBook

    def fits(self, shape: Shape, tenancy: Tenancy, rows: Rows) -> BoolArray:
        """[R, G] GPUs that may serve one of the shape's GPUs now."""
        ...

    def roomy(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs of any class that have what one of the shape's GPUs takes, whoever holds the rest."""
        ...

    def states(self) -> IntArray:
        """[N] numbers of the states that the rows are in now."""
        ...


class ScoreBook:
    """Shared by ledgers of one inventory, under one scorer."""

    __slots__ = ("_answers", "_numbers", "generation", "scorer")

    def __init__(self, scorer: Scorer, before: ScoreBook | None = None) -> None:
        """`before`: the book of the last cycle. States keep their numbers; scores are worked out again."""
        self.scorer = scorer
        self.generation: int = 0 if before is None else before.generation
        """Changes when states are numbered anew: numbers of another generation are void."""
        self._numbers: dict[bytes, int] = {} if before is None else before._numbers
        self._answers: dict[Shape, StateScores] = {}
        """Last asked last."""

    def numbers(self, ledger: Ledger, rows: Sequence[int]) -> list[int]:
        """The number of the state that each row is in. A new generation begins if too many states are known."""
        known, packed = self._numbers, ledger.packed
        if len(known) > 2 * len(packed) + _STATES:
            self.generation += 1
            self._answers.clear()
            known = self._numbers = {}
        return [known.setdefault(state, len(known)) for state in _states_of(packed, rows)]

    def answers(self, shape: Shape) -> StateScores:
        bare = without_classes(shape)
        found = self._answers.pop(bare, None)
        if found is None:
            while len(self._answers) * len(self._numbers) > _ANSWERS:
                del self._answers[next(iter(self._answers))]
            found = StateScores(self.scorer, bare)
        self._answers[bare] = found
        return found


class StateScores:
    """Scores of one shape, one row per state in the order of first use. Of shapes whose scores depend on the set of
    GPUs that fit, nothing is kept."""

    __slots__ = ("_gpu", "_known", "_node", "_scorer", "_shape", "_slots", "scope")

    def __init__(self, scorer: Scorer, shape: Shape) -> None:
        self._scorer, self._shape, self.scope = scorer, shape, scorer.scope(shape)
        self._slots: IntArray = np.zeros(0, dtype=np.int64)
        """State → its row in the answers."""
        self._known = 0
        self._node: IntArray = np.zeros(0, dtype=np.int64)
        self._gpu: IntArray = np.zeros((0, 0), dtype=np.int64)

    def of(self, cache: ScoredLedger, rows: IntArray, fits: BoolArray) -> tuple[IntArray, IntArray | None]:
        """([R] score of each row, [R, G] scores of its GPUs, or None if all are equally good). `fits`: [R, G] GPUs that
        may serve the request; the same for rows in one state."""
        ledger, states = cache.ledger, cache.states().take(rows)
        if self.scope is ScoreScope.FIT:
            _, of, place = np.unique(states, return_index=True, return_inverse=True)
            scores = self._scorer.score(ledger, self._shape, rows.take(of), fits.take(of, axis=0))
            return scores.node.take(place), scores.gpu.take(place, axis=0)
        slots = self._slots_of(cache, rows, states)
        if self.scope is ScoreScope.NODE:
            return self._node.take(slots), None
        gpu = self._gpu.take(slots, axis=0)
        return np.where(fits, gpu, LOWEST).max(axis=1, initial=LOWEST), gpu

    def _slots_of(self, cache: ScoredLedger, rows: IntArray, states: IntArray) -> IntArray:
        most = int(states.max(initial=0))
        if most >= len(self._slots):
            self._slots = _longer(self._slots, 2 * most + 1, _UNKNOWN)
        slots = self._slots.take(states)
        if int(slots.min(initial=0)) == _UNKNOWN:
            new = (slots == _UNKNOWN).nonzero()[0]
            unknown = states.take(new)
            self._slots[unknown[::-1]] = new[::-1]  # of the rows in one state the first one stands for all
            of = new[self._slots.take(unknown) == new]
            self._slots[states.take(of)] = self._score(cache, rows.take(of))
            slots = self._slots.take(states)
        return slots

    def _score(self, cache: ScoredLedger, rows: IntArray) -> IntArray:
        """Their places in the answers. Scored with all GPUs that have room, whoever may share them."""
        scores = self._scorer.score(cache.ledger, self._shape, rows, cache.roomy(self._shape).take(rows, axis=0))
        before, self._known = self._known, self._known + len(rows)
        if self.scope is ScoreScope.NODE:
            self._node = _filled(self._node, before, scores.node)
        else:
            self._gpu = _filled(self._gpu, before, scores.gpu)
        return np.arange(before, self._known)


def _states_of(packed: IntArray, rows: Sequence[int]) -> list[bytes]:
    """Content of each of the rows; of many read in one go."""
    if len(rows) <= _FEW:
        return [packed[row].tobytes() for row in rows]
    content, size = packed.take(rows, axis=0).tobytes(), packed.shape[1] * packed.itemsize
    return [content[start : start + size] for start in range(0, len(content), size)]


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
