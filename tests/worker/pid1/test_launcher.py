"""The launcher with a group of one rank: no Ray, no root, a real process each time."""

from __future__ import annotations

import random
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.contract import CheckpointSpec, Contract
from cotenant_worker.host import container
from tests.support.pod_sandbox import until, uuid_of
from tests.worker.processes import behave, launched


def test_a_program_with_long_arguments_is_started(tmp_path: Path) -> None:
    says = "import sys; print(sum(map(len, sys.argv)))"
    job = replace(behave(), command=("python", "-c", says, *(random.randbytes(30_000).hex() for _ in range(4))))
    parts = job.to_environment()
    with launched(tmp_path, parts.pop("COTENANT_CONTRACT"), **parts) as pod:
        code, log, _ = pod.finish()
    assert (code, str(len("-c") + 240_000) in log) == (0, True), log


def test_an_argument_that_linux_does_not_take_is_said_so_in_words_that_fit(tmp_path: Path) -> None:
    job = replace(behave(), command=("python", "-c", "pass", "\U0001f600" * 40_000))
    parts = job.to_environment()
    with launched(tmp_path, parts.pop("COTENANT_CONTRACT"), **parts) as pod:
        code, log, termination = pod.finish()
    assert (code, termination.reason) == (126, "UserError"), log
    assert "Argument list too long" in termination.message


@pytest.mark.parametrize(
    ("job", "code", "reason", "message"),
    [
        pytest.param(behave("exit", "0"), 0, "Completed", "the program ended with 0", id="0"),
        pytest.param(
            behave("exit", "42"), 42, "UserError", "rank 0 ended with 42: about to leave", id="the user's own"
        ),
        pytest.param(
            behave("raise"),
            1,
            "UserError",
            "rank 0 ended with 1: ValueError: the learning rate is negative",
            id="raise",
        ),
        pytest.param(behave("die", "6"), 134, "UserError", "rank 0 was ended by SIGABRT", id="a signal"),
        pytest.param(replace(behave(), command=("no-such-program",)), 127, "UserError", "No such file", id="absent"),
        pytest.param(
            replace(behave(), command=("/etc/passwd",)), 126, "UserError", "[bash, run.sh]", id="not executable"
        ),
        pytest.param(
            replace(behave(), command=("python", "no.py")), 2, "UserError", "A file of the image", id="no file"
        ),
        pytest.param(
            replace(behave(), mode="entrypoint", entrypoint="behave:absent"),
            2,
            "UserError",
            "has no 'absent'",
            id="entry",
        ),
        pytest.param(
            replace(behave(), command=("sh", "-c", "exit 9")), 9, "UserError", "ended with 9", id="not Python"
        ),
    ],
)
def test_the_programs_end_is_the_pods_end(tmp_path: Path, job: Contract, code: int, reason: str, message: str) -> None:
    with launched(tmp_path, job.to_json()) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.code, termination.reason) == (code, code, reason), log
    assert message in termination.message


def test_an_entrypoint_that_does_not_import_shows_the_users_line_first(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nothing_like_this\n")
    job = replace(behave(), mode="entrypoint", entrypoint="broken:main", platform={"codePath": str(tmp_path)})
    with launched(tmp_path, job.to_json()) as pod:
        _, log, _ = pod.finish()
    assert log.splitlines()[1:4] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path}/broken.py", line 1, in <module>',
        "    import nothing_like_this",
    ]


def test_the_tenant_sees_his_own_frames_and_nothing_of_ours(tmp_path: Path) -> None:
    with launched(tmp_path, behave("raise").to_json()) as pod:
        _, log, termination = pod.finish()
    assert "cotenant_worker" not in log
    assert termination.tail[-1] == "ValueError: the learning rate is negative"


def test_an_entrypoint_is_called_and_what_it_returns_are_the_results(tmp_path: Path) -> None:
    job = replace(behave(), mode="entrypoint", entrypoint="behave:main", command=())
    with launched(tmp_path, job.to_json()) as pod:
        ended, log, termination = pod.finish()
    assert ended == 0, log
    assert termination.results == {"loss": 0.25, "accuracy": 0.97, "note": "fine"}
    assert (termination.step, termination.of) == (40, 40)


