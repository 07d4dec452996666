"""The first cause of a failed generation, and what it is called."""

import signal
from dataclasses import replace
from typing import Any

import pytest

from cotenant import names
from cotenant_worker.supervision.failure_cause import (
    FailureCause,
    RankExit,
    first_cause,
    ray_loss_reason,
    unreserved_code,
)
from cotenant_worker.supervision.rank_error import RankError

PEER = ("RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:3333",)


MET = "I0000 00:00:1795310370.346921 88 coordination_service_agent.cc:245] Coordination agent has connected."


JAX_LOST = (
    "F1122 client.h:80] Terminating process because the JAX distributed service detected fatal errors.",
    "    @     0x7faae5d0c93b  xla::CoordinationServiceAgent::SetError()",
    "Fatal Python error: Aborted",
    "",
    "Thread 0x00007faaf1a73b80 (most recent call first):",
    '  File "/usr/lib/python3/dist-packages/jax/_src/array.py", line 300 in __float__',
    '  File "train.py", line 38 in <module>',
)


JAX_WAITED = (
    *JAX_LOST[:5],
    '  File "/usr/lib/python3/dist-packages/jax/_src/distributed.py", line 199 in shutdown',
    '  File "/usr/lib/python3/dist-packages/jax/_src/api.py", line 2582 in clean_up',
)


NO_GPU_MEMORY = {
    "torch without room for a context": (
        "torch.AcceleratorError: CUDA error: out of memory",
        "CUDA kernel errors might be asynchronously reported at some other API call.",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    ),
    "NCCL": (
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda error",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Last error:",
        "Failed to CUDA calloc async 4 bytes",
    ),
    "CuPy": ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes",),
    "Numba": ("CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",),
    "JAX": ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.02GiB",),
}
MINE = ("ValueError: the learning rate is negative",)


def ended(rank: int, code: int | None = 0, *, at: float = 1.0, generation: int = 0, **fields: Any) -> RankExit:
    number = fields.pop("signal", None)
    return RankExit(rank, generation, None if number else code, number, at, **fields)


INDUCTOR = (
    "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in cpp.cxx: (None, 'g++')"
)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (INDUCTOR, True),
        ("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.", True),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'g++'", True),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'gcc.log'", False),
        ("RuntimeError: CUDA error", False),
    ],
)
def test_an_image_without_a_compiler_is_told_so(line: str, told: bool) -> None:
    message = first_cause([ended(0, 1, tail=(line,))]).message
    assert message.startswith(f"rank 0 ended with 1: {line}")
    assert message.endswith("install g++ in it, or use the default image") is told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("OSError: [Errno 30] Read-only file system: 'runs'", True, id="a relative path"),
        pytest.param("OSError: [Errno 30] Read-only file system: '/workspace/runs'", True, id="a path in the code"),
        pytest.param("OSError: [Errno 30] Read-only file system: '/data/runs'", False, id="another volume"),
        pytest.param("mkdir: cannot create directory ‘runs’: Read-only file system", True, id="mkdir"),
        pytest.param("mkdir: cannot create directory '/data/runs': Read-only file system", False, id="mkdir elsewhere"),
        pytest.param("tee: logs/train.log: Read-only file system", True, id="tee"),
        pytest.param("tee: /data/train.log: Read-only file system", False, id="tee elsewhere"),
        pytest.param("run.sh: line 2: train.log: Read-only file system", True, id="a shell"),
    ],
)
def test_a_program_that_writes_beside_its_code_is_told_where_it_may_write(line: str, told: bool) -> None:
    """`cd /workspace && python train.py`."""
    message = first_cause([ended(0, 1, tail=(line,))]).message
    assert message.startswith(f"rank 0 ended with 1: {line}")
    assert ("leave out `cd /workspace`, or write to COTENANT_CHECKPOINT_DIR" in message) is told


