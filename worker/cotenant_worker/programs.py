"""What a contract asks a rank to run: another launcher unwrapped, Python recognised. Pure.

A Python program can start inside a process that has its imports done already (`warm`); everything else is executed
as it stands. A command that begins with torchrun, accelerate or horovodrun names its program further back: starting
ranks is our work, so only the program is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cotenant.contract import Contract

_PYTHON = re.compile(r"python(3(\.\d+)?)?$")
_TORCHRUN_FLAGS = {"--standalone", "--use-env", "--use_env", "--no-python", "--no_python", "--run-path", "--run_path"}
_TORCH_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
TORCH_LAUNCHERS = {"torchrun", *_TORCH_MODULES}
"""Names of what is taken off, where ranks expect to see all GPUs of their machine."""
_SAFE_SWITCHES = {"-u", "-B", "-q"}


@dataclass(frozen=True, slots=True)
class Program:
    kind: Literal["script", "module", "entrypoint", "exec"]
    argv: tuple[str, ...]
    """`script`: path, then arguments; `module` and `entrypoint`: the name, then arguments; `exec`: as typed."""
    unwrapped: str = ""
    """The launcher that was taken off."""
    environment: tuple[tuple[str, str], ...] = ()
    """What that launcher would have told the program beyond its place in the world."""
    unused: tuple[str, ...] = ()
    """Options of that launcher that change the program and that Cotenant does not carry out."""

    @property
    def objection(self) -> str:
        """What the tenant should know of his command line; empty when it does all that it says."""
        if not self.unused:
            return ""
        return f"{self.unwrapped}: {' '.join(self.unused)} has no effect here; say it in the program or in the job"

    def command(self, python: str) -> tuple[str, ...]:
        """As a command line, for a start without a warm process."""
        if self.kind == "exec":
            return self.argv
        if self.kind == "entrypoint":
            return (python, "-m", "cotenant_worker.rank", self.argv[0])
        return (python, "-u", *(("-m",) if self.kind == "module" else ()), *self.argv)


def program_of(contract: Contract, python: str) -> Program:
    """The program of one rank. `python` is our own interpreter: only that one has a warm process."""
    if contract.mode == "entrypoint":
        return Program("entrypoint", (contract.entrypoint,))
    inner, launcher = unwrap(contract.command)
    program = classify(inner, python, launcher)
    if not launcher.startswith("accelerate"):
        return program
    environment, unused = options_of_accelerate(contract.command[: len(contract.command) - len(inner) + 1])
    return replace(program, environment=environment, unused=unused)


def unwrap(command: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """(the program's own command line, the launcher taken off or nothing)."""
    argv = tuple(command)
    name = Path(argv[0]).name if argv else ""
    if name == "torchrun":
        return _after_torchrun(argv[1:]), "torchrun"
    if _PYTHON.match(name):
        rest = argv[1:]
        while rest and rest[0] in _SAFE_SWITCHES:
            rest = rest[1:]
        if len(rest) > 1 and rest[0] == "-m" and rest[1] in _TORCH_MODULES:
            return _after_torchrun(rest[2:]), rest[1]
        if len(rest) > 1 and rest[0] == "-m" and rest[1].startswith("accelerate.commands.launch"):
            return _after_options(rest[2:]), rest[1]
    if name in ("accelerate", "horovodrun") and len(argv) > 1:
        rest = argv[2:] if name == "accelerate" and argv[1] == "launch" else argv[1:]
        return (
            (_after_options(rest), name) if rest and not (name == "accelerate" and argv[1] != "launch") else (argv, "")
        )
    return argv, ""


def _after_torchrun(argv: Sequence[str]) -> tuple[str, ...]:
    module = no_python = False
    index = 0
    while index < len(argv) and argv[index].startswith("-"):
        option = argv[index]
        module |= option in ("-m", "--module")
        no_python |= option in ("--no-python", "--no_python")
        takes_value = "=" not in option and option not in _TORCHRUN_FLAGS and option not in ("-m", "--module")
        index += 2 if takes_value else 1
    program = tuple(argv[index:])
    if not program:
        return tuple(argv)
    if no_python:
        return program
    return ("python", *(("-m",) if module else ()), *program)


def _after_options(argv: Sequence[str]) -> tuple[str, ...]:
    """Launchers with options too many to know: the program begins at a script, a module, or an interpreter."""
    for index, word in enumerate(argv):
        if _PYTHON.match(Path(word).name):
            return tuple(argv[index:])
        if word.endswith(".py"):
            return ("python", *argv[index:])
        if word in ("-m", "--module") and index + 1 < len(argv):
            return ("python", "-m", *argv[index + 1 :])
    return tuple(argv)


_ACCELERATE_SAYS = {
    "--mixed_precision": "ACCELERATE_MIXED_PRECISION",
    "--gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
}
_ACCELERATE_PLACES = re.compile(
    r"--(multi_gpu|cpu|gpu_ids|num_(processes|machines|cpu_threads_per_process)|machine_rank|main_process_(ip|port)"
    r"|same_network|rdzv_\w+|max_restarts|monitor_interval|module|quiet|debug|tee|log_dir|role)$|-m$|-q$"
)
"""Where ranks run and who starts them: not the program's business here."""


def options_of_accelerate(words: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """(variables of the program, options that would change it and are not carried out)."""
    environment: list[tuple[str, str]] = []
    unused: list[str] = []
    for index, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, _, value = word.partition("=")
        name = re.sub(r"(?<=\w)-", "_", name)
        if name in _ACCELERATE_SAYS:
            environment.append((_ACCELERATE_SAYS[name], value or (words[index + 1] if index + 1 < len(words) else "")))
        elif not _ACCELERATE_PLACES.match(name):
            unused.append(word)
    return tuple(environment), tuple(unused)


def classify(argv: Sequence[str], python: str, launcher: str = "") -> Program:
    name = argv[0] if argv else ""
    ours = _PYTHON.match(Path(name).name) and (
        "/" not in name or Path(name).resolve().parent == Path(python).resolve().parent
    )
    rest = list(argv[1:])
    while rest and rest[0] in _SAFE_SWITCHES:
        rest.pop(0)
    if ours and rest and rest[0] == "-m" and len(rest) > 1:
        return Program("module", tuple(rest[1:]), launcher)
    if ours and rest and not rest[0].startswith("-"):
        return Program("script", tuple(rest), launcher)
    return Program("exec", tuple(argv), launcher)


def source_file(program: Program, code: Path) -> Path | None:
    """The program's own file, to see what it imports; None when it cannot be told without importing."""
    if program.kind == "script":
        path = code / program.argv[0]
        return path if path.is_file() else None
    if program.kind in ("module", "entrypoint"):
        stem = code / program.argv[0].split(":")[0].replace(".", "/")
        for path in (stem.with_suffix(".py"), stem / "__main__.py", stem / "__init__.py"):
            if path.is_file():
                return path
    return None


_IMPORT = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_][A-Za-z0-9_.]*)", re.MULTILINE)
_PRELOADABLE = ("numpy", "torch", "torchvision", "sklearn")
"""Safe to import before a fork: they start no threads and touch no GPU until they are used."""
_BRING_TORCH = ("accelerate", "lightning", "pytorch_lightning", "transformers", "ray", "cotenant_worker")


