"""Command lines of other launchers: the program behind one, and the options that the program depends on.

`torchrun --nproc_per_node=2 train.py`, `accelerate launch …`, `deepspeed …`, `composer …`, `horovodrun …`: starting
ranks is our work, so only the program is kept. Three things of the launcher are not lost: options that the program
reads from its environment, the `--local-rank` that some add to its arguments, and how many ranks it was asked for. The
exception is a job of one worker with several GPUs (`program_behind`).

Pure, except that it looks for two files: the interpreter beside a launcher, and accelerate's configuration.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.contract import Contract

PYTHON = re.compile(r"python(3(\.\d+)?)?$")
_OWN_SWITCHES = {"-u", "-B", "-q"}
"""Switches of a launcher's own interpreter, which its ranks do not get."""
_TORCH_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
_SHOWS_ALL = {"torchrun", "deepspeed", "composer", *_TORCH_MODULES}
_TORCHRUN_FLAGS = {"standalone", "use_env", "no_python", "run_path", "virtual_local_rank", "module", "m"}
"""torchrun's options without a value."""
_FLAGS = {
    "accelerate": "m module cpu multi_gpu tpu use_xpu use_mps_device quiet q debug no_python same_network"
    " enable_cpu_affinity use_deepspeed use_fsdp use_megatron_lm use_parallelism_config dynamo_use_fullgraph"
    " dynamo_use_dynamic dynamo_use_regional_compilation tpu_use_cluster no_tpu_cluster tpu_use_sudo",
    "composer": "m module_mode c command_mode v verbose version",
    "deepspeed": "module force_multi no_python no_local_rank no_ssh no_ssh_check save_pid elastic_training"
    " bind_cores_to_rank",
    "horovodrun": "v version c check_build disable_cache verbose gloo mpi jsrun tcp autotune mpi_threads_disable"
    " hierarchical_allreduce hierarchical_allgather timeline_mark_cycles log_with_timestamp"
    " prefix_output_with_timestamp prefix_timestamp stall_check",
}
"""Options without a value of the launchers that have too many to list. Each of horovodrun's may begin with `no_`."""
_BARE = {"--no_python", "--command_mode", "-c"}
_MODULE = {"-m", "--module", "--module_mode"}
_BY_VARIABLE = ("nnodes", "nproc_per_node", "max_restarts", "module", "no_python", "virtual_local_rank")
"""Options of torchrun that say what the ranks are, and how often they start again. Its options can be set by variables:
PET_NPROC_PER_NODE.
"""
_OTHER_MACHINES = ("hostfile", "hosts", "include", "exclude", "H", "base_rank")
"""Options of DeepSpeed, Horovod and Composer that name machines."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    argv: tuple[str, ...]
    """The program's own command line."""
    launcher: str = ""
    """The launcher that was removed; empty if there was none."""
    options: tuple[str, ...] = ()
    """The launcher's arguments."""

    def option(self, option: str) -> str:
        """The value of an option (its name with underscores, without dashes); empty if it is not given."""
        found = ""
        for argument, following in zip(self.options, [*self.options[1:], ""], strict=False):
            name, equals, value = argument.partition("=")
            if argument.startswith("-") and option_name(name) == option:
                found = value if equals else following
        return found

    def has_option(self, name: str) -> bool:
        return any(argument.startswith("-") and option_name(argument) == name for argument in self.options)

    @property
    def shows_all_gpus(self) -> bool:
        """True if ranks see all GPUs of their machine and choose by LOCAL_RANK."""
        return self.launcher in _SHOWS_ALL and not self.has_option("virtual_local_rank")

    @property
    def local_rank_option(self) -> str:
        """The option that carries LOCAL_RANK to every rank; empty for launchers that only set the variable."""
        if self.launcher == "torch.distributed.launch" and not self.has_option("use_env"):
            return "--local-rank"
        return "--local_rank" if self.launcher == "deepspeed" and not self.has_option("no_local_rank") else ""

    @property
    def requested_ranks(self) -> tuple[str, int]:
        """(the options, the number of ranks that they ask for); 0 if it is no number or not given."""
        if self.launcher.startswith("accelerate"):
            return self._product("num_processes")
        if self.launcher == "horovodrun":
            return self._product("np") if self.has_option("np") else self._product("num_proc")
        if self.launcher == "deepspeed":
            return self._product("num_gpus", "num_nodes")
        if self.launcher == "composer":
            return self._product(next(filter(self.has_option, ("world_size", "nproc")), "n"))
        return self._product("nproc_per_node", "nnodes")

    def starts_several(self, gpus: int) -> bool:
        """True if it starts several processes on one machine with so many GPUs, at most one on each, and no others."""
        machines = self._first("nnodes", "num_machines", "num_nodes").split(":")[-1]
        if gpus < 2 or machines not in ("", "1") or any(map(self.has_option, _OTHER_MACHINES)):
            return False
        count = self._first("nproc_per_node", "num_processes", "num_gpus", "np", "num_proc", "nproc", "n")
        if not count:
            return self.launcher.startswith(("accelerate", "deepspeed", "composer"))
        return count in ("gpu", "auto") or (count.isdecimal() and 1 < int(count) <= gpus)

    def _first(self, *names: str) -> str:
        return next((value for value in map(self.option, names) if value), "")

    def _product(self, *names: str) -> tuple[str, int]:
        """The product of the given ones, if the first one is given."""
        given = {name: self.option(name).split(":")[-1] for name in names if self.has_option(name)}
        number = int(names[0] in given)
        for value in given.values():
            number *= int(value) if value.isdecimal() else 0
        return " ".join(f"{name}={value}" for name, value in given.items()), number


