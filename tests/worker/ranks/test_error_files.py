"""A tenant's program may put anything where its error files lie."""

import json
import os
from pathlib import Path

import pytest

from cotenant_worker.host import layout
from cotenant_worker.ranks.error_files import ends_itself, environment_for_errors, error_of
from cotenant_worker.supervision.rank_error import RankError

GOOD = {"type": "ValueError", "message": "empty", "frame": "a.py:1", "time": 5.0, "started": 1.0}


def test_links_pipes_folders_and_floods_hold_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    assert error_of(0, 0, 7) is None
    environment_for_errors(0, 0)
    directory = layout.errors_dir(0, 0)
    (directory / "8.json").symlink_to("/etc/passwd")
    (directory / "9.json").mkdir()
    os.mkfifo(directory / "10.json")
    (directory / ("9" * 200)).touch()
    (directory / "\u0663.json").touch()
    assert error_of(0, 0, 7) is None
    (directory / "7.json").write_text(json.dumps(GOOD))
    assert error_of(0, 0, 7) == RankError("ValueError", "empty", "a.py:1", 5.0, 7, 1.0)


def test_torchs_own_record_counts_where_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is as `torch.distributed.elastic.multiprocessing.errors` writes it."""
    monkeypatch.setenv("COTENANT_STATE_DIR", str(tmp_path))
    path = environment_for_errors(0, 0)["TORCHELASTIC_ERROR_FILE"]
    stack = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    f()\nValueError: empty\n'
    inner = {"message": "ValueError: empty", "extraInfo": {"py_callstack": stack, "timestamp": "12"}}
    Path(path).write_text(json.dumps({"message": inner}))
    error = error_of(0, 0, 7)
    assert error is not None
    assert (error.type, error.message.splitlines()[0], error.time) == ("ValueError", "empty", 12.0)


@pytest.mark.parametrize(
    ("script", "itself"),
    [
        pytest.param("trap 'kill 0' EXIT\npython train.py\n", True, id="its group, at its end"),
        pytest.param(
            'trap "trap - SIGTERM && kill -- -$$" SIGINT SIGTERM EXIT\npython train.py', True, id="by its pid"
        ),
        pytest.param("python train.py\nkill -TERM -$$", True, id="by an option"),
        pytest.param("kill -s TERM $$", True, id="itself alone"),
        pytest.param("kill -- -$(ps -o pgid= $$ | tr -d ' ')", True, id="by ps"),
        pytest.param("trap 'kill $(jobs -p)' EXIT\npython train.py", False, id="what it started"),
        pytest.param("redis-server & python train.py; kill $!; exit 0", False, id="one process, and then 0"),
        pytest.param("kill -0 $PID && echo runs", False, id="a question"),
        pytest.param("pkill -P $$; echo $$", False, id="its children"),
    ],
)
def test_a_shell_script_that_signals_its_own_group(script: str, itself: bool) -> None:
    assert ends_itself(script) is itself
