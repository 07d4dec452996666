"""What may come next on the command line: read off the parser, in words that shells and kubectl understand."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant.cli import main
from cotenant.cli.reference import completions
from cotenant.cli.reference.completions import position


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield f"digits-of-{given.get('namespace', 'mine')}", "Running"
        yield "words", "Pending"

    monkeypatch.setattr(completions, "NAMES", {**completions.NAMES, "JOB": jobs})


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("whyx", []),
        ("wh", ["whatif", "why"]),
        ("why ", ["digits-of-mine", "words"]),
        ("why d", ["digits-of-mine"]),
        ("why -n red ", ["digits-of-red", "words"]),
        ("why --namespace=red d", ["digits-of-red"]),
        ("why words ", []),
        ("why words -o ", ["text", "wide", "json", "yaml", "name"]),
        ("why --output=j", ["json"]),
        ("why --out", ["--output"]),
        ("gpus r", ["reset"]),
        ("gpus nonsense r", []),
    ],
)
def test_the_words_that_may_come_next(capsys: pytest.CaptureFixture[str], typed: str, found: list[str]) -> None:
    assert main.main(["__complete", *typed.split(" ")]) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    assert ([line.partition("\t")[0] for line in lines], directive) == (found, ":4")


def test_a_file_is_completed_by_the_shell() -> None:
    at = position(main.build_parser(), ["validate", "-f"])
    assert at.takes_files("")
    assert position(main.build_parser(), ["why", "--kubeconfig"]).takes_files("")


def arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from arguments(below)
        elif not action.option_strings:
            yield action


def test_names_are_those_of_the_selected_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may list nothing else."""
    asked: list[str] = []

    def connected(flags: argparse.Namespace, **_: float) -> SimpleNamespace:
        def read(path: str) -> dict[str, list[object]]:
            asked.append(path)
            return {"items": []}

        return SimpleNamespace(namespace=flags.namespace, read=read)

    monkeypatch.setattr("cotenant.cli.terminal.connection.connect", connected)
    for kind in ("SWEEP", "SESSION", "REQUEST"):
        assert list(completions.NAMES[kind]({"namespace": "red"})) == []
    assert [path.partition("/namespaces/red/")[2].partition("?")[0] for path in asked] == [
        "sweeps",
        "sessions",
        "quotarequests",
    ]


def test_every_argument_of_the_plugin_is_completed_or_known_to_be_free() -> None:
    """A verb that calls its argument otherwise than the others do is completed by nobody."""
    free = {"GPU", "PORT", "words"}
    words = {
        action.metavar or action.dest for action in arguments(main.build_parser(main.PLUGIN)) if not action.choices
    }
    files = {word for word in words if any(part in str(word) for part in ("FILE", "DIR", "PATH"))}
    assert words - files - set(completions.NAMES) - free == set()


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "cotenant"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cotenant "$@"\n')
    program.chmod(0o755)
    script = completions.SCRIPTS["bash"].replace("PROGRAM", "cotenant")
    asked = "COMP_WORDS=(cotenant wh); COMP_CWORD=1; _cotenant; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["whatif", "why"], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_read_by_their_shells(tmp_path: Path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(completions.SCRIPTS[shell].replace("PROGRAM", "cotenant"))
    subprocess.run([found, "-n", str(script)], check=True, timeout=30)


def test_a_script_calls_the_program_by_the_name_it_was_called_by(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-cotenant"])
    assert main.main(["completions", "fish"]) == 0
    assert "complete -c kubectl-cotenant -f" in capsys.readouterr().out
