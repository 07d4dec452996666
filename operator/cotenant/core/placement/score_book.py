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
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.placement.scoring import Scorer, ScoreScope
from cotenant.core.placement.shapes import Shape, without_classes

_STATES = 8_192
"""States that are known beyond two for each row."""
_ANSWERS = 12 << 20
"""Scores of GPUs that are kept over all shapes; 8 bytes each."""
_UNKNOWN = -1
_FEW = 8
_Number = TypeVar("_Number", np.int64, np.bool_)


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
            self._forget()
            found = StateScores(self.scorer, bare)
        self._answers[bare] = found
        return found

    def _forget(self) -> None:
        while self._answers and sum(kept.size for kept in self._answers.values()) > _ANSWERS:
            del self._answers[next(iter(self._answers))]


class StateScores:
    """Scores of one shape, one row per state in the order of first use."""

    __slots__ = ("_gpu", "_known", "_node", "_scorer", "_shape", "_slots", "_slots_of_fits", "scope")

    def __init__(self, scorer: Scorer, shape: Shape) -> None:
        self._scorer, self._shape, self.scope = scorer, shape, scorer.scope(shape)
        self._slots: IntArray = np.zeros(0, dtype=np.int64)
        """State → its row in the answers, for shapes whose scores do not depend on the GPUs that fit."""
        self._slots_of_fits: dict[int, int] = {}
        """(State, GPUs that fit) → row in the answers, for the other shapes."""
        self._known = 0
        self._node: IntArray = np.zeros(0, dtype=np.int64)
        self._gpu: IntArray = np.zeros((0, 0), dtype=np.int64)

    @property
    def size(self) -> int:
        return int(self._node.size + self._gpu.size + self._slots.size + 32 * len(self._slots_of_fits))

    def of(self, ledger: Ledger, rows: IntArray, states: IntArray, fits: BoolArray) -> tuple[IntArray, IntArray | None]:
        """([R] score of each row, [R, G] scores of its GPUs, or None if all are equally good). `fits`: [R, G] GPUs that
        may serve the request."""
        if self.scope is ScoreScope.NODE:
            slots = self._slots_by_state(ledger, rows, states, fits)
            return self._node.take(slots), None
        slots = self._slots_by_fits(ledger, rows, states, fits)
        return self._node.take(slots), self._gpu.take(slots, axis=0)

    def known_gpus(self, state: int, fits: BoolArray) -> IntArray | None:
        """[G] scores of the GPUs of a row in this state; None if they are not worked out yet."""
        slot = self._slots_of_fits.get(_questions([state], fits[None])[0], _UNKNOWN)
        return None if slot == _UNKNOWN else self._gpu[slot]

    def _slots_by_state(self, ledger: Ledger, rows: IntArray, states: IntArray, fits: BoolArray) -> IntArray:
        most = int(states.max(initial=0))
        if most >= len(self._slots):
            self._slots = _longer(self._slots, 2 * most + 1, _UNKNOWN)
        slots = self._slots.take(states)
        if int(slots.min(initial=0)) == _UNKNOWN:
            new = (slots == _UNKNOWN).nonzero()[0]
            unknown = states.take(new)
            self._slots[unknown] = new  # of the rows in one state the last one written stands for all
            of = new[self._slots.take(unknown) == new]
            self._slots[states.take(of)] = self._score(ledger, rows.take(of), fits.take(of, axis=0))
            slots = self._slots.take(states)
        return slots

    def _slots_by_fits(self, ledger: Ledger, rows: IntArray, states: IntArray, fits: BoolArray) -> IntArray:
        known, asked = self._slots_of_fits, _questions(states.tolist(), fits)
        slots = [known.get(question, _UNKNOWN) for question in asked]
        if _UNKNOWN in slots:
            new: dict[int, int] = {}
            for place, question in enumerate(asked):
                if slots[place] == _UNKNOWN:
                    new.setdefault(question, place)
            places = list(new.values())
            known.update(zip(new, self._score(ledger, rows[places], fits[places]).tolist(), strict=True))
            slots = [known[question] for question in asked]
        return np.array(slots, dtype=np.int64)

    def _score(self, ledger: Ledger, rows: IntArray, fits: BoolArray) -> IntArray:
        """Their places in the answers."""
        scores = self._scorer.score(ledger, self._shape, rows, fits)
        before, self._known = self._known, self._known + len(rows)
        self._node = _filled(self._node, before, scores.node)
        if self.scope is not ScoreScope.NODE:
            self._gpu = _filled(self._gpu, before, scores.gpu)
        return np.arange(before, self._known)


def _states_of(packed: IntArray, rows: Sequence[int]) -> list[bytes]:
    """Content of each of the rows; of many read in one go."""
    if len(rows) <= _FEW:
        return [packed[row].tobytes() for row in rows]
    content, size = packed.take(rows, axis=0).tobytes(), packed.shape[1] * packed.itemsize
    return [content[start : start + size] for start in range(0, len(content), size)]


def _questions(states: list[int], fits: BoolArray) -> list[int]:
    """A number for each pair of a state and GPUs that fit: a bit for each GPU, and the state above them."""
    width = fits.shape[1]
    bits = fits @ np.array([1 << column for column in range(width)], dtype=np.int64 if width < 63 else object)
    return [state << width | fit for state, fit in zip(states, bits.tolist(), strict=True)]


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
