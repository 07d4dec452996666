"""Cache of fits and scores of a ledger: per shape, where it fits, how often, and how good each place is.

Kept per row and brought up to date for the rows that were written since (`Ledger.changed_rows`). A GPU fits where it
has room for the amounts and where the tenant may share it: each half is kept by itself, for all who ask for it. Where
no node mixes kinds of GPUs, a class is a set of rows, and all class options of a request share the fits of the shape
without classes. Scores are asked for only where something is to be chosen, and come from a `ScoreBook`, which copies
of the ledger share.
What is kept goes over to the ledger of the next cycle (`over`), where rows that differ are judged again.
Bounded: of questions beyond `_ROWS` rows together the one that was not asked for longest is forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from cotenant.core.gpus.inventory import BoolArray, IntArray
from cotenant.core.gpus.ledger import Ledger
from cotenant.core.model.objects import Sharing
from cotenant.core.placement.fitting import Rows, Tenancy, capacity, may_share, room
from cotenant.core.placement.score_book import ScoreBook
from cotenant.core.placement.scoring import Scorer, ScoreScope
from cotenant.core.placement.shapes import Shape, one_gpu_of, without_classes

LOWEST = np.iinfo(np.int64).min
ANY_TENANT = Tenancy(-1, Sharing.NEVER)
"""Whole GPUs must be empty, so they look the same to every tenant; and so does every share where nothing is held."""
_Key: TypeAlias = tuple[Shape, Tenancy, bool]
"""(shape, tenant, never two workers on one GPU)."""
_ROWS = 4 << 20
"""Rows that are kept over all questions, of some 24 bytes."""
_FEW = 8
"""Rows that are looked up by their states; more are judged together."""
_QUESTIONS = 4_096
_JUDGED = 512
"""States that are known to one shape and tenant."""


class Question(Protocol):
    """Who asks for the fits of a shape. Equal to itself alone."""

    @property
    def shape(self) -> Shape: ...
    @property
    def tenancy(self) -> Tenancy: ...
    @property
    def distinct(self) -> bool:
        """Never two workers on one GPU."""


class FitCache:
    def __init__(self, ledger: Ledger, scorer: Scorer, book: ScoreBook | None = None) -> None:
        """`book`: of a ledger of which this one is a copy."""
        self.ledger = ledger
        self.scorer = scorer
        self.book = ScoreBook(scorer) if book is None else book
        self._shape_fits: dict[_Key, ShapeFit] = {}
        """Last asked last."""
        self._of_question: dict[Question, ShapeFit] = {}
        """Those of them that were asked for lately, by who asked."""
        self._masks: dict[Shape | Tenancy, tuple[BoolArray, int]] = {}
        """Amounts on one GPU, or a tenant → (mask, changes of the ledger that it follows). Last asked last."""
        self._serving: dict[tuple[tuple[str, ...], str], BoolArray] = {}
        """Classes of a shape → [N] rows with GPUs of them."""
        self._most = max(64, _ROWS // max(1, len(ledger.packed)))
        self._states: IntArray = np.zeros(0, dtype=np.int64)
        """[N] state that each row was in when `_numbered` changes had been made."""
        self._numbered = 0
        self._generation = -1

    def shape_fit(self, shape: Shape, tenancy: Tenancy, *, distinct: bool = True) -> AnyFit:
        """Fits and scores of the shape for the tenant, up to date."""
        inventory = self.ledger.inventory
        tenancy = ANY_TENANT if shape.whole else tenancy
        if inventory.mixed or not shape.count or not (shape.classes or shape.only_class):
            return self._shape_fit(shape, tenancy, distinct)
        classes = (shape.classes, shape.only_class)
        serves = self._serving.get(classes)
        if serves is None:
            serves = self._serving[classes] = inventory.rows_of_classes(*classes)
        return ClassFit(self._shape_fit(without_classes(shape), tenancy, distinct), serves)

    def any_class_fit(self, question: Question) -> ShapeFit:
        """The same for who looks at rows with GPUs of the shape's classes alone: elsewhere it need not be right."""
        known = self._of_question.get(question)
        if known is None:
            shape = question.shape
            if shape.count and not self.ledger.inventory.mixed:
                shape = without_classes(shape)
            tenancy = ANY_TENANT if shape.whole else question.tenancy
            known = self._shape_fit(shape, tenancy, question.distinct)
            if len(self._of_question) >= _QUESTIONS:
                self._of_question.clear()
            self._of_question[question] = known
        known.refresh()
        return known

    def over(self, ledger: Ledger, scorer: Scorer) -> FitCache:
        """Fits on another ledger: those that are kept here, to be judged again where the two differ. This one begins
        anew: what was kept is the other's."""
        found = FitCache(ledger, scorer)
        rows = _differing(self.ledger, ledger)
        if rows is None:
            return found
        fits, self._shape_fits, self._of_question = self._shape_fits, {}, {}
        masks, self._masks = self._masks, {}
        found._serving = self._serving
        before = self.ledger.changed_rows
        if len(before) > len(ledger.packed):  # keep what is up to date, count changes anew
            fits = {key: fit for key, fit in fits.items() if fit.seen == len(before)}
            masks = {key: (mask, 0) for key, (mask, seen) in masks.items() if seen == len(before)}
            for fit in fits.values():
                fit.seen = 0
            before = []
        ledger.changed_rows[:] = [*before, *rows]
        found._shape_fits, found._masks = fits, masks
        for fit in fits.values():
            fit.move_to(found)
        return found

    def _shape_fit(self, shape: Shape, tenancy: Tenancy, distinct: bool) -> ShapeFit:
        key = (shape, tenancy, distinct)
        known = self._shape_fits.pop(key, None)
        if known is None:
            while len(self._shape_fits) >= self._most:
                del self._shape_fits[next(iter(self._shape_fits))]
                self._of_question.clear()
            known = ShapeFit(self, shape, tenancy, distinct=distinct)
        self._shape_fits[key] = known
        known.refresh()
        return known

    def fits(self, shape: Shape, tenancy: Tenancy, rows: Rows) -> BoolArray:
        """[R, G] as `fitting.fit`, put together from what is kept for the amounts and for the tenant."""
        fits = self._mask(one_gpu_of(shape))[rows]
        return fits if shape.whole else fits & self._mask(tenancy)[rows]

    def roomy(self, shape: Shape) -> BoolArray:
        """[N, G] GPUs of any class that have what one of the shape's GPUs takes, whoever holds the rest."""
        return self._mask(one_gpu_of(without_classes(shape)))

    def _mask(self, key: Shape | Tenancy) -> BoolArray:
        """[N, G] GPUs that have room for the shape, or that the tenant may share, as they are now."""
        changes = self.ledger.changed_rows
        known = self._masks.pop(key, None)
        if known is None:
            while len(self._masks) >= self._most:
                del self._masks[next(iter(self._masks))]
            known = self._judge(key, slice(None)), len(changes)
        mask, seen = known
        if seen < len(changes):
            rows = _ascending(set(changes[seen:]))
            mask[rows] = self._judge(key, rows)
        self._masks[key] = mask, len(changes)
        return mask

    def _judge(self, key: Shape | Tenancy, rows: Rows) -> BoolArray:
        return room(self.ledger, key, rows) if isinstance(key, Shape) else may_share(self.ledger, rows, key)

    def states(self) -> IntArray:
        """[N] numbers of the states that the rows are in now."""
        changes = self.ledger.changed_rows
        if self._numbered < len(changes) and self._generation == self.book.generation:
            rows = changes[self._numbered :]
            self._states[rows] = self.book.numbers(self.ledger, rows)
        while self._generation != self.book.generation:
            self._generation = self.book.generation
            self._states = np.array(self.book.numbers(self.ledger, range(len(self.ledger.packed))), dtype=np.int64)
        self._numbered = len(changes)
        return self._states


