"""The API of a program in a rank, and outside of one."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cotenant.sdk import worker_side
from cotenant_worker import reporting
from cotenant_worker.checkpoints import fsspec_store, local_store
from cotenant_worker.hook import cotenant_shim
from cotenant_worker.host import layout
from cotenant_worker.reporting import Context, Saver
from tests.worker.messaging.recording_launcher import RecordingLauncher


class Rank(RecordingLauncher):
    """The launcher and the heartbeat of this process."""

    def report(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def warn(self, key: str, text: str) -> None:
        self.sent.append({"op": "warning", "key": key, "text": text})

    def flush(self) -> None:
        self.sent.append({"op": "flush"})


VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES")


@pytest.fixture(autouse=True)
def rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Rank]:
    """A process outside of a job; its handler of SIGTERM is the default one."""
    rank = Rank()
    for name in [name for name in os.environ if name.startswith("COTENANT_") or name in VARIABLES]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(layout.ENV_STATE, str(tmp_path))
    monkeypatch.setattr(reporting, "launcher", rank)
    monkeypatch.setattr(reporting, "heartbeat", rank)
    monkeypatch.setattr(reporting, "_noticed", threading.Event())
    monkeypatch.setattr(reporting, "_warned", set())
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield rank
    signal.signal(signal.SIGTERM, before)


def test_outside_a_job_a_process_is_rank_0_of_1() -> None:
    found = reporting.context()
    assert found == Context(
        job="",
        attempt=0,
        restart=0,
        rank=0,
        world_size=1,
        local_rank=0,
        gpus=(),
        gpu_memory_bytes=0,
        collective="gloo",
        precision="fp32",
        checkpoint_dir=None,
        resume_from=None,
    )
    assert found.is_leader


def test_a_rank_knows_its_place_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "COTENANT_JOB": "job",
        "COTENANT_ATTEMPT": "2",
        "COTENANT_RESTART": "3",
        "RANK": "4",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b,",
        "COTENANT_GPU_MEM_BYTES": "1024",
        "COTENANT_COLLECTIVE": "nccl",
        "COTENANT_PRECISION": "bf16",
        "COTENANT_CHECKPOINT_DIR": "s3://bucket/job",
        "COTENANT_RESUME_FROM": "/checkpoints/step-000000000007",
        "COTENANT_DATA_DIR": "/data/images",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = reporting.context()
    assert found == Context(
        job="job",
        attempt=2,
        restart=3,
        rank=4,
        world_size=8,
        local_rank=1,
        gpus=("GPU-a", "GPU-b"),
        gpu_memory_bytes=1024,
        collective="nccl",
        precision="bf16",
        checkpoint_dir="s3://bucket/job",
        resume_from=Path("/checkpoints/step-000000000007"),
        data_dir=Path("/data/images"),
    )
    assert (found.is_leader, found.data_dir) == (False, Path("/data/images"))


def test_an_evaluator_is_rank_0_of_1_and_leads_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (reporting.context().is_evaluator, reporting.context().is_leader) == (False, True)
    monkeypatch.setenv("COTENANT_ROLE", "evaluator")
    assert (reporting.context().is_evaluator, reporting.context().is_leader) == (True, False)


def test_an_evaluator_writes_no_checkpoint_over_those_of_the_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = Saver(tmp_path)

    def write(folder: Path) -> None:
        (folder / "model").write_text("of the ranks")

    saver.save(1, write)
    monkeypatch.setenv("COTENANT_ROLE", "evaluator")
    saver.save(2, lambda folder: pytest.fail("an evaluator wrote"))
    found = saver.latest()
    assert found is not None
    assert (found.step, (found.path / "model").read_text()) == (1, "of the ranks")


@dataclass
class Tensor:
    """A tensor of one element."""

    value: float

    def item(self) -> float:
        return self.value


def test_a_report_has_plain_numbers_and_the_time(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1000.5)
    reporting.report(step=7, of=9, metrics={"loss": Tensor(0.5), "good": True, "count": 3, "text": "1.5"})
    reporting.report(step=8)
    metrics = {"loss": 0.5, "good": True, "count": 3, "text": 1.5}
    assert rank.sent == [
        {"op": "report", "step": 7, "of": 9, "metrics": metrics, "at_monotonic_s": 1000.5},
        {"op": "report", "step": 8, "of": 0, "metrics": {}, "at_monotonic_s": 1000.5},
    ]


@pytest.mark.parametrize("of", [reporting, worker_side.Worker(reporting)], ids=["the library", "the SDK"])
def test_metrics_and_results_are_a_mapping_or_keywords_as_in_other_libraries(rank: Rank, of: Any) -> None:
    of.report({"loss": 0.5}, step=1)  # W&B's log, with its step
    of.report(step=2, loss=0.25, lr=0.1)
    of.report({"loss": 0.5}, step=3, model="a")
    of.results({"loss": 0.5})
    of.results(loss=0.5, model="a")
    assert [one["metrics"] for one in rank.sent if one["op"] == "report"] == [
        {"loss": 0.5}, {"loss": 0.25, "lr": 0.1}, {"loss": 0.5},
    ]  # fmt: skip
    assert [one["values"] for one in rank.sent if one["op"] == "results"] == [
        {"loss": 0.5}, {"loss": 0.5, "model": "a"},
    ]  # fmt: skip


def test_results_come_after_the_last_report_and_may_be_text(rank: Rank) -> None:
    reporting.results({"model": "a", "loss": Tensor(0.5), "epochs": 3})
    assert rank.sent == [{"op": "flush"}, {"op": "results", "values": {"model": "a", "loss": 0.5, "epochs": 3}}]


class Array:
    """An array of several elements: `item` refuses."""

    def item(self) -> float:
        raise ValueError("can only convert an array of size 1")


def test_odd_results_do_not_fail_a_program_and_a_warning_names_each_once(rank: Rank) -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    odd: dict[Any, Any] = {
        "ok": 1,
        "file": os.fsdecode(b"caf\xe9.bin"),
        "raw": b"caf\xe9",
        "path": Path("/a/b"),
        "huge": 1 << 70,
        "decimal": Decimal("0.25"),
        "nan": float("nan"),
        "deep": nested,
        "array": Array(),
        "none": None,
        b"key": 1,
    }
    for _ in range(2):
        reporting.results(odd)
    results = {"op": "results", "values": {
        "ok": 1, "file": "caf\\udce9.bin", "raw": "caf\\xe9", "path": "/a/b", "huge": "1180591620717411303424",
        "decimal": 0.25, "nan": "nan", "key": 1,
    }}  # fmt: skip
    json.dumps(results, allow_nan=False)
    neither = "is neither a number nor a text; json.dumps makes a text of it"
    assert [message for message in rank.sent if message["op"] == "results"] == [results] * 2
    assert [message["text"] for message in rank.sent if message["op"] == "warning"] == [
        "results.file has characters that cannot be shown; they are written as \\x1b is",
        "results.huge is kept as text: an integer of 71 bits is more than the 64 of a number",
        "results.nan is kept as text: JSON has no such number",
        f"results.deep was left out: a list {neither}",
        f"results.array was left out: Array {neither}",
        f"results.none was left out: null {neither}",
    ]


def test_odd_metrics_do_not_fail_a_program(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.5)
    reporting.report(step=1, metrics={"loss": 0.5, "name": "resnet", "none": None, "huge": 1 << 70, "list": [1]})
    *warnings, report = rank.sent
    assert report["metrics"] == {"loss": 0.5, "huge": float(1 << 70)}
    assert sorted(message["text"].split(" ")[0] for message in warnings) == [
        "metrics.list", "metrics.name", "metrics.none",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stop_at", "want"),
    [(0, [False] * 4), (3, [False, False, True, True]), (1, [True] * 4)],
    ids=["no stop is due", "at the third safe point", "at once"],
)
def test_all_ranks_stop_at_the_same_safe_point(rank: Rank, stop_at: int, want: list[bool]) -> None:
    rank.counters["stop_at"] = stop_at
    assert [reporting.should_stop() for _ in range(4)] == want
    assert rank.counters["calls"] == 4


def test_a_rank_that_looks_for_safe_points_survives_sigterm_and_knows_of_it() -> None:
    assert not reporting.stop_requested()
    signal.raise_signal(signal.SIGTERM)
    assert reporting.stop_requested()


def test_the_notice_of_the_launcher_requests_a_stop_as_well(tmp_path: Path) -> None:
    (tmp_path / "preempt.json").touch()
    assert reporting.stop_requested()


def test_a_handler_of_the_programs_own_is_kept() -> None:
    def own(*_: object) -> None: ...

    signal.signal(signal.SIGTERM, own)
    reporting.should_stop()
    assert signal.getsignal(signal.SIGTERM) is own


def test_a_program_that_trains_in_a_thread_names_itself_because_it_cannot_take_the_signal_over(rank: Rank) -> None:
    thread = threading.Thread(target=reporting.should_stop)
    thread.start()
    thread.join()
    assert (rank.counters["listener"], signal.getsignal(signal.SIGTERM)) == (os.getpid(), signal.SIG_DFL)


def test_rank_0_saves_and_reports_it(rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")

    def write(directory: Path) -> None:
        (directory / "model").write_text("x")

    saver = Saver(tmp_path / "checkpoints")
    saver.save(7, write, meta={"epoch": 2})
    found = saver.latest()
    assert found is not None
    assert (found.step, found.meta, (found.path / "model").read_text()) == (7, {"world_size": 4, "epoch": 2}, "x")
    assert rank.sent == [{"op": "saving", "step": 7}, {"op": "saved", "step": 7}]


def test_a_checkpoint_notes_how_many_steps_were_counted_and_a_program_that_gets_it_goes_on_from_there(
    rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own step may number epochs."""
    resumed: list[int] = []
    monkeypatch.setattr(cotenant_shim.step_counter, "resume", resumed.append)
    saver = Saver(tmp_path)
    saver.save(1, lambda _directory: None)
    saver.latest()
    rank.counters["step"] = 191
    saver.save(2, lambda _directory: None)
    found = saver.latest()
    assert (found and (found.step, found.meta), resumed) == ((2, {"world_size": 1, "counted_steps": 191}), [191])


