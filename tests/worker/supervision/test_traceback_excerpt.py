"""What the last lines of a program say, as Python, torch and their like print them."""

import pytest

from cotenant_worker.supervision.traceback_excerpt import EXCERPT_LINES, embedded_error, error_line, excerpt

LIBRARY = "/usr/lib/python3.11/site-packages/torch/nn/module.py"


def frame(file: str, line: int, name: str, prefix: str = "") -> list[str]:
    return [f'{prefix}  File "{file}", line {line}, in {name}', f"{prefix}    do()", f"{prefix}    ^^^^"]


TRACEBACK = "Traceback (most recent call last):"
MINE = [TRACEBACK, *frame("train.py", 9, "<module>"), *frame("/workspace/data.py", 4, "load"), "ValueError: empty"]
IN_TORCH = [TRACEBACK, *frame("train.py", 9, "step"), *frame(LIBRARY, 700, "forward"), "RuntimeError: shapes differ"]
SPAWNED = [
    TRACEBACK,
    *frame("train.py", 30, "<module>"),
    *frame(LIBRARY, 8, "join"),
    "torch.multiprocessing.spawn.ProcessRaisedException: ",
    "",
    "-- Process 0 terminated with the following error:",
    TRACEBACK,
    *frame(LIBRARY, 89, "_wrap"),
    *frame("train.py", 7, "child"),
    "RuntimeError: shard 7 is corrupt",
    "",
]
GRAPH = [
    TRACEBACK,
    *frame("train.py", 40, "<module>"),
    *frame(LIBRARY, 153, "error_handler"),
    "tensorflow.python.framework.errors_impl.AbortedError: Graph execution error:",
    "",
    "Detected at node CollectiveReduceV2 defined at (most recent call last):",
    '  File "<frozen runpy>", line 198, in _run_module_as_main',
    "",
    '  File "train.py", line 40, in <module>',
    "",
    '  File "train.py", line 22, in step',
    "",
    f'  File "{LIBRARY}", line 172, in _all_reduce_sum_fn',
    "",
    "Collective ops is aborted by: Deadline Exceeded",
    "",
    "RPC: /tensorflow.CoordinationService/Heartbeat",
    "The error could be from a previous operation. Restart your program to reset.",
    "\t [[{{node CollectiveReduceV2_1}}]] [Op:__inference_train_step_1055]",
]
CRASH = [
    "Fatal Python error: Segmentation fault",
    "",
    "Current thread 0x00007f (most recent call first):",
    f'  File "{LIBRARY}", line 3 in string_at',
    '  File "train.py", line 9 in peek',
    '  File "train.py", line 12 in <module>',
    "",
    "Extension modules: numpy, torch (total: 40)",
]


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        pytest.param([], ("", ""), id="nothing"),
        pytest.param(["step 1", "the data set is empty"], ("the data set is empty", ""), id="no traceback"),
        pytest.param(MINE, ("ValueError: empty", "data.py:4, in load"), id="a function of another file"),
        pytest.param(IN_TORCH, ("RuntimeError: shapes differ", "train.py:9, in step"), id="raised inside a library"),
        pytest.param([f"[rank1]: {line}" for line in MINE], ("ValueError: empty", "data.py:4, in load"), id="torch's"),
        pytest.param(
            [*MINE, "-" * 20, "For simplicity, JAX has removed its internal frames from the traceback. Set X=off."],
            ("ValueError: empty", "data.py:4, in load"),
            id="JAX's",
        ),
        pytest.param(
            [
                *MINE,
                "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: 1 leak",
            ],
            ("ValueError: empty", "data.py:4, in load"),
            id="a warning at the interpreter's end",
        ),
        pytest.param(SPAWNED, ("RuntimeError: shard 7 is corrupt", "train.py:7, in child"), id="in a child"),
        pytest.param([*MINE[:4], "KeyError: 'x'"], ("KeyError: 'x'", "train.py:9"), id="at the top of the program"),
        pytest.param(
            ['  File "train.py", line 2', "    for i in range(3)", "        ^", "SyntaxError: expected ':'"],
            ("SyntaxError: expected ':'", "train.py:2"),
            id="syntax",
        ),
        pytest.param(
            [*MINE, "[rank0]:[W1121 process_group.cpp:1] Warning: destroy_process_group() was not called", "", "  x"],
            ("ValueError: empty", "data.py:4, in load"),
            id="what torch says when a process ends",
        ),
        pytest.param(
            [*MINE, "Exception ignored in: <Finalizer>"], ("ValueError: empty", "data.py:4, in load"), id="finalizers"
        ),
        pytest.param(
            [*MINE, "\tMissing key(s): conv1"], ("ValueError: empty", "data.py:4, in load"), id="a message of two lines"
        ),
        pytest.param(
            [*MINE, "gave up after 3 tries"], ("gave up after 3 tries", ""), id="a traceback that was survived"
        ),
        pytest.param(["cotenant: cannot run 'x'"], ("cotenant: cannot run 'x'", ""), id="ours, when nobody else spoke"),
        pytest.param(
            GRAPH,
            ("AbortedError: Collective ops is aborted by: Deadline Exceeded", "train.py:22, in step"),
            id="in a graph of TensorFlow's",
        ),
        pytest.param([*GRAPH, *MINE], ("ValueError: empty", "data.py:4, in load"), id="after such an error"),
        pytest.param(CRASH, ("Fatal Python error: Segmentation fault", "train.py:9, in peek"), id="a crash"),
    ],
)
def test_the_line_that_names_the_error_and_the_users_line_are_found(lines: list[str], want: tuple[str, str]) -> None:
    assert error_line(lines) == want