def test_the_rank_sees_its_gpus_and_not_our_secrets(tmp_path: Path) -> None:
    words = ("CUDA_VISIBLE_DEVICES", "RANK", "RAY_AUTH_TOKEN", "COTENANT_CONTRACT", "COTENANT_COLLECTIVE")
    with launched(tmp_path, behave("environment", *words).to_json(), RAY_AUTH_TOKEN="secret", RANK="9") as pod:
        _, log, _ = pod.finish()
    assert log.splitlines()[1:-1] == [
        f"CUDA_VISIBLE_DEVICES={uuid_of('0a')}",
        "RANK=0",
        "RAY_AUTH_TOKEN=None",
        "COTENANT_CONTRACT=None",
        "COTENANT_COLLECTIVE=gloo",
    ]


@pytest.mark.parametrize(("given", "want"), [({}, True), ({"USER": "me"}, False)])
def test_a_program_may_ask_who_it_is_where_the_image_does_not_know_its_user(
    tmp_path: Path, given: dict[str, str], want: bool
) -> None:
    with launched(tmp_path, behave("environment", "USER").to_json(), **given) as pod:
        _, log, _ = pod.finish()
    assert log.splitlines()[1:-1] == [f"USER={container.user_name() if want else 'me'}"]


def test_a_cold_start_gives_the_same_world_as_a_warm_one(tmp_path: Path) -> None:
    job = behave("environment", "CUDA_VISIBLE_DEVICES", "WORLD_SIZE", "PYTHONPATH")
    logs = []
    for warm in (True, False):
        directory = tmp_path / str(warm)
        directory.mkdir()
        document = replace(job, platform={**job.platform, "warmStart": warm}).to_json()
        with launched(directory, document) as pod:
            logs.append(pod.finish()[1])
    assert logs[0] == logs[1]


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_program_may_start_processes_of_its_own(tmp_path: Path, how: str) -> None:
    """A spawned one imports the program again, from where the program began."""
    with launched(tmp_path, behave("spawn", how).to_json()) as pod:
        code, log, _ = pod.finish()
    assert code == 0, log
    assert "[2, 4] children in True" in log


def test_the_last_word_of_a_progress_bar_is_what_stands_there_in_the_end(tmp_path: Path) -> None:
    with launched(tmp_path, behave("bar").to_json()) as pod:
        code, _, termination = pod.finish()
    assert (code, termination.message) == (3, "rank 0 ended with 3: done")


@pytest.mark.parametrize("how", ["quietly", "at once"])
def test_last_words_without_an_end_are_a_line_of_their_own(tmp_path: Path, how: str) -> None:
    """This holds also if the program leaves by `os._exit`."""
    with launched(tmp_path, behave("unended", how).to_json()) as pod:
        code, log, termination = pod.finish()
    assert log.splitlines()[-2:] == ["no end", f"cotenant: {termination.reason} ({code}): {termination.message}"]


def test_a_rank_that_is_stopped_and_never_goes_on_ends_the_attempt(tmp_path: Path) -> None:
    """No other rank waits for it in a collective, so it would keep its GPU without end."""
    job = behave("die", str(int(signal.SIGSTOP)))
    job = replace(job, platform={**job.platform, "hangTimeoutSeconds": 1})
    with launched(tmp_path, job.to_json()) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.reason, termination.rank) == (1, "HungCollective", 0), log
    assert re.fullmatch(r"rank 0 was stopped \(SIGSTOP\) \d+ s ago and stays so", termination.message)


def test_a_program_that_stands_still_ends_the_attempt_where_the_job_says_how_long_it_may(tmp_path: Path) -> None:
    job = behave("stand")
    job = replace(job, platform={**job.platform, "stallTimeoutSeconds": 10})
    with launched(tmp_path, job.to_json()) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.reason, termination.rank) == (1, "Stalled", 0), log
    pattern = (
        r"the program has made no step, report or collective for \d+ s: rank 0 stands at behave.py:\d+ in wait_for_data"
    )
    assert re.fullmatch(pattern, termination.message)
    assert f"cotenant: {termination.message}" in log, "said first as a warning"