BUS = "RuntimeError: DataLoader worker (pid 125) is killed by signal: Bus error. It is possible that"
FULL = "RuntimeError: unable to write to file </torch_71_1_0>: No space left on device (28)"
SURVIVED = "mkdir -p failed for path /.config/matplotlib: [Errno 30] Read-only file system: '/.config'"
IMAGE, SHARED = "The image is mounted read-only", "/dev/shm holds half"


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        pytest.param(["OSError: [Errno 30] Read-only file system: '/results'"], IMAGE, id="a folder of the image"),
        pytest.param(["PermissionError: [Errno 13] Permission denied: '/root/.x'"], IMAGE, id="root's folder"),
        pytest.param(["mkdir: cannot create directory ‘/root/a’: Permission denied"], IMAGE, id="root's, by a shell"),
        pytest.param(["PermissionError: [Errno 13] Permission denied: '/data/x'"], "", id="a file of others"),
        pytest.param([SURVIVED, "ValueError: bad"], "", id="a failure that the program survived"),
        pytest.param([BUS], SHARED, id="a loader worker without shared memory"),
        pytest.param([FULL], SHARED, id="a tensor without shared memory"),
        pytest.param(["OSError: [Errno 28] No space left on device: '/ckpt/a'"], "", id="another volume is full"),
    ],
)
def test_what_a_pod_has_no_room_for_is_told_with_what_to_do(lines: list[str], word: str) -> None:
    """pytorch/pytorch#16979, PaddlePaddle/PaddleNLP#10503."""
    message = first_cause([ended(0, 1, tail=tuple(lines))]).message
    assert (word in message) if word else message == f"rank 0 ended with 1: {lines[-1]}"


@pytest.mark.parametrize(
    "lines",
    [
        ["run.sh: line 1: set: pipefail\\r: invalid option name"],
        ["run.sh: line 2: $'python\\r': command not found"],
        ["python: can't open file '/workspace/train.py\\r': [Errno 2] No such file or directory"],
        [
            "/usr/bin/env: ‘bash\\r’: No such file or directory",
            "/usr/bin/env: use -[v]S to pass options in shebang lines",
        ],
        ["cannot run './run.sh': No such file or directory; the file is there, but not the interpreter '/bin/bash\\r'"],
    ],
)
def test_a_script_with_lines_of_windows_is_told_so(lines: list[str]) -> None:
    assert "dos2unix" in first_cause([ended(0, 127, tail=tuple(lines))]).message
    assert "dos2unix" not in first_cause([ended(0, 1, tail=(r"ValueError: no batch in 'C:\runs\r'",))]).message


def test_a_rank_that_ends_by_a_bus_error_had_no_shared_memory() -> None:
    assert SHARED in first_cause([ended(0, signal=signal.SIGBUS, tail=("Fatal Python error: Bus error",))]).message


def test_a_process_that_failed_is_named_although_others_print_after_it() -> None:
    """A script that trains with several seeds at once: the others go on for a moment."""
    trace = ("Traceback (most recent call last):", '  File "/workspace/train.py", line 3, in <module>')
    lines = (*trace, "    raise ValueError('bad batch')", "ValueError: bad batch", "seed 3: step 7")
    error = RankError("ValueError", "bad batch", "train.py:3", 1.0, 12, 0.0, by_child=True)
    message = first_cause([ended(0, 1, tail=lines, error=error)]).message
    assert message == (
        "rank 0 ended with 1: seed 3: step 7; a process of it had just failed: ValueError: bad batch (train.py:3)"
    )


@pytest.mark.parametrize("how", [{"code": 1}, {"signal": signal.SIGABRT}, {"signal": signal.SIGKILL}])
def test_a_program_that_fails_after_its_pod_has_lost_its_gpus_is_not_to_blame(how: dict[str, Any]) -> None:
    line = "RuntimeError: CUDA unknown error"
    cause = first_cause([ended(0, **how, gpus_lost=True, tail=(line,)), ended(1, 1, at=2.0, tail=PEER)])
    assert (cause.reason, cause.code, cause.killed) == ("GPUsUnusable", names.EXIT_GPUS_UNUSABLE, False)
    assert cause.message.startswith("rank 0 failed after its pod had lost its GPUs, as by a systemctl daemon-reload")
    assert cause.message.endswith(line)


ECC = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"


@pytest.mark.parametrize(
    ("how", "lines", "broken"),
    [
        pytest.param({"code": 1}, [ECC, "CUDA kernel errors might be asynchronously reported."], True, id="torch"),
        pytest.param({"code": 1}, ["jaxlib.XlaRuntimeError: INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE"], True, id="JAX"),
        pytest.param({"signal": signal.SIGABRT}, [f"terminate called: {ECC}"], True, id="NCCL's watchdog"),
        pytest.param({"code": 1}, ["Cuda failure 'uncorrectable NVLink error detected'"], True, id="a link"),
        pytest.param({"signal": signal.SIGKILL}, [ECC], False, id="it went on, and was killed"),
        pytest.param({"code": 1}, ["RuntimeError: CUDA error: device-side assert triggered"], False, id="a program's"),
    ],
)
def test_a_fault_of_a_gpus_memory_or_links_is_no_failure_of_the_program(
    how: dict[str, Any], lines: list[str], broken: bool
) -> None:
    """vllm-project/vllm#5222, huggingface/accelerate#1192, verl-project/verl#407."""
    cause = first_cause([ended(0, **how, tail=tuple(lines)), ended(1, 1, at=2.0, tail=PEER)])
    assert (cause.reason == "GPUsUnusable", cause.code == names.EXIT_GPUS_UNUSABLE) == (broken, broken)
    assert cause.message.startswith("rank 0 failed because a GPU is faulty: ") is broken


