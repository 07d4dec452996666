"""Command lines of the applications: on loopback alone, and without a token that others could read off them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotenant_worker.sessions.application import SHELL, Served, application

SERVED = Served(port=8888, path="/sessions/a/b/app/", token="secret")


def test_jupyterlab_listens_on_loopback_below_its_path() -> None:
    made = application("JupyterLab", SERVED, (), "/home/session", {})
    words = set(made.command)
    assert {"--ServerApp.ip=127.0.0.1", "--ServerApp.port=8888", "--ServerApp.base_url=/sessions/a/b/app/"} <= words
    assert made.env["JUPYTER_TOKEN"] == "secret"


def test_jupyterlab_neither_fetches_news_nor_asks_whether_to() -> None:
    made = application("JupyterLab", SERVED, (), "/home/session", {"JUPYTER_CONFIG_PATH": "/image/etc/jupyter"})
    first, ours = made.env["JUPYTER_CONFIG_PATH"].split(":")
    assert first == "/image/etc/jupyter", "the image's own settings come before"
    written = json.loads(made.files[f"{ours}/labconfig/default_setting_overrides.json"])
    assert written["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


@pytest.mark.parametrize("kind", ["JupyterLab", "CodeServer", "Shell", "Program"])
def test_no_token_is_on_a_command_line(kind: str) -> None:
    assert "secret" not in " ".join(application(kind, SERVED, ("serve",), "/home/session", {}).command)


def test_a_program_finds_its_port_in_its_environment() -> None:
    made = application("Program", SERVED, ("serve", "--fast"), "/home", {})
    assert made.command == ("serve", "--fast")
    assert made.env == {"COTENANT_SESSION_PORT": "8888"}
    assert application("Shell", SERVED, (), "/home", {}).command == SHELL


def test_what_is_no_application_is_refused() -> None:
    with pytest.raises(ValueError, match="RStudio is no application"):
        application("RStudio", SERVED, (), "/home", {})


def test_a_program_runs_in_its_home_and_ends_with_the_code_that_it_ends_with(tmp_path: Path) -> None:
    code = "import os, sys; open('here', 'w').write(os.environ['HOME']); sys.exit(7)"
    home = tmp_path / "home"
    words = ["Program", "--home", str(home), "--port", "18099", "--", sys.executable, "-c", code]
    done = subprocess.run([sys.executable, "-m", "cotenant_worker.sessions", *words], check=False)
    assert (done.returncode, (home / "here").read_text()) == (7, str(home))


def test_a_signal_reaches_the_program(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = f"import signal, sys; signal.signal(15, lambda *_: sys.exit(3)); open({str(ready)!r}, 'w'); signal.pause()"
    words = ["Program", "--home", str(tmp_path), "--", sys.executable, "-c", code]
    process = subprocess.Popen([sys.executable, "-m", "cotenant_worker.sessions", *words])
    while not ready.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 3