class ShapeFit:
    """One shape, for one tenant, over all rows. Arrays are read-only outside this module."""

    __slots__ = (
        "_all_alike",
        "_cache",
        "_distinct",
        "_fits",
        "_generation",
        "_judged",
        "_node_scores",
        "_scored",
        "_shape",
        "_tenancy",
        "capacity",
        "seen",
    )

    def __init__(self, cache: FitCache, shape: Shape, tenancy: Tenancy, *, distinct: bool) -> None:
        self._cache, self._shape, self._tenancy, self._distinct = cache, shape, tenancy, distinct
        height, width = cache.ledger.inventory.kind.shape
        self.capacity: IntArray = np.zeros(height, dtype=np.int64)
        """[N] workers of the shape that each row takes."""
        self._fits: BoolArray = np.zeros((height, width), dtype=np.bool_)
        self.seen = -1
        """Changes of the ledger that fits and capacity follow."""
        self.move_to(cache)

    def move_to(self, cache: FitCache) -> None:
        """Go on in another cache, where scores are others."""
        self._cache = cache
        self._all_alike = cache.scorer.scope(self._shape) is ScoreScope.NODE
        """Any GPU of a row is as good as another."""
        self._node_scores: IntArray | None = None
        self._scored = 0
        """Changes of the ledger that the scores follow."""
        self._judged: dict[int, _Judgement] = {}
        """State of a row → what was found of it, for the last states that came one by one."""
        self._generation = -1
        """Of the states."""

    def fits(self, row: int) -> BoolArray:
        """[G] the GPU may serve."""
        found: BoolArray = self._fits[row]
        return found

    def all_fits(self) -> BoolArray:
        """[N, G]."""
        return self._fits

    def best_gpu(self, row: int) -> int:
        """The GPU with the highest score, of equal ones the first."""
        fits = self._fits[row]
        return int((fits if self._all_alike else np.where(fits, self.gpu_scores(row), LOWEST)).argmax())

    def gpu_scores(self, row: int) -> IntArray:
        """[G] score of each GPU of the row."""
        if self._all_alike:
            return np.zeros(self._fits.shape[1], dtype=np.int64)
        cache = self._cache
        known = cache.book.answers(self._shape).known_gpus(int(cache.states()[row]), self._fits[row])
        if known is not None:
            return known
        _, gpu = self._answers(np.array([row]))
        return np.zeros(self._fits.shape[1], dtype=np.int64) if gpu is None else gpu[0]

    @property
    def node_scores(self) -> IntArray:
        """[N] score of each row that takes at least one, else LOWEST."""
        changes = self._cache.ledger.changed_rows
        if self._node_scores is None:
            self._node_scores = np.full(len(self.capacity), LOWEST, dtype=np.int64)
            self._score(self._node_scores, np.flatnonzero(self.capacity))
        elif self._scored < len(changes):
            changed = set(changes[self._scored :])
            if len(changed) > _FEW:
                self._score(self._node_scores, _ascending(changed))
            elif unknown := self._recall_scores(self._node_scores, changed):
                self._score(self._node_scores, _ascending(unknown))
                self._note_scores(self._node_scores, unknown)
        self._scored = len(changes)
        return self._node_scores

    def node_score(self, row: int) -> int:
        return int(self.node_scores[row])

    def refresh(self) -> None:
        """Bring fits and capacity up to date."""
        changes = self._cache.ledger.changed_rows
        if self.seen == len(changes):
            return
        if self.seen < 0:
            self._judge(slice(None))
        else:
            changed = set(changes[self.seen :])
            if len(changed) > _FEW:
                self._judge(_ascending(changed))
            elif unknown := self._recall(changed):
                self._judge(_ascending(unknown))
                self._note(unknown)
        self.seen = len(changes)

    def _judge(self, rows: Rows) -> None:
        fits = self._cache.fits(self._shape, self._tenancy, rows)
        self._fits[rows] = fits
        self.capacity[rows] = capacity(self._cache.ledger, self._shape, rows, fits, distinct=self._distinct)

    def _states(self) -> IntArray:
        """[N] states of the rows; what is known of states is of these numbers."""
        states = self._cache.states()
        if self._generation != self._cache.book.generation:
            self._judged.clear()
            self._generation = self._cache.book.generation
        return states

    def _recall(self, rows: Iterable[int]) -> list[int]:
        """Fits and capacity of rows whose states are known; returns the other rows."""
        unknown, states = [], self._states()
        for row in rows:
            if (known := self._judged.get(int(states[row]))) is None:
                unknown.append(row)
            else:
                self._fits[row], self.capacity[row] = known.fits, known.capacity
        return unknown

    def _recall_scores(self, scores: IntArray, rows: Iterable[int]) -> list[int]:
        """The same for scores, of rows that are up to date."""
        unknown, states = [], self._states()
        for row in rows:
            known = self._judged.get(int(states[row]))
            if known is None or known.score is None:
                unknown.append(row)
            else:
                scores[row] = known.score
        return unknown

    def _note(self, rows: Iterable[int]) -> None:
        """Remember what was just found of the rows."""
        states = self._states()
        for row in rows:
            while len(self._judged) >= _JUDGED:
                del self._judged[next(iter(self._judged))]
            self._judged[int(states[row])] = _Judgement(self._fits[row].copy(), int(self.capacity[row]))

    def _note_scores(self, scores: IntArray, rows: Iterable[int]) -> None:
        states = self._states()
        for row in rows:
            if (known := self._judged.get(int(states[row]))) is not None:
                known.score = int(scores[row])

    def _answers(self, rows: IntArray) -> tuple[IntArray | None, IntArray | None]:
        states = self._cache.states()[rows]
        return self._cache.book.answers(self._shape).of(self._cache.ledger, rows, states, self._fits[rows])

    def _score(self, scores: IntArray, rows: IntArray) -> None:
        takes = self.capacity[rows] > 0
        scores[rows[~takes]] = LOWEST
        rows = rows[takes]
        if not len(rows):
            return
        node, gpu = self._answers(rows)
        if node is not None:
            scores[rows] = node
        elif gpu is not None:
            scores[rows] = np.where(self._fits[rows], gpu, LOWEST).max(axis=1)


