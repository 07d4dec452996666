"""Turns of pending jobs: admitted, nominated for a place that becomes free, or refused. Equal requests share it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.core.cycle.booked_places import BookedPlaces
from cotenant.core.cycle.cycle import Cycle
from cotenant.core.cycle.entry import Entry, EntryOutcome
from cotenant.core.explain.inadmissible import RequestResolver
from cotenant.core.explain.pending_reason import explain
from cotenant.core.model.objects import GpuRequest, Job, Placement, TenantQueue
from cotenant.core.model.plan import Admit, Evict, EvictionKind, Reason, Refusal
from cotenant.core.policy import Policy
from cotenant.core.scheduling.admission import Admission
from cotenant.core.scheduling.scheduler import schedule
from tests.support.clusters import UNPROTECTED, make_job, make_node, make_placement, make_queue, make_snapshot

RED, BLUE = make_queue("red", guaranteed=8), make_queue("blue", guaranteed=0)
NOW = 1_000.0


def running(name: str, *columns: int, **changes: object) -> Job:
    placement = make_placement(("n1", [[column] for column in columns]))
    job = make_job(name, placement=placement, workers=len(columns), **changes)  # type: ignore[arg-type]
    return replace(job, admitted_at=900.0)


class Turns:
    """A cycle on one node in which the waiting jobs take their turns in the order in which they are given."""

    def __init__(
        self, *jobs: Job, gpus: int = 2, queues: tuple[TenantQueue, ...] = (RED,), policy: Policy | None = None
    ):
        taken = make_snapshot(nodes=[make_node("n1", gpus=gpus)], queues=list(queues), jobs=list(jobs), now=NOW)
        self.cycle = Cycle.open(taken, policy or UNPROTECTED)
        self.admission = Admission(self.cycle, BookedPlaces(self.cycle), explain)
        resolver = RequestResolver(self.cycle.inventory, self.cycle.tree)
        for entry in self.cycle.entries:
            resolved = resolver.resolve(entry.job)
            assert not isinstance(resolved, Refusal)
            entry.request = resolved
            self.admission.try_admit(entry, resolved)

    def entry(self, name: str) -> Entry:
        return next(entry for entry in self.cycle.entries if entry.job.key.endswith(f"/{name}"))

    @property
    def outcomes(self) -> dict[str, tuple[EntryOutcome, Placement | None]]:
        return {
            entry.job.key.partition("/")[2]: (entry.outcome, entry.admitted_to or entry.nominated_to)
            for entry in self.cycle.entries
        }

    @property
    def free(self) -> list[int]:
        return self.cycle.accounts.current.ledger.free_compute[0].tolist()  # type: ignore[no-any-return]


def at(*columns: int) -> Placement:
    return make_placement(("n1", [[column] for column in columns]))


ADMITTED, NOMINATED, WAITING = EntryOutcome.ADMITTED, EntryOutcome.NOMINATED, EntryOutcome.WAITING


@pytest.mark.parametrize(
    ("jobs", "want", "evicted"),
    [
        pytest.param([make_job("a")], {"a": (ADMITTED, at(0))}, [], id="a job that fits is admitted"),
        pytest.param(
            [make_job("a"), make_job("b"), make_job("c")],
            {"a": (ADMITTED, at(0)), "b": (ADMITTED, at(1)), "c": (WAITING, None)},
            [],
            id="what one takes the next does not get",
        ),
        pytest.param(
            [replace(running("leaving", 0, 1), evicting=True), make_job("a")],
            {"a": (NOMINATED, at(0))},
            [],
            id="a job takes what others are giving back anyway and evicts nobody",
        ),
        pytest.param(
            [running("low", 0, 1), make_job("a", priority=1)],
            {"a": (NOMINATED, at(0))},
            ["red/low"],
            id="a job of higher priority evicts",
        ),
        pytest.param(
            [running("low", 0), make_job("a", priority=1)],
            {"a": (ADMITTED, at(1))},
            [],
            id="nobody leaves for a job that fits beside",
        ),
        pytest.param(
            [running("low", 0, 1), make_job("a", priority=1), make_job("b", priority=1)],
            {"a": (NOMINATED, at(0)), "b": (NOMINATED, at(1))},
            ["red/low"],
            id="the second takes what the first one's victims give back besides",
        ),
        pytest.param(
            [running("low", 0, 1), make_job("a"), make_job("b", priority=1)],
            {"a": (WAITING, None), "b": (NOMINATED, at(0))},
            ["red/low"],
            id="a refusal holds for equal requests alone",
        ),
    ],
)
def test_a_turn_ends_in(
    jobs: list[Job], want: dict[str, tuple[EntryOutcome, Placement | None]], evicted: list[str]
) -> None:
    turns = Turns(*jobs)

    assert turns.outcomes == want
    assert sorted(turns.cycle.outcome.evictions) == evicted


@pytest.mark.parametrize(
    ("jobs", "gave"),
    [
        ([], False),
        ([running("busy", 0, 1), make_job("a")], False),
        ([make_job("a")], True),
        ([running("low", 0, 1), make_job("a", priority=1), make_job("b")], True),
    ],
    ids=["nobody", "who waits", "who starts", "who is promised a place, and one that waits"],
)
def test_usage_does_not_change_before_a_turn_gives_something_out(jobs: list[Job], gave: bool) -> None:
    assert Turns(*jobs).admission.gave is gave


def test_an_eviction_names_its_beneficiary_and_the_place_is_held_in_both_occupancies() -> None:
    turns = Turns(running("low", 0, 1), make_job("a", priority=1))

    eviction = turns.cycle.outcome.evictions["red/low"]
    assert (eviction.kind, eviction.in_favour_of) == (EvictionKind.PREEMPTED, "red/a")
    assert isinstance(eviction, Evict)
    assert turns.entry("a").reason is not None
    assert turns.entry("a").reason.reason is Reason.WAITING_FOR_EVICTION  # type: ignore[union-attr]
    assert turns.free == [-1_000, 0]
    assert turns.cycle.accounts.open_after_evictions().ledger.free_compute[0].tolist() == [0, 1_000]


def test_equal_requests_share_one_refusal() -> None:
    turns = Turns(running("busy", 0, 1), make_job("a"), make_job("b"), make_job("c", priority=-1))
    first, second, other = (turns.entry(name).reason for name in "abc")

    assert first is second
    assert first is not other
    assert first == other


def test_a_job_outside_its_guarantee_preempts_nothing_once_a_job_inside_one_waits() -> None:
    """Blue's pair finds no place: one GPU could be taken back for it, the other three may not be."""
    queues = (make_queue("blue", guaranteed=2), make_queue("free", guaranteed=0))
    stuck = running("stuck", 0, 1, 2, queue="free", preemptible=False)
    victim, high = running("victim", 3, queue="free"), make_job("high", queue="free", priority=1)
    owner = make_job("owner", queue="blue", gpus=2)

    assert Turns(stuck, victim, high, gpus=4, queues=queues).outcomes == {"high": (NOMINATED, at(3))}
    assert Turns(stuck, victim, owner, high, gpus=4, queues=queues).outcomes == {
        "owner": (WAITING, None),
        "high": (WAITING, None),
    }


