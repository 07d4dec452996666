"""What queues have spent of their budgets: from the meters of jobs, over periods, leaders, and clocks that step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.to_core import parse_queue
from cotenant.api.resources.queues import Queue
from cotenant.controller.cluster.budgets.budgets import Budgets
from cotenant.decision_log.showback.meters import Meter, Span
from cotenant.decision_log.showback.prices import NO_PRICES, Price, PriceList

NOON = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())
MIDNIGHT = NOON + 12 * 3600
EUROS = PriceList("EUR", (Price(gpu_class="H100", micros=3_600_000), Price(gpu_class="*", micros=1)))
"""An H100 costs a micro-unit for a milli-GPU-second."""


def queue(
    name: str = "red",
    *,
    status: Any = None,
    parent: str | None = None,
    uid: str = "q",
    created: str | None = None,
    **budget: Any,
) -> Queue:
    spec: dict[str, Any] = {"budget": {"gpuHours": 2, "period": "Day"} | budget} | (
        {"parent": parent} if parent else {}
    )
    metadata = {"name": name, "uid": uid} | ({"creationTimestamp": created} if created else {})
    document = {"apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}
    return parse_queue(document | ({"status": status} if status else {}))


def holding(begun: int, milli: int = 1000, *, uid: str = "a", of: str = "red", gpu_class: str = "H100") -> Meter:
    return Meter(uid=uid, queue=of, current=Span(gpu_class=gpu_class, milli=milli, begun=begun))


def over(meter: Meter, at: int) -> Meter:
    """The same job after it gave its GPUs back."""
    assert meter.current is not None
    last = replace(meter.current, ended=at, amount=meter.current.milli * (at - meter.current.begun))
    return replace(meter, before=meter.before + (meter.last.amount if meter.last else 0), last=last, current=None)


def spent(budgets: Budgets, of: Queue, now: int) -> tuple[int, str, str]:
    usage = budgets.usage(of, now)
    assert usage is not None
    return usage.spent_milli_gpu_seconds, usage.spent, usage.left


def taken_up(budgets: Budgets, of: Queue, now: int) -> Queue:
    """The queue as the next leader reads it from the API server."""
    usage = budgets.usage(of, now)
    assert usage is not None
    document = of.model_dump(mode="json", by_alias=True, exclude_none=True)
    return parse_queue(document | {"status": {"budget": usage.to_document()}})


def test_a_budget_is_charged_for_what_is_held_and_starts_anew_with_the_period() -> None:
    budgets, red, job = Budgets(), queue(), holding(NOON, 1500)
    shown = []
    for meter, at in ((job, NOON), (job, NOON + 1800), (over(job, NOON + 1800), NOON + 3600)):
        budgets.charge({"red": red}, [meter], at)
        shown.append(spent(budgets, red, at))
    budgets.charge({"red": red}, [over(job, NOON + 1800)], MIDNIGHT + 1)
    assert [*shown, spent(budgets, red, MIDNIGHT + 1)] == [
        (0, "0", "2"),
        (2_700_000, "0.75", "1.25"),
        (2_700_000, "0.75", "1.25"),
        (0, "0", "2"),
    ]


def test_what_is_held_over_midnight_is_charged_to_both_days_to_the_second() -> None:
    budgets, red, job = Budgets(), queue(), holding(NOON)
    budgets.charge({"red": red}, [job], MIDNIGHT - 3)
    before = spent(budgets, red, MIDNIGHT - 3)
    budgets.charge({"red": red}, [over(job, MIDNIGHT + 1)], MIDNIGHT + 2)
    assert (before[0], spent(budgets, red, MIDNIGHT + 2)[0]) == (0, 1000)


@pytest.mark.parametrize(
    ("percent", "used_s", "left"),
    [(None, 0, "4"), (50, 0, "3"), (None, 3600, "3"), (50, 5400, "2.5"), (None, 9000, "2")],
    ids=["all", "half of a day's", "an hour less", "less than the bound", "overspent"],
)
def test_what_is_left_is_carried_into_the_next_period_up_to_its_bound(
    percent: int | None, used_s: int, left: str
) -> None:
    bound: dict[str, Any] = {} if percent is None else {"carryOverPercent": percent}
    budgets, red, job = Budgets(), queue(carryOver="Unused", **bound), holding(NOON)
    budgets.charge({"red": red}, [job], NOON)
    budgets.charge({"red": red}, [over(job, NOON + used_s)], NOON + used_s)
    budgets.charge({"red": red}, [over(job, NOON + used_s)], MIDNIGHT)
    assert spent(budgets, red, MIDNIGHT)[2] == left


def test_any_number_of_idle_periods_carries_no_more_than_the_bound() -> None:
    budgets, red = Budgets(), queue(carryOver="Unused", carryOverPercent=150)
    budgets.charge({"red": red}, [], NOON)
    budgets.charge({"red": red}, [], NOON + 20 * 86_400)
    assert spent(budgets, red, NOON)[2] == "5"


def test_money_is_counted_to_the_micro_unit_at_the_price_of_the_time() -> None:
    prices = PriceList("EUR", (Price(gpu_class="H100", micros=3_600_000, until=NOON + 10),
                               Price(gpu_class="H100", micros=7_200_000, since=NOON + 10)))  # fmt: skip
    budgets, red = Budgets(prices), queue(money=1)
    for after in (0, 7, 20):
        budgets.charge({"red": red}, [holding(NOON, 3)], NOON + after)
    usage = budgets.usage(red, NOON + 20)
    assert usage is not None
    assert usage.money is not None
    assert (usage.money.spent_micros, usage.money.spent, usage.money.left) == (90, "0.00009", "0.99991")


def test_a_queue_is_charged_for_those_below_it_and_for_no_other() -> None:
    queues = {"red": queue(), "child": queue("child", parent="red"), "blue": queue("blue")}
    budgets = Budgets()
    for after in (0, 10):
        budgets.charge(queues, [holding(NOON, of="child")], NOON + after)
    assert {name: spent(budgets, one, NOON + 10)[0] for name, one in queues.items()} == {
        "red": 10_000, "child": 10_000, "blue": 0,
    }  # fmt: skip


def test_a_new_budget_is_not_charged_for_what_was_held_before_it() -> None:
    budgets = Budgets()
    budgets.charge({"red": queue()}, [holding(NOON - 100)], NOON)
    budgets.charge({"red": queue()}, [holding(NOON - 100)], NOON + 5)
    assert spent(budgets, queue(), NOON + 5)[0] == 5_000


def test_the_next_leader_goes_on_where_the_account_was_written_over_any_time_without_a_leader() -> None:
    first, red, job = Budgets(), queue(), holding(NOON)
    for after in (0, 100):
        first.charge({"red": red}, [job], NOON + after)
    written = taken_up(first, red, NOON + 100)
    found = []
    for meter in (job, over(job, NOON + 130), holding(NOON + 150, uid="b")):
        second = Budgets()
        second.charge({"red": written}, [meter], NOON + 200)
        found.append(spent(second, written, NOON + 200)[0])
    # Three cases: it runs on; it ended unseen; its document is gone and another job began. Unknown time counts as held.
    assert found == [200_000, 130_000, 100_000 + 100_000 + 50_000]


def test_a_decision_after_a_restart_rests_on_the_account_that_was_written() -> None:
    first, red = Budgets(), queue()
    for after in (0, 7200):
        first.charge({"red": red}, [holding(NOON)], NOON + after)
    written = taken_up(first, red, NOON + 7200)
    second = Budgets()
    second.charge({"red": written}, [], NOON + 7200)
    assert second.standing("red", written).spent == 7_200_000


def test_a_job_whose_document_goes_is_charged_until_that_is_seen() -> None:
    budgets, red = Budgets(), queue()
    for meters, after in (([holding(NOON)], 0), ([holding(NOON)], 5), ([], 10), ([], 15)):
        budgets.charge({"red": red}, meters, NOON + after)
    assert spent(budgets, red, NOON + 15)[0] == 10_000


def test_two_attempts_that_end_between_two_looks_are_both_charged() -> None:
    budgets, red = Budgets(), queue()
    first = over(holding(NOON + 1), NOON + 2)
    second = over(replace(first, current=Span(gpu_class="H100", milli=1000, begun=NOON + 3)), NOON + 4)
    before = Meter(uid="a", queue="red")
    for meter, after in ((before, 0), (second, 5)):
        budgets.charge({"red": red}, [meter], NOON + after)
    assert spent(budgets, red, NOON + 5)[0] == 2_000


def test_a_clock_that_goes_back_gives_nothing_back_and_charges_nothing_twice() -> None:
    budgets, red = Budgets(), queue()
    for after in (0, 100, 40, 50, 110):
        budgets.charge({"red": red}, [holding(NOON)], NOON + after)
    assert spent(budgets, red, NOON + 110)[0] == 110_000


def test_a_queue_that_has_lost_its_budget_has_no_account() -> None:
    budgets, red = Budgets(), queue()
    for after in (0, 100):
        budgets.charge({"red": red}, [holding(NOON)], NOON + after)
    free = red.model_copy(update={"spec": red.spec.model_copy(update={"budget": None})})
    budgets.charge({"red": free}, [holding(NOON)], NOON + 200)
    assert (budgets.standing("red", free).spent, budgets.usage(free, NOON + 200)) == (0, None)


@pytest.mark.parametrize(
    ("away_s", "spent_after"),
    [(0, ["1", "2"]), (1800, ["1.5", "2"]), (12 * 3600, ["0", "0.5"])],
    ids=["at once", "half an hour later", "in the next period"],
)
def test_a_queue_that_is_deleted_and_made_again_goes_on_with_its_account(away_s: int, spent_after: list[str]) -> None:
    """Otherwise anybody who may delete Queues could renew a spent budget."""
    budgets, job, shown = Budgets(), holding(NOON), list[str]()
    budgets.charge({"red": queue(uid="u1")}, [job], NOON)
    budgets.charge({"red": queue(uid="u1")}, [job], NOON + 3600)
    again, at = queue(uid="u2"), NOON + 3600 + away_s
    if away_s:
        budgets.charge({}, [job], NOON + 3605)
    for later in (at, max(NOON + 7200, at + 1800)):
        budgets.charge({"red": again}, [job], later)
        shown.append(spent(budgets, again, later)[1])
    assert shown == spent_after


def test_a_leader_that_never_saw_the_earlier_queue_charges_what_jobs_held_in_its_name() -> None:
    made_at = datetime.fromtimestamp(NOON + 3600, UTC).isoformat()
    again = queue(uid="u2", created=made_at)
    ended = over(holding(NOON, uid="b"), NOON + 1800)
    budgets = Budgets()
    budgets.charge({"red": again}, [holding(NOON), ended], NOON + 3700)
    budgets.charge({"red": again}, [holding(NOON), ended], NOON + 3800)
    assert spent(budgets, again, NOON + 3800)[0] == (3600 + 1800 + 100) * 1000


def test_a_queue_that_cannot_be_read_for_a_moment_goes_on_to_the_second() -> None:
    budgets, job = Budgets(), holding(NOON)
    budgets.charge({"red": queue()}, [job], NOON)
    stale = taken_up(budgets, queue(), NOON)
    budgets.charge({"red": queue()}, [job], NOON + 50)
    budgets.charge({}, [job], NOON + 55)
    budgets.charge({"red": stale}, [job], NOON + 60)
    assert spent(budgets, stale, NOON + 60)[0] == 60_000


def test_what_jobs_of_a_deleted_queue_hold_is_charged_to_the_queue_above() -> None:
    red, child, job = queue(), queue("child", parent="red"), holding(NOON, of="child")
    budgets = Budgets()
    budgets.charge({"red": red, "child": child}, [job], NOON)
    for after in (10, 20):
        budgets.charge({"red": red}, [job], NOON + after, deleted={"child": "red"})
    assert spent(budgets, red, NOON + 20)[0] == 20_000


def test_the_revision_grows_with_what_is_spent_and_stays_while_nothing_is() -> None:
    budgets, red, revisions = Budgets(), queue(), []
    for meters, after in (([], 0), ([], 0), ([holding(NOON)], 5), ([holding(NOON)], 10)):
        budgets.charge({"red": red}, meters, NOON + after)
        revisions.append(budgets.revision)
    assert revisions == [1, 1, 2, 3]


def test_a_tree_that_is_a_circle_is_charged_once() -> None:
    queues = {"red": queue(parent="blue"), "blue": queue("blue", parent="red")}
    budgets = Budgets()
    for after in (0, 10):
        budgets.charge(queues, [holding(NOON)], NOON + after)
    assert [spent(budgets, one, NOON + 10)[0] for one in queues.values()] == [10_000, 10_000]


@dataclass(frozen=True)
class Life:
    """A job: spans of (begun, seconds, milli), in order."""

    uid: str
    spans: tuple[tuple[int, int, int], ...]

    def meter(self, at: int) -> Meter | None:
        """The meter that the status shows at this time."""
        begun = [one for one in self.spans if one[0] <= at]
        if not begun:
            return None
        ended = [Span(gpu_class="H100", milli=milli, begun=start, ended=start + held, amount=milli * held)
                 for start, held, milli in begun if start + held <= at]  # fmt: skip
        start, held, milli = begun[-1]
        current = Span(gpu_class="H100", milli=milli, begun=start) if start + held > at else None
        before = sum(one.amount for one in ended[:-1])
        return Meter(uid=self.uid, queue="red", before=before, last=ended[-1] if ended else None, current=current)

    def was_left_alone(self, since: int, until: int) -> bool:
        """Let time pass without a leader: at most one span ends, and none begins."""
        ends = sum(since < start + held <= until for start, held, _ in self.spans)
        return ends <= 1 and not any(since < start <= until for start, _, _ in self.spans)

    def held(self, since: int, until: int) -> int:
        """Milli-GPU × seconds, counted independently."""
        return sum(milli * max(0, min(until, start + held) - max(since, start)) for start, held, milli in self.spans)


@st.composite
def lives(draw: st.DrawFn) -> tuple[Life, ...]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        at, spans = NOON + draw(st.integers(0, 40)), []
        for _ in range(draw(st.integers(1, 4))):
            held, pause = draw(st.integers(1, 30_000)), draw(st.integers(1, 20_000))
            spans.append((at, held, draw(st.integers(1, 8000))))
            at += held + pause
        made.append(Life(f"job-{number}", tuple(spans)))
    return tuple(made)


@given(
    lives(), st.lists(st.tuples(st.integers(-30, 9_000), st.sampled_from(["stays", "stays", "restarts"])), max_size=25)
)
def test_whoever_leads_and_whenever_it_is_looked_each_period_is_charged_what_was_held_in_it(
    jobs: tuple[Life, ...], looks: list[tuple[int, str]]
) -> None:
    """Without a leader no attempt begins, so at most one attempt of a job ends before a restart.

    Steps of the clock are looks at an earlier time.
    """
    red, budgets, at = queue(money=10**9), Budgets(EUROS), NOON
    budgets.charge({"red": red}, [], at)
    for step, what in looks:
        now = max(NOON, at + step)
        if what == "restarts" and all(life.was_left_alone(at, now) for life in jobs):
            red, budgets = taken_up(budgets, red, at), Budgets(EUROS)
        elif at < MIDNIGHT < now:  # of several attempts that end between two looks, the day of each is not known
            budgets.charge({"red": red}, [meter for life in jobs if (meter := life.meter(MIDNIGHT))], MIDNIGHT)
        budgets.charge({"red": red}, [meter for life in jobs if (meter := life.meter(now))], now)
        at = max(at, now)
        budgets.charge({"red": red}, [meter for life in jobs if (meter := life.meter(at))], at)
    start = at - at % 86_400
    held = sum(life.held(max(NOON, start), at) for life in jobs)
    usage = budgets.usage(red, at)
    assert usage is not None
    assert usage.money is not None
    assert (usage.spent_milli_gpu_seconds, usage.money.spent_micros) == (held, held)


def test_classes_without_a_price_cost_nothing() -> None:
    budgets, red = Budgets(NO_PRICES), queue(money=1)
    for after in (0, 100):
        budgets.charge({"red": red}, [holding(NOON)], NOON + after)
    usage = budgets.usage(red, NOON + 100)
    assert usage is not None
    assert usage.money is not None
    assert (usage.spent_milli_gpu_seconds, usage.money.spent_micros) == (100_000, 0)
