"""The dashboard beside the demo: its address is known while it runs, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from cotenant_local.demo.pages import dashboard

SERVES = "import os, time; print('The dashboard is at\\n\\n  http://127.0.0.1:1/login?code=x', flush=True); "


def test_the_address_is_the_one_that_the_dashboard_prints_and_it_ends_with_the_block(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    program = f"{SERVES} open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with dashboard(tmp_path / "kubeconfig", (sys.executable, "-c", program)) as address:
        assert address == "http://127.0.0.1:1/login?code=x"
        while not told.exists() or not told.read_text():
            os.sched_yield()
        pid = int(told.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIG_DFL)


def test_a_dashboard_that_does_not_start_has_no_address_and_holds_nothing_up(tmp_path: Path) -> None:
    with dashboard(tmp_path / "kubeconfig", (sys.executable, "-c", "raise SystemExit(2)")) as address:
        assert address == ""