def gang_and(*jobs: Job, policy: Policy | None = None) -> Turns:
    """Four GPUs, two busy until 1,600; a gang of four waits for them."""
    busy = [running(f"busy{column}", column, expected_runtime_s=700) for column in range(2)]
    return Turns(*busy, make_job("gang", workers=4), *jobs, gpus=4, policy=policy)


def test_places_reserved_for_a_waiting_job_are_released_after_the_turns() -> None:
    turns = gang_and(make_job("small"))
    assert turns.free == [-1_000, -1_000, 0, 0]

    turns.admission.release_reservations()

    assert turns.free == [0, 0, 1_000, 1_000]
    assert turns.outcomes == {"gang": (WAITING, None), "small": (WAITING, None)}


@pytest.mark.parametrize(
    ("within_s", "kept"),
    [pytest.param(600, True, id="just in time"), pytest.param(599, False, id="a second too late")],
)
def test_a_place_is_reserved_only_for_a_start_that_is_near_enough(within_s: int, kept: bool) -> None:
    turns = gang_and(make_job("small"), policy=Policy(reserve_within_s=within_s))

    assert turns.outcomes["small"] == ((WAITING, None) if kept else (ADMITTED, at(2)))


def test_a_job_that_ends_in_time_may_use_a_reserved_place_although_an_equal_request_was_refused() -> None:
    turns = gang_and(make_job("endless"), make_job("brief", max_runtime_s=600))

    assert turns.outcomes == {"gang": (WAITING, None), "endless": (WAITING, None), "brief": (ADMITTED, at(2))}


@pytest.mark.parametrize(("forecasts", "known"), [(0, []), (1, ["a", "a2"]), (2, ["a", "a2", "b"])])
def test_starts_are_worked_out_only_for_the_first_kinds_of_request(forecasts: int, known: list[str]) -> None:
    busy = running("busy", 0, 1, expected_runtime_s=700)
    turns = Turns(busy, make_job("a"), make_job("a2"), make_job("b", gpus=2), policy=Policy(forecasts=forecasts))
    turns.admission.release_reservations()

    assert [entry.job.key for entry, _ in turns.admission.waiting()] == ["red/a", "red/a2", "red/b"]
    assert turns.admission.declared_starts() == {f"red/{name}": 1_600.0 for name in known if name != "b"}