NOTEBOOK = """
---------------------------------------------------------------------------
Exception encountered at "In [4]":
---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[4], line 3
      2     if step == bad_batch:
----> 3         raise ValueError(f"bad batch {step}")
      4     time.sleep(0.02)

ValueError: bad batch 3
"""
CALLED = NOTEBOOK.replace(
    "Cell In[4], line 3", "Cell In[2], line 1\n----> 1 train()\n\nCell In[1], line 8, in train()"
).replace("ValueError: bad batch 3", "KeyboardInterrupt")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(NOTEBOOK, ("ValueError: bad batch 3", "cell 4, line 3"), id="in a cell"),
        pytest.param(CALLED, ("KeyboardInterrupt", "cell 1, line 8"), id="in a function of another cell"),
        pytest.param("Cell In[4], line 3\n", None, id="nothing that names an error"),
    ],
)
def test_the_error_of_a_notebook_is_named_with_its_cell(text: str, want: tuple[str, str] | None) -> None:
    assert embedded_error(text.splitlines(), ()) == want


def test_libraries_in_a_folder_on_pythonpath_are_not_the_users_code() -> None:
    """`pip install --target /deps`: nothing in such a path says that a library lies there."""
    deps = frame("/deps/torchvision/folder.py", 41, "find_classes")
    error = "FileNotFoundError: imagenet/train"
    started = [TRACEBACK, *frame("main.py", 134, "main"), *frame("/workspace/data.py", 7, "load"), *deps, error]
    assert error_line(started, ("/workspace",)) == (error, "data.py:7, in load")
    relative = [TRACEBACK, *frame("main.py", 134, "main"), *deps, error]
    assert error_line(relative, ("/workspace",)) == (error, "main.py:134, in main")
    elsewhere = [TRACEBACK, *frame("/opt/app/main.py", 134, "main"), *deps, error]
    assert error_line(elsewhere, ("/workspace",)) == (error, "folder.py:41, in find_classes")
    crash = ["Fatal Python error: Aborted", '  File "/deps/x/y.py", line 3 in call', '  File "main.py", line 9 in peek']
    assert error_line(crash, ("/workspace",))[1] == "main.py:9, in peek"


def test_a_line_that_does_not_end_is_cut() -> None:
    assert error_line(["ValueError: " + "x" * 5000])[0].endswith("xxx …")


def test_frames_of_libraries_do_not_push_the_users_own_out_of_an_excerpt() -> None:
    deep = [line for number in range(30) for line in frame(LIBRARY, number, "call")]
    kept = excerpt(["epoch 1", TRACEBACK, *frame("train.py", 9, "step"), *deep, "RuntimeError: shapes differ"])
    want = ["epoch 1", TRACEBACK, *frame("train.py", 9, "step")[:2], "RuntimeError: shapes differ"]
    assert list(kept) == want


def test_a_crash_is_told_without_the_frames_that_started_the_program() -> None:
    ours = [
        '  File "/x/cotenant_worker/ranks/program_runner.py", line 33 in run',
        '  File "<frozen runpy>", line 88 in _run_code',
    ]
    assert list(excerpt([*CRASH[:6], *ours])) == CRASH[:6]


def test_what_a_program_printed_is_kept_as_it_is() -> None:
    printed = [f"line {number}" for number in range(50)]
    assert list(excerpt(printed)) == printed[-EXCERPT_LINES:]