def test_a_program_that_resumes_in_its_first_attempt_is_told_how_not_to_fail() -> None:
    """huggingface/transformers#15341."""
    line = "ValueError: No valid checkpoint found in output directory (/checkpoints/run)"
    message = first_cause([ended(0, 1, tail=(line,))]).message
    assert message.startswith(f"rank 0 ended with 1: {line}. The first attempt of a job has no checkpoint yet: resume")


HUB = "'HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /bert/config.json"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"requests.exceptions.ConnectTimeout: {HUB}", True),
        ("urllib.error.URLError: <urlopen error [Errno 110] Connection timed out>", True),
        ("httpx.ConnectTimeout: timed out", True),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", True),
        ("curl: (28) Failed to connect to example.com port 443 after 129 ms: Couldn't connect to server", True),
        ("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host example.com:443 ssl:default", True),
        ('botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3/"', True),
        ("RuntimeError: [1] is setting up NCCL communicator but got error: wait timeout after 600000ms", False),
        (
            "torch.distributed.DistNetworkError: The client socket has timed out while trying to connect to (h, 1)",
            False,
        ),
        ("TimeoutError: the queue was empty", False),
    ],
)
def test_a_program_that_reaches_nobody_is_told_what_pods_may_reach(line: str, told: bool) -> None:
    """huggingface/transformers#12575: every such program meets the network that is closed by default."""
    message = first_cause([ended(0, 1, tail=(line,))]).message
    assert ("Pods reach their own job and DNS" in message, "spec.data" in message) == (told, told)


def test_a_program_that_takes_its_rank_for_a_gpus_number_is_told_what_it_sees() -> None:
    line = "torch.AcceleratorError: CUDA error: invalid device ordinal"
    message = first_cause([ended(1, 1, tail=(line,))]).message
    assert message.startswith(f"rank 1 ended with 1: {line}. The rank sees only its own GPUs: choose one by LOCAL_RANK")


@pytest.mark.parametrize(("ranks", "told"), [(1, True), (8, False), (0, False)])
def test_a_program_that_has_waited_for_more_processes_than_there_are_ranks_is_told_how_to_have_them(
    ranks: int, told: bool
) -> None:
    """YOLO takes itself for a rank of eight if it finds RANK."""
    line = "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/8 clients joined."
    message = first_cause([ended(0, 1, tail=(line,))], ranks).message
    assert line in message
    assert (f"The job has {ranks} rank(s): set workers: 8" in message) is told


def test_a_rank_that_waited_in_vain_at_its_end_is_told_with_where_another_was() -> None:
    exits = [ended(0, signal=6, tail=JAX_LOST), ended(1, signal=6, at=0.9, tail=JAX_WAITED)]
    message = first_cause(exits).message
    assert message.startswith("rank 1 came to its end while rank 0 was still at train.py:38, and waited there in jax.")


@pytest.mark.parametrize(
    ("exits", "want"),
    [
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 3, at=1.2, tail=MINE)], ("UserError", 1, 3), id="not who blames"
        ),
        pytest.param([ended(0, 1, tail=MINE), ended(1, signal=11, at=1.3)], ("UserError", 1, 139), id="signals first"),
        pytest.param([ended(0, 1, tail=MINE), ended(1, 2, at=0.9, tail=MINE)], ("UserError", 1, 2), id="the earliest"),
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 0, at=0.5)], ("ExitedEarly", 1, 1), id="who left with 0 too early"
        ),
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 0, at=1.5)], ("ExitedEarly", 1, 1), id="even when that is told later"
        ),
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 1, at=1.2, tail=(MET, *MINE))],
            ("UserError", 1, 1),
            id="who said that all went well is no victim",
        ),
        pytest.param(
            [ended(0, signal=6, tail=JAX_LOST), ended(1, signal=6, at=0.9, tail=JAX_WAITED)],
            ("ExitedEarly", 1, 1),
            id="whom JAX let wait at its end, in vain",
        ),
        pytest.param(
            [ended(0, signal=9), ended(1, signal=6, at=0.9, tail=JAX_WAITED)],
            ("UserError", 0, 137),
            id="not who waited for one that was killed",
        ),
        pytest.param(
            [ended(0, None, signal=9, oom=True)], ("OutOfMemory", 0, 137), id="the kernel's out-of-memory kill"
        ),
        pytest.param(
            [ended(0, 1, oom=True, tail=("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",))],
            ("OutOfMemory", 0, 1),
            id="the kernel's kill of a child",
        ),
        pytest.param(
            [ended(0, 1, oom=True, tail=("AssertionError: child ended with -9",))],
            ("OutOfMemory", 0, 1),
            id="the kernel's kill of a child whose code is told",
        ),
        pytest.param([ended(0, 1, oom=True, tail=MINE)], ("UserError", 0, 1), id="a kill that the program survived"),
        pytest.param(
            [ended(0, 1, tail=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",))],
            ("OutOfGPUMemory", 0, 1),
            id="its share of GPU memory",
        ),
        *(
            pytest.param([ended(0, 1, tail=tail)], ("OutOfGPUMemory", 0, 1), id=f"GPU memory, said by {who}")
            for who, tail in NO_GPU_MEMORY.items()
        ),
        pytest.param(
            [ended(0, 83, tail=("cotenant: the GPU memory limit could not be set: x",))], ("Quota", 0, 83), id="limit"
        ),
        pytest.param(
            [ended(0, 83, tail=("mine",))], ("UserError", 0, 79), id="a user's code that would look like ours"
        ),
        pytest.param([ended(0, 1, tail=PEER), ended(1, 1, at=1.1, tail=PEER)], ("UserError", 0, 1), id="all blame"),
    ],
)
def test_the_verdict_names_the_first_cause(exits: list[RankExit], want: tuple[str, int, int]) -> None:
    cause: FailureCause = first_cause(exits)
    assert (cause.reason, cause.rank, cause.code) == want


