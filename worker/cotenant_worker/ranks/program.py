"""The program of a rank, from its contract: other launchers are unwrapped, Python is recognized. Pure.

A Python program can start in a process that has done its imports (`fork_server`). All others are executed as written.
In a command that begins with another launcher, the program follows later (`foreign_launchers`).
"""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from cotenant.contract import Contract
from cotenant_worker.ranks.foreign_launchers import (
    PYTHON,
    Unwrapped,
    accelerate_options,
    as_one_process,
    program_behind,
)

ProgramKind: TypeAlias = Literal["script", "module", "entrypoint", "exec"]


_KILLED: Final = re.compile(r"\bKilled\b(?!.*\btimeout\b)")
"""What a shell prints if SIGKILL ended a process: `run.sh: line 2: 7 Killed python train.py`."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})


@dataclass(frozen=True, slots=True)
class Program:
    kind: ProgramKind
    argv: tuple[str, ...]
    """`script`: path, then arguments; `module` and `entrypoint`: the name, then arguments; `exec`: as written."""
    launcher: str = ""
    """The launcher that was removed."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of that launcher, except those of the place in the group."""
    local_rank_option: str = ""
    """An option that every rank gets, with its LOCAL_RANK."""
    warning: str = ""
    """For the tenant: the launcher was asked for more ranks than there are, or would start its own in every rank."""

    def for_rank(self, local_rank: str) -> Program:
        """This program with the arguments of one rank."""
        if not self.local_rank_option:
            return self
        at = 1
        if self.kind == "exec" and PYTHON.match(Path(self.argv[0]).name):
            while at < len(self.argv) and self.argv[at].startswith("-"):
                at += 1
            at += 1
        return replace(self, argv=(*self.argv[:at], f"{self.local_rank_option}={local_rank}", *self.argv[at:]))

    def code_and_signal(self, status: int, tail: Sequence[str]) -> tuple[int | None, int | None]:
        """Exit code or signal of its first process. A shell exits with 128 + n if signal n ended its command."""
        if status < 0:
            return None, -status
        path = Path(self.argv[0])
        shell = path.name in _SHELLS or path.suffix == ".sh"
        if status - 128 == signal.SIGKILL and shell and not any(_KILLED.search(line) for line in tail[-5:]):
            return status, None  # `exit 137`, or a limit of time of its own
        if status - 128 == signal.SIGTERM:
            return status, None  # a limit of time (`timeout --preserve-status`), or a program that ended itself
        if self.kind == "exec" and not path.name.startswith("python") and status - 128 in set(signal.Signals):
            return None, status - 128
        return status, None

    def command(self, python: str) -> tuple[str, ...]:
        """The program as a command line, for a start without the fork server."""
        if self.kind == "exec":
            return self.argv
        if self.kind == "entrypoint":
            return (python, "-m", "cotenant_worker.ranks.program_runner", self.argv[0])
        return (python, "-u", *(("-m",) if self.kind == "module" else ()), *self.argv)


def program_of(contract: Contract, python: str) -> Program:
    """The program of one rank. `python` means our own interpreter: only that one has a fork server."""
    if contract.mode == "entrypoint":
        return Program("entrypoint", (contract.entrypoint,))
    behind = program_behind(contract)
    program = classify(behind.argv, python, behind.launcher)
    program = replace(
        program,
        local_rank_option=behind.local_rank_option,
        warning=too_few_ranks_warning(contract, behind)
        or repeated_launch_warning(contract)
        or lost_restarts_warning(contract, behind),
    )
    if not behind.launcher.startswith("accelerate"):
        return program
    environment, others = accelerate_options(behind.options)
    if others and not behind.has_option("no_python"):
        # accelerate turns these options and its configuration into variables before it starts its single process.
        return replace(program, kind="exec", argv=as_one_process(contract.command, behind))
    return replace(program, environment=environment)


def too_few_ranks_warning(contract: Contract, behind: Unwrapped) -> str:
    """A warning if the launcher was asked for more ranks than the job has; otherwise empty."""
    if contract.workers_min or contract.mode == "rayTrain":
        return ""  # the job's own size changes
    options, ranks = behind.requested_ranks
    world = contract.world_size
    several = max((len(rank.gpus) for pod in contract.pods for rank in pod.ranks), default=0)
    if ranks > world:
        return f"{behind.launcher}: {options} asks for {ranks} ranks, this job has {world}: spec.workers says how many"
    if behind.option("nproc_per_node") in ("gpu", "auto") and several > 1:
        return (
            f"{behind.launcher}: one rank has {several} GPUs: for a rank on each, say it as spec.workers, gpu.count: 1"
        )
    return ""


