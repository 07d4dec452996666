"""A ledger that was kept by hand: three jobs, two evictions, one fault, as in docs/money.md. Equal to the second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cotenant.api.resources.trainingjob_status import CheckpointStatus, ProgressStatus, TrainingJobStatus
from cotenant.controller.client.kube import GPU_NODES, NODES, QUEUES, TRAINING_JOBS
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.controller.cluster.cluster_view import ClusterView
from cotenant.controller.decision_log.showback_ledger import ShowbackLedger
from cotenant.controller.informers.cache import ObjectCache
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.isolation.verification import NOTHING
from cotenant.controller.lifecycle import plan_transitions, status_transitions
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent
from cotenant.decision_log.measured_use import NOTHING_MEASURED, MeasuredUse
from cotenant.decision_log.runs import run_of
from cotenant.decision_log.showback.charges import UsageCharge
from cotenant.decision_log.showback.prices import PriceList, price_list_of
from cotenant.decision_log.showback.report import added_up, priced, total
from tests.controller.builders import T0, job_document, placement_on
from tests.controller.cluster.cluster_view.view_of import GPU_NODE, NODE

MINUTE = 60
PRICES = price_list_of('{"currency": "EUR", "classes": [{"gpuClass": "H100", "perGPUHour": "3.60"}]}')
"""A micro-unit for a milli-GPU-second."""
MILLI = 400
"""What each of the three holds: a share of 0.4."""
BY_HAND = {
    # What each job held, in seconds of its share: used, idle, lost to preemption, lost to faults.
    "red/a": (50 * MINUTE, 0, 10 * MINUTE, 0),
    "red/b": (10 * MINUTE, 10 * MINUTE, 20 * MINUTE, 0),
    "red/c": (30 * MINUTE, 0, 0, 15 * MINUTE),
}


class Books:
    """A cluster with a queue that has a budget, three jobs, and the books that the operator keeps of them."""

    def __init__(self) -> None:
        self.cache, self.now = ObjectCache(), T0
        self.statuses: dict[str, TrainingJobStatus] = {}
        self.lines: list[UsageCharge] = []
        metadata = {"name": "red", "uid": "q", "resourceVersion": "1"}
        spec = {"namespaces": ["red"], "quotas": [{"guaranteed": 4}], "budget": {"gpuHours": 100, "period": "Day"}}
        self.queue: dict[str, Any] = {
            "apiVersion": "cotenant.dev/v1beta1",
            "kind": "Queue",
            "metadata": metadata,
            "spec": spec,
        }
        for resource, document in ((NODES, NODE), (GPU_NODES, GPU_NODE), (QUEUES, self.queue)):
            self.cache.put(resource, document)
        self.new_leader()

    def new_leader(self) -> None:
        """Start a new leader, which knows only the API server's objects and the lines that were written."""
        self.budgets = Budgets(PRICES)
        self.view = ClusterView(self.cache, JobMemories(), Settings(), self.budgets)
        self.view.sync(self.now)
        self.ledger = ShowbackLedger(self.cache, self.view.meters)
        self.ledger.restore(self.lines)

    def at(self, minute: float) -> None:
        """Let time pass in steps of a minute, with a look at each."""
        while self.now < T0 + minute * MINUTE:
            self.now += MINUTE
            self.look()

    def look(self) -> None:
        self.view.sync(self.now)
        self.lines += self.ledger.charges(self.now, self.use)
        usage = self.budgets.usage(self.cache.queues["red"], self.now)
        assert usage is not None
        metadata = self.queue["metadata"] | {"resourceVersion": str(int(self.now))}
        self.cache.put(QUEUES, self.queue | {"metadata": metadata, "status": {"budget": usage.to_document()}})

    def use(self, uid: str) -> MeasuredUse:
        """A sample of b's GPU every second, in every other one of which it does nothing; nobody measures the others."""
        seen = int(self.now - T0)
        return (
            MeasuredUse(samples=seen, busy_samples=seen, idle_samples=seen // 2) if uid == "uid-b" else NOTHING_MEASURED
        )

    def put(self, name: str, status: TrainingJobStatus) -> None:
        self.statuses[name] = status
        document: dict[str, Any] = job_document(name, status.to_document(), workers=1)
        document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(int(self.now))}
        self.cache.put(TRAINING_JOBS, document)

    def admit(self, name: str) -> None:
        before = self.statuses.get(name, TrainingJobStatus())
        status = plan_transitions.admitted(before, placement_on(("n1", 1)), NOTHING, "", self.now)
        self.put(
            name, status_transitions.moved(status, LifecycleEvent.WORKERS_READY, reason="", message="", now=self.now)
        )

    def save(self, name: str) -> None:
        """A checkpoint of step 5, and more steps after it."""
        saved = ProgressStatus(step=9, last_checkpoint=CheckpointStatus(step=5, at=self.now))
        self.put(name, self.statuses[name].model_copy(update={"progress": saved}))

    def leave(self, name: str, kind: str, event: LifecycleEvent = LifecycleEvent.EVICTED) -> None:
        asked = status_transitions.evicting(self.statuses[name], event, kind=kind, message="", now=self.now)
        self.put(name, status_transitions.released(
            asked, milli=MILLI, over_at=self.now, now=self.now, gpu_class="H100"))  # fmt: skip

    def finish(self, name: str) -> None:
        self.put(name, status_transitions.finished(
            self.statuses[name], LifecycleEvent.COMPLETED, reason="", message="", milli=MILLI, over_at=self.now,
            now=self.now, gpu_class="H100"))  # fmt: skip