def test_where_gpu_memory_ran_out_is_said() -> None:
    tail = ("Traceback (most recent call last):", '  File "train.py", line 8, in step', "    loss.backward()")
    cause = first_cause([ended(1, 1, tail=(*tail, "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"))])
    assert cause.message.endswith("torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB (train.py:8, in step)")


def test_an_out_of_memory_kill_is_not_taken_for_a_kill_from_outside() -> None:
    assert not first_cause([ended(0, None, signal=signal.SIGKILL, oom=True)]).killed
    assert first_cause([ended(0, None, signal=signal.SIGKILL)]).killed


def test_no_exit_code_of_a_program_means_something_of_ours() -> None:
    assert [unreserved_code(code) for code in (0, 1, 42, 79, 80, 84, 85, 86, 87, 137, 143)] == [
        0,
        1,
        42,
        79,
        79,
        79,
        79,
        79,
        87,
        137,
        79,
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "The actor died unexpectedly before finishing this task.\n\tclass_name: PodActor\n\tactor_id: ab\n"
            "The actor is dead because its node has died. Node Id: 12ab\n\tthe actor's node was terminated",
            "its node has died",
            id="a clause of Ray's",
        ),
        pytest.param("The actor is temporarily unavailable\nmore", "The actor is temporarily unavailable", id="a line"),
        pytest.param("", "Ray does not say why", id="nothing"),
    ],
)
def test_what_ray_says_about_a_lost_pod_becomes_a_clause(text: str, want: str) -> None:
    assert ray_loss_reason(text) == want


@pytest.mark.parametrize(
    ("kind", "message", "blames"),
    [
        (
            "requests.exceptions.ConnectionError",
            "('Connection aborted.', ConnectionResetError(104, 'reset by peer'))",
            False,
        ),
        ("urllib.error.URLError", "<urlopen error [Errno 111] Connection refused>", False),
        ("BrokenPipeError", "[Errno 32] Broken pipe", False),
        ("RuntimeError", "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer", True),
        ("torch.distributed.DistNetworkError", "Connection refused", True),
        ("jaxlib.xla_extension.XlaRuntimeError", "UNAVAILABLE: Connection reset by peer", True),
    ],
    ids=["a hub", "a web server", "a pipe of its own", "gloo", "torch's store", "JAX"],
)
def test_a_broken_connection_blames_a_peer_only_if_ranks_meet_by_it(kind: str, message: str, blames: bool) -> None:
    error = RankError(kind, message, "train.py:40, in upload", 1000.0, 10, 100.0)
    cause = first_cause([ended(1, 0, at=0.5), replace(ended(0, 1), error=error)])
    assert (cause.reason, cause.rank) == (("ExitedEarly", 1) if blames else ("UserError", 0))
    assert kind in cause.message


def test_a_rank_that_killed_itself_is_to_blame_and_its_last_words_are_told() -> None:
    cause = first_cause([replace(ended(0, None, signal=signal.SIGKILL, tail=("fatal: no model",)), own_kill=True)])
    assert (cause.killed, cause.code) == (False, 137)
    assert cause.message == "rank 0 ended itself by SIGKILL: fatal: no model"