_OF_ONE_POD = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun"})
"""Launchers that start all processes of one program. Here each rank would run one."""


def repeated_launch_warning(contract: Contract) -> str:
    """A warning if each of several ranks runs the same MPI launcher; otherwise empty."""
    name = Path(contract.command[0]).name if contract.command else ""
    if contract.mode != "command" or contract.world_size < 2 or name not in _OF_ONE_POD:
        return ""
    return (
        f"{name}: each of the {contract.world_size} ranks runs it, and its processes meet inside one rank only."
        " If the program reads torchrun's variables (Horovod does), leave it out; or ask for workers: 1 with all GPUs"
    )


def lost_restarts_warning(contract: Contract, behind: Unwrapped) -> str:
    """A warning if the launcher was to start failed ranks again more often than the job is; otherwise empty."""
    wanted = behind.option("max_restarts")
    if not wanted.isdecimal() or int(wanted) <= int(contract.platform.get("retries", 0)):
        return ""
    return f"{behind.launcher}: max_restarts={wanted} starts nothing again here: say retries: {wanted} in the job"


def classify(argv: Sequence[str], python: str, launcher: str = "") -> Program:
    name = argv[0] if argv else ""
    ours = _is_our_python(name, python)
    rest = list(argv[1:])
    while rest and rest[0] == "-u":  # which every rank has
        rest.pop(0)
    if ours and rest and rest[0] == "-m" and len(rest) > 1:
        return Program("module", tuple(rest[1:]), launcher)
    if ours and rest and not rest[0].startswith("-"):
        return Program("script", tuple(rest), launcher)
    return Program("exec", tuple(argv), launcher)


def _is_our_python(name: str, python: str) -> bool:
    """True for our own interpreter.

    In a virtual environment `python` is a link that many environments share, so a path is compared as written, without
    resolving links.
    """
    folder, _, base = name.rpartition("/")
    if not folder:
        return base in ("python", "python3", f"python3.{sys.version_info.minor}")
    return bool(PYTHON.match(base)) and Path(folder) == Path(python).parent


def source_file(program: Program, code: Path) -> Path | None:
    """The program's own file, in which its imports are found; None if finding it would need an import."""
    if program.kind == "script":
        path = code / program.argv[0]
        return path if path.is_file() else None
    if program.kind in ("module", "entrypoint"):
        stem = code / program.argv[0].split(":")[0].replace(".", "/")
        for path in (stem.with_suffix(".py"), stem / "__main__.py", stem / "__init__.py"):
            if path.is_file():
                return path
    return None


def script_text(program: Program, code: Path) -> str:
    """The text of the shell script that a program is, behind whatever starts it; empty for other programs."""
    words = iter(program.argv if program.kind == "exec" else ())
    for word in words:
        if Path(word).name in _SHELLS:
            break
        if word.endswith(".sh"):
            words = iter((word,))
            break
    for word in words:
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            return next((text for text in words if text != "--"), "")
        if not word.startswith(("-", "+")):
            with contextlib.suppress(OSError):
                return (code / word).read_text(errors="replace")
    return ""


def source_text(program: Program, code: Path) -> tuple[str, frozenset[str]]:
    """(the text of a program, behind that of the packages that it is in, names of the modules beside it).

    Python imports those packages first. Both are empty if finding the program would need an import, or if the pod's
    user may not read it: then Python says so.
    """
    with contextlib.suppress(OSError):
        path = source_file(program, code)
        if path is not None:
            inside = path.relative_to(code).parts[:-1] if program.kind != "script" else ()
            doors = (code.joinpath(*inside[:depth], "__init__.py") for depth in range(1, len(inside) + 1))
            text = "\n".join(file.read_text(errors="replace") for file in (*doors, path) if file.is_file())
            return text, frozenset(entry.stem for entry in path.parent.iterdir())
    return "", frozenset()