def option_name(argument: str) -> str:
    return argument.partition("=")[0].lstrip("-").replace("-", "_")


def unwrap(command: Sequence[str]) -> Unwrapped:
    """The program and the launcher. A command without a known launcher, or without a program, is returned unchanged."""
    argv = tuple(command)
    name = Path(argv[0]).name if argv else ""
    rest, python = argv[1:], _interpreter_beside(argv[0]) if argv else ""
    if PYTHON.match(name):
        python = argv[0]
        while rest and rest[0] in _OWN_SWITCHES:
            rest = rest[1:]
        if len(rest) < 2 or rest[0] != "-m":
            return Unwrapped(argv)
        name, rest = rest[1], rest[2:]
        if name not in _TORCH_MODULES and not name.startswith("accelerate.commands.launch"):
            return Unwrapped(argv)
    elif name == "accelerate" and rest[:1] == ("launch",):
        rest = rest[1:]
    elif name not in ("torchrun", "horovodrun", "deepspeed", "accelerate-launch", "composer"):
        return Unwrapped(argv)
    if name == "torchrun" or name in _TORCH_MODULES:
        program, options = _after_torchrun(rest, python)
    else:
        program, options = _after_options(rest, python, name)
    return Unwrapped(program, name, options) if program else Unwrapped(argv)


def _interpreter_beside(launcher: str) -> str:
    """The Python of the environment that a launcher is installed in, if it is typed with its path."""
    folder, slash, _ = launcher.rpartition("/")
    names = (f"{folder}/python", f"{folder}/python3") if slash else ()
    return next((name for name in names if Path(name).is_file()), "python")