def story(books: Books, *, killed_at: tuple[int, ...] = ()) -> None:
    """Minutes: a holds 0-30 (saved at 20, preempted), 40-70 (finishes); b 10-30 (never saved, preempted), 60-80
    (finishes); c 0-45 (saved at 30, its node is lost).
    """
    happens: dict[int, list[Callable[[], None]]] = {
        0: [lambda: books.admit("a"), lambda: books.admit("c")],
        10: [lambda: books.admit("b")],
        20: [lambda: books.save("a")],
        30: [lambda: books.leave("a", "Preempted"), lambda: books.leave("b", "Reclaimed"), lambda: books.save("c")],
        40: [lambda: books.admit("a")],
        45: [lambda: books.leave("c", "NodeLost")],
        60: [lambda: books.admit("b")],
        70: [lambda: books.finish("a")],
        80: [lambda: books.finish("b")],
    }
    for minute in range(0, 91):
        books.at(minute)
        for step in happens.get(minute, []):
            step()
        if minute in killed_at:
            books.new_leader()
    books.at(95)


@pytest.mark.parametrize("killed_at", [(), (30,), (15, 30, 45, 46, 70, 80)], ids=str)
def test_the_books_are_those_that_were_kept_by_hand_whoever_led(killed_at: tuple[int, ...]) -> None:
    books = Books()
    books.look()
    story(books, killed_at=killed_at)
    parts = list(priced(books.lines, 0, int(books.now) + 1, PRICES))
    found = {
        line.name: (line.used, line.idle, line.lost_to_preemption, line.lost_to_faults)
        for line in added_up(parts, "job")
    }
    assert found == {name: tuple(MILLI * seconds for seconds in four) for name, four in BY_HAND.items()}
    # The decision log, the budget and the cost agree.
    held = sum(MILLI * sum(four) for four in BY_HAND.values())
    jobs = [record.job for record in books.cache.jobs.values() if record.job]
    assert sum(run_of(job).gpu_milliseconds for job in jobs) == held == total(parts).held == total(parts).micros
    assert books.budgets.standing("red", books.cache.queues["red"]).spent == held


def test_a_job_that_is_deleted_while_it_runs_is_charged_until_then() -> None:
    books = Books()
    books.admit("a")
    books.at(5)
    record = books.cache.jobs["red/a"]
    books.cache.put(TRAINING_JOBS, {"metadata": {"name": "a", "namespace": "red", "uid": "uid-a"}}, True)
    assert books.ledger.on_deleted(record, books.now, NOTHING_MEASURED) == MILLI * 5 * MINUTE
    books.at(6)
    assert [(one.name, one.held, one.gpu_class) for one in books.lines] == [("a", MILLI * 5 * MINUTE, "H100")]


def test_what_is_held_now_is_in_the_answer_and_not_in_the_books() -> None:
    books = Books()
    books.admit("a")
    books.at(5)
    going_on = books.ledger.going_on(books.now, books.use)
    assert [(one.name, one.used) for one in going_on] == [("a", MILLI * 5 * MINUTE)]
    assert books.lines == []
    assert next(iter(priced(going_on, 0, int(books.now), PriceList()))).price is None