_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\.|[A-Za-z_][\w.]*)|import[ \t]+([A-Za-z_][^\n#;]*))", re.MULTILINE)
_RELATIVE: Final = ""
"""The root of a relative import: another module of the program's own package."""
_SETS_VARIABLES = re.compile(
    r"environ\[[^\]\n]+\]\s*=(?!=)|environ\s*\|=|environ\.(?:update|setdefault|pop)\b|del os\.environ"
    r"|\b(?:putenv|load_dotenv)\("
)
"""How programs set variables that a library reads when it is imported: `os.environ["OMP_NUM_THREADS"] = "1"`."""
_LINE_THAT_SETS = re.compile(rf"^.*(?:{_SETS_VARIABLES.pattern}).*$", re.MULTILINE)
_PRELOADABLE = ("numpy", "torch", "torchvision", "sklearn")
"""Modules that are safe to import before a fork: they start no threads and touch no GPU until they are used."""
_BRING_TORCH = frozenset(
    {"accelerate", "diffusers", "lightning", "peft", "pytorch_lightning", "timm", "torch_geometric", "torchaudio"}
    | {"torchmetrics", "transformers", "trl"}
)
_NEUTRAL = frozenset(
    {"PIL", "absl", "click", "cotenant_worker", "datasets", "einops", "evaluate", "fire", "gym", "gymnasium", "h5py"}
    | {"huggingface_hub", "hydra", "imageio", "joblib", "loguru", "matplotlib", "ml_collections", "networkx", "nltk"}
    | {"omegaconf", "pandas", "psutil", "ray", "requests", "rich", "safetensors", "scipy", "seaborn", "sentencepiece"}
    | {"tabulate", "tensorboard", "tensorboardX", "termcolor", "tokenizers", "tqdm", "typer", "tyro", "wandb", "yaml"}
)
"""Libraries that do not mind whether torch was imported before them. Others do: isaacgym fails then, comet_ml cannot
log, open3d and faiss bring libraries in another order.
"""


def _imports(source: str) -> list[tuple[int, str]]:
    """(position in the text, top-level module) of each import, in order of position."""
    found = []
    for match in _IMPORT.finditer(source):
        names = [match[1]] if match[1] else [part.split()[0] for part in match[2].split(",") if part.split()]
        found += [(match.start(), name.split(".")[0]) for name in names]
    return found


def wants_horovod(program: Program, source: str, framework: str) -> bool:
    """True if ranks will look for Horovod's rendezvous, by the job's framework, its launcher, or its imports."""
    roots = {root for _, root in _imports(source)}
    return framework == "horovod" or program.launcher == "horovodrun" or "horovod" in roots


@dataclass(frozen=True, slots=True)
class Preloads:
    """Modules that the fork server imports."""

    required: tuple[str, ...] = ()
    """A rank is forked after these are imported: it would import them itself, as slowly."""
    deferred: tuple[str, ...] = ()
    """Imported while no rank waits, for the next start."""


def preloads(source: str, framework: str, beside: Collection[str] = ()) -> Preloads:
    """Choose modules to import ahead, by the program's text: those that it imports before anything else could tell.

    A variable that the program sets first, or a library that it imports first and that may look for torch, ends the
    choice. `beside` names the modules beside the program, which may import torch if `framework` says that they do.
    """
    wanted, undisturbed = _first_imports(source, {_RELATIVE, *beside} if framework in ("torch", "pytorch") else ())
    if undisturbed and framework in ("torch", "pytorch"):
        wanted.add("torch")
    deep = {"sklearn": ("sklearn.datasets",), "torch": ("torch", "torch.distributed")}
    first = tuple(part for name in _PRELOADABLE if name in wanted for part in deep.get(name, (name,)))
    # The first optimizer of a process imports it: more than a second.
    later = "torch" in wanted and not any("TORCH" in line[0] for line in _LINE_THAT_SETS.finditer(source))
    return Preloads(first, ("torch._dynamo",) if later else ())


def _first_imports(source: str, harmless: Collection[str]) -> tuple[set[str], bool]:
    """(preloadable modules that are imported before the first disturbance, whether there is none in the text)."""
    sets = _SETS_VARIABLES.search(source)
    end = sets.start() if sets else len(source)
    wanted: set[str] = set()
    harmless = {*sys.stdlib_module_names, *_NEUTRAL, *harmless}
    for at, root in _imports(source):
        if at > end:
            break
        if root in _PRELOADABLE:
            wanted.add(root)
        elif root in _BRING_TORCH:
            wanted.add("torch")
        elif root not in harmless:
            return wanted, False
    return wanted, sets is None