def with_variables(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The command with torchrun's options from its variables, as Kubeflow sets them, before those that are typed."""
    launcher = unwrap(command).launcher
    if launcher != "torchrun" and launcher not in _TORCH_MODULES:
        return tuple(command)
    given = [(name, env[f"PET_{name.upper()}"]) for name in _BY_VARIABLE if env.get(f"PET_{name.upper()}")]
    flags = [f"--{name}" for name, value in given if name in _TORCHRUN_FLAGS and value == "1"]
    options = [f"--{name}={value}" for name, value in given if name not in _TORCHRUN_FLAGS]
    at = next(index for index, part in enumerate(command) if launcher in (part, Path(part).name)) + 1
    return (*command[:at], *options, *flags, *command[at:])


def with_default_config(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The command with the configuration that accelerate reads unasked, if `accelerate config` has made one."""
    behind = unwrap(command)
    chosen = behind.has_option("config_file") or behind.has_option("cpu")
    cache = env.get("HF_HOME") or f"{env.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    path = Path(cache, "accelerate", "default_config.yaml").expanduser()
    if not behind.launcher.startswith("accelerate") or chosen or not path.is_file():
        return tuple(command)
    at = _options_begin(command)
    return (*command[:at], f"--config_file={path}", *command[at:])


def program_behind(contract: Contract) -> Unwrapped:
    """The program of a contract's ranks. A launcher stays where it is if it starts a process on each of several GPUs of
    the job's only worker: there is one rank, and its processes are the launcher's work.
    """
    behind = unwrap(contract.command)
    grants = [rank.gpus for pod in contract.pods for rank in pod.ranks]
    if len(grants) != 1 or contract.workers_min or contract.mode != "command":
        return behind
    return Unwrapped(contract.command) if behind.starts_several(len(grants[0])) else behind


def _after_torchrun(arguments: tuple[str, ...], python: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the program, the options before it). It knows every option, and which ones have a value."""
    options, program = _split(arguments, _TORCHRUN_FLAGS)
    names = {option_name(argument) for argument in options if argument.startswith("-")}
    if not program or "no_python" in names:
        return program, options
    return (python, *(("-m",) if names & {"m", "module"} else ()), *program), options


def _split(arguments: tuple[str, ...], flags: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the options with their values, what follows them). `flags` are options without a value.

    A `--` before the program or right behind it is not the program's: the launchers' argparse removes it.
    """
    index = 0
    while index < len(arguments) and arguments[index].startswith("-") and arguments[index] != "--":
        lone = "=" in arguments[index] or option_name(arguments[index]) in flags
        index += 1 if lone else 2
    rest = arguments[index:]
    ends = next((at for at in (0, 1) if rest[at : at + 1] == ("--",)), len(rest))
    return arguments[:index], (*rest[:ends], *rest[ends + 1 :])


def _after_options(arguments: tuple[str, ...], python: str, launcher: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The program and the options before it, for launchers with too many options: the program begins at a script or an
    interpreter, otherwise where the options end. Many programs have no suffix, such as those that pip installs.
    """
    kind = next((kind for kind in _FLAGS if launcher.startswith(kind)), "")
    flags = {name for flag in _FLAGS[kind].split() for name in (flag, f"no_{flag}")}
    options, program = _split(arguments, flags)
    arguments = (*options, *program)
    for index, argument in enumerate((*options, *program[:1])):
        if PYTHON.match(Path(argument).name):
            return arguments[index:], arguments[:index]
        if argument.endswith(".py"):
            return (python, *arguments[index:]), arguments[:index]
    module = ("-m",) if _MODULE & {*options} else ()
    if not program or (not module and (kind == "horovodrun" or _BARE & {*options})):
        return program, options
    return (python, *module, *program), options


_ACCELERATE_VARIABLES = {
    "mixed_precision": "ACCELERATE_MIXED_PRECISION",
    "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
}
_ACCELERATE_PLACEMENT = re.compile(
    r"(multi_gpu|cpu|gpu_ids|num_(processes|machines|cpu_threads_per_process)|machine_rank|main_process_(ip|port)"
    r"|same_network|rdzv_\w+|max_restarts|monitor_interval|module|quiet|debug|tee|log_dir|role|m|q)$"
)
"""Options about where ranks run and who starts them, which do not concern the program."""


_ONE_PROCESS: Final = ("--num_processes=1", "--num_machines=1", "--machine_rank=0", "--gpu_ids=all")


def as_one_process(command: Sequence[str], behind: Unwrapped) -> tuple[str, ...]:
    """The command line of accelerate for one process, which is the rank that it runs in."""
    typed = [each for each in behind.options if each not in _MODULE and option_name(each) != "multi_gpu"]
    return (*command[: _options_begin(command)], *typed, *_ONE_PROCESS, *behind.argv[1:])


def _options_begin(command: Sequence[str]) -> int:
    """Index behind the words that start accelerate's launcher."""
    return next(index for index, part in enumerate(command) if part.endswith("launch")) + 1


def accelerate_options(arguments: Sequence[str]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """(variables of the program, options that only accelerate itself understands)."""
    environment: list[tuple[str, str]] = []
    others: list[str] = []
    for index, argument in enumerate(arguments):
        if not argument.startswith("-"):
            continue
        name = option_name(argument)
        if name in _ACCELERATE_VARIABLES:
            value = argument.partition("=")[2] or (arguments[index + 1] if index + 1 < len(arguments) else "")
            environment.append((_ACCELERATE_VARIABLES[name], value))
        elif not _ACCELERATE_PLACEMENT.match(name):
            others.append(argument)
    return tuple(environment), tuple(others)