@pytest.mark.parametrize(("number", "directory"), [("1", "checkpoints"), ("0", "")], ids=["rank 1", "no directory"])
def test_nothing_is_saved_by_another_rank_or_without_a_place(
    rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, directory: str
) -> None:
    monkeypatch.setenv("RANK", number)
    saver = Saver(tmp_path / directory if directory else None)
    saver.save(7, lambda _directory: pytest.fail("written"))
    assert (rank.sent, saver.latest(), list(tmp_path.iterdir())) == ([], None, [])


def test_the_launchers_choice_is_loaded_before_a_newer_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = (local_store.save(tmp_path, step, lambda path: (path / "x").touch()) for step in (1, 2))
    chosen = {"": newer, str(older.path): older, str(tmp_path / "gone" / older.path.name): newer}
    for variable, want in chosen.items():
        monkeypatch.setenv("COTENANT_RESUME_FROM", variable)
        assert Saver(tmp_path).latest() == want
    (older.path / "x").unlink()
    monkeypatch.setenv("COTENANT_RESUME_FROM", str(older.path))
    assert Saver(tmp_path).latest() == newer


def test_a_checkpoint_at_an_address_goes_through_fsspec(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[tuple[str, int, dict[str, Any]]] = []
    monkeypatch.setattr(fsspec_store, "save", lambda url, step, _write, **words: saved.append((url, step, words)))
    monkeypatch.setattr(fsspec_store, "latest", lambda url: local_store.Checkpoint(7, Path("/copy"), {"url": url}))
    monkeypatch.setenv("COTENANT_CHECKPOINT_DIR", "s3://bucket/job")
    saver = Saver(keep=3)
    saver.save(7, lambda _directory: None)
    assert saved == [("s3://bucket/job", 7, {"meta": {"world_size": 1}, "keep": 3})]
    assert saver.latest() == local_store.Checkpoint(7, Path("/copy"), {"url": "s3://bucket/job"})


@pytest.mark.parametrize(
    ("interval_s", "due"),
    [("0", [False, False, False]), ("30", [False, True, True])],
    ids=["no interval", "every 30 s"],
)
def test_a_checkpoint_is_due_after_the_jobs_interval(
    monkeypatch: pytest.MonkeyPatch, interval_s: str, due: list[bool]
) -> None:
    clock = iter([100.0, 129.9, 130.0, 200.0])
    monkeypatch.setenv("COTENANT_CHECKPOINT_INTERVAL_S", interval_s)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    saver = Saver()
    assert [saver.due() for _ in due] == due


def test_a_save_begins_the_interval_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 140.0, 150.0, 170.0])
    monkeypatch.setenv("COTENANT_CHECKPOINT_INTERVAL_S", "30")
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    saver = Saver()
    saver.save(1, lambda _directory: None)
    assert [saver.due(), saver.due()] == [False, True]