def wants_horovod(program: Program, source: str, framework: str) -> bool:
    """Ranks will look for Horovod's rendezvous: by the job's word, its launcher's, or the program's imports."""
    roots = {match.split(".")[0] for match in _IMPORT.findall(source)}
    return framework == "horovod" or program.unwrapped == "horovodrun" or "horovod" in roots


@dataclass(frozen=True, slots=True)
class Preloads:
    """Modules that a warm process imports ahead."""

    first: tuple[str, ...] = ()
    """A rank is not forked before these are there: it would import them itself, as slowly."""
    later: tuple[str, ...] = ()
    """When nobody waits: a first start should not, a restart finds them done."""


def preloads(source: str, framework: str) -> Preloads:
    """What to import ahead, seen in the program's text."""
    roots = {match.split(".")[0] for match in _IMPORT.findall(source)}
    wanted = {name for name in _PRELOADABLE if name in roots}
    if framework in ("torch", "pytorch") or (roots & set(_BRING_TORCH[:-2])):
        wanted.add("torch")
    deep = {"sklearn": ("sklearn.datasets",), "torch": ("torch", "torch.distributed")}
    first = tuple(part for name in _PRELOADABLE if name in wanted for part in deep.get(name, (name,)))
    # The first optimizer of a process imports it: more than a second.
    return Preloads(first, ("torch._dynamo",) if "torch" in wanted else ())