class ClassFit:
    """A shape that only some rows may serve, by the class of their GPUs. Elsewhere as the shape without classes."""

    __slots__ = ("_fit", "_serves")

    def __init__(self, fit: ShapeFit, serves: BoolArray) -> None:
        self._fit, self._serves = fit, serves

    @property
    def capacity(self) -> IntArray:
        return np.where(self._serves, self._fit.capacity, 0)

    @property
    def node_scores(self) -> IntArray:
        return np.where(self._serves, self._fit.node_scores, LOWEST)

    @property
    def seen(self) -> int:
        return self._fit.seen

    def best_gpu(self, row: int) -> int:
        return self._fit.best_gpu(row)

    def fits(self, row: int) -> BoolArray:
        found: BoolArray = self._fit.fits(row) & self._serves[row]
        return found

    def all_fits(self) -> BoolArray:
        return self._fit.all_fits() & self._serves[:, None]

    def gpu_scores(self, row: int) -> IntArray:
        return self._fit.gpu_scores(row)

    def node_score(self, row: int) -> int:
        return self._fit.node_score(row) if self._serves[row] else LOWEST


AnyFit: TypeAlias = ShapeFit | ClassFit


@dataclass(slots=True)
class _Judgement:
    """One state, for one shape and tenant."""

    fits: BoolArray
    """[G]."""
    capacity: int
    score: int | None = None
    """None: was not asked for."""


def _differing(one: Ledger, other: Ledger) -> list[int] | None:
    """Rows in which fits may differ; None where the two are not of the same nodes."""
    before, now = one.inventory, other.inventory
    if not before.has_frame_of(now):
        return None
    differ = (one.packed[:, 1:] != other.packed[:, 1:]).any(axis=1)  # without the number of equivalent nodes
    if before is not now:
        differ |= (before.usable != now.usable).any(axis=1)
        differ |= (before.ready != now.ready) | (before.shared != now.shared)
    found: list[int] = np.flatnonzero(differ).tolist()
    return found


def _ascending(rows: Collection[int]) -> IntArray:
    return np.array(sorted(rows), dtype=np.int64)