def test_a_place_where_a_share_is_charged_less_is_taken_at_once_and_nobody_leaves() -> None:
    """20,000 MiB are 834 thousandths of a small GPU, and 245 of a large one: quotas are searched with the former."""
    nodes = [make_node("n1", gpus=2), make_node("n2", gpus=1, memory_mib=24_000)]
    red = make_queue("red", guaranteed=1, limit=1)
    share = GpuRequest(memory_mib=20_000, compute_milli=300)
    placement = make_placement(("n1", [[0], [1]]), milli=300)
    elastic = replace(make_job("elastic", workers=(1, 2), gpu=share, placement=placement), admitted_at=900.0)
    waits = make_job("waits", gpu=share, priority=1, at=10.0)

    plan = schedule(make_snapshot(nodes=nodes, queues=[red], jobs=[elastic, waits], now=NOW), UNPROTECTED)

    assert [(type(action), action.job) for action in plan.actions] == [(Admit, "red/waits")]


def test_nobody_leaves_for_a_place_that_is_free_already_also_from_a_node_with_too_little_cpu() -> None:
    """The node of the elastic job has lost CPU, so that what is released there could not be held again."""
    nodes = [make_node("n1", cpu_milli=1_000), make_node("n2", gpus=1, memory_mib=24_000), make_node("n3", gpus=1)]
    red = make_queue("red", guaranteed=1, limit=1)
    share = GpuRequest(memory_mib=20_000, compute_milli=300)
    placement = make_placement(("n1", [[0], [1]]), milli=150)
    elastic = make_job("elastic", workers=(1, 2), milli=150, cpu_milli=1_000, placement=placement, admitted_at=900.0)
    waits = make_job("waits", gpu=share, cpu_milli=1_000, priority=1, at=10.0)

    plan = schedule(make_snapshot(nodes=nodes, queues=[red], jobs=[elastic, waits], now=NOW), UNPROTECTED)

    assert [(type(action), action.job) for action in plan.actions] == [(Admit, "red/waits")]


def test_a_job_that_is_unlikely_to_run_evicts_nobody_until_its_time_has_come() -> None:
    """Its last attempts never ran: evictions for the next one would only lose work."""
    borrower = running("long", 0, 1, queue="blue")
    taken = make_snapshot(
        nodes=[make_node("n1", gpus=2)],
        queues=[RED, BLUE],
        jobs=[borrower, make_job("wrong-image", workers=2, evicts_from=NOW + 3_600)],
        now=NOW,
    )
    told = schedule(taken, UNPROTECTED)
    assert not told.actions
    (verdict,) = told.verdicts.values()
    assert verdict.message.endswith(
        "Its last attempts never ran (StartBlocked), so no job is evicted for it until 1970-01-01T01:16:40Z, unless it"
        " is edited."
    )

    later = schedule(replace(taken, now=NOW + 3_600), UNPROTECTED)
    assert [(type(action), action.job) for action in later.actions] == [(Evict, "blue/long")]


def test_a_job_that_evicts_nobody_holds_up_no_evictions_of_others() -> None:
    jobs = (
        running("low", 0, 1, queue="blue"),
        make_job("wrong-image", workers=2, evicts_from=NOW + 3_600),
        make_job("high", queue="blue", workers=2, priority=9, at=1),
    )
    turns = Turns(*jobs, queues=(RED, BLUE))
    assert turns.outcomes["wrong-image"][0] is EntryOutcome.WAITING
    assert turns.cycle.outcome.evictions.keys() == {"blue/low"}


def test_a_job_that_evicts_nobody_takes_what_others_give_back() -> None:
    leaving = replace(running("gone", 0, 1, queue="blue"), evicting=True)
    turns = Turns(leaving, make_job("wrong-image", workers=2, evicts_from=NOW + 3_600), queues=(RED, BLUE))
    assert turns.entry("wrong-image").nominated_to is not None


def test_gpus_are_reserved_for_the_next_job_and_not_for_one_that_is_unlikely_to_run() -> None:
    ending = running("ending", 0, 1, expected_runtime_s=200)
    turns = Turns(
        ending,
        make_job("wrong-image", workers=2, evicts_from=NOW + 3_600),
        make_job("next", workers=2, at=1, cpu_milli=1),
        gpus=2,
    )
    assert [one.job for one in turns.admission.reservations.all()] == ["red/next"]