def test_a_killed_rank_starts_again_in_place(tmp_path: Path) -> None:
    with launched(tmp_path, behave("once").to_json()) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.reason) == (0, "Completed"), log
    assert "start 1" in log


def test_a_run_script_that_cannot_run_twice_in_one_place_gets_new_pods(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    script = ("bash", "-c", "mkdir made || exit 7; kill -KILL $$")
    job = replace(behave(), command=script, platform={"codePath": str(tmp_path / "code")})
    with launched(tmp_path, job.to_json()) as pod:
        ended, log, termination = pod.finish()
    assert (ended, termination.reason) == (82, "RestartFailed"), log
    assert termination.message.startswith("rank 0 ended with 7: mkdir: cannot create directory"), log


@pytest.mark.parametrize("full", [False, True])
def test_sigterm_saves_leaves_in_time_and_says_preempted(tmp_path: Path, full: bool) -> None:
    """This holds also if the program left no room for the launcher's file."""
    spec = CheckpointSpec(str(tmp_path / "checkpoints"))
    with launched(tmp_path, behave("stop", checkpoint=spec, grace_s=20).to_json()) as pod:
        until(lambda: pod.progress().step > 3, 60, "some steps")
        if full:
            (tmp_path / "state" / "preempt.tmp").mkdir()  # as good as a full disk: it cannot be written
        pod.process.send_signal(signal.SIGTERM)
        ended, log, termination = pod.finish()
    assert (ended, termination.reason) == (143, "Preempted"), log
    assert termination.last_checkpoint_step is not None
    assert termination.last_checkpoint_step > 3
    assert termination.message == f"asked to stop; its checkpoint of step {termination.last_checkpoint_step} is kept"


def test_sigterm_that_comes_before_the_launcher_can_act_on_it_is_acted_on_when_it_can(tmp_path: Path) -> None:
    def held() -> bool:
        """True if the kernel holds SIGTERM for it, which is so only while it imports."""
        lines = Path(f"/proc/{pod.process.pid}/status").read_text().splitlines()
        blocked = int(next(line.split()[1] for line in lines if line.startswith("SigBlk:")), 16)
        return bool(blocked >> (signal.SIGTERM - 1) & 1)

    with launched(tmp_path, behave("ignore", grace_s=2).to_json()) as pod:
        until(held, 60, "its first instruction")
        pod.process.send_signal(signal.SIGTERM)
        ended, log, termination = pod.finish()
    assert (ended, termination.reason, termination.step) == (143, "Preempted", 0), log


def test_a_program_that_ignores_sigterm_is_killed_before_the_kubelet_does(tmp_path: Path) -> None:
    with launched(tmp_path, behave("ignore", grace_s=2).to_json()) as pod:
        until(lambda: pod.get("/healthz") == "ok\n", 60, "health")
        until(lambda: pod.progress().step == 1, 60, "the program ignores it")
        pod.process.send_signal(signal.SIGTERM)
        ended, log, termination = pod.finish()
    assert ended == 143, log
    assert termination.message == (
        "asked to stop; no checkpoint is known; rank 0 did not leave within 2 s and had to be killed:"
        " a program is expected to heed SIGTERM or should_stop()"
    )


def test_nothing_of_a_pod_survives_its_launcher(tmp_path: Path) -> None:
    with launched(tmp_path, behave("orphan").to_json()) as pod:
        ended, log, _ = pod.finish()
    assert ended == 0, log
    assert [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(tmp_path).encode() in environment_of(entry)
    ] == []


def test_what_a_program_leaves_running_is_named_and_ended(tmp_path: Path) -> None:
    with launched(tmp_path, behave("background").to_json()) as pod:
        code, log, _ = pod.finish()
    assert code == 0, log
    assert "rank 0 ended and left running: sleep 600. They were ended with it" in log


def environment_of(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
