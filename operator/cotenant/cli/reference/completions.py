"""`cotenant completions SHELL`: a shell script that completes verbs, flags, and names of jobs, queues and nodes.

The script asks this program for candidates (`cotenant __complete WORD …`). The program reads them from its own parser,
so they always match the verbs. The answer has the form that kubectl expects of its plugins: one candidate per line with
a tab and a description, then `:4`, or `:0` if files may follow.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from cotenant.cli.errors import UserError
from cotenant.sdk.job_paths import API

NAMED_MAX: Final = 500
ANSWER_S: Final = 2.0
"""The shell waits at most this many seconds for names."""
FILES, NO_FILES = ":0", ":4"
_IS_FILE: Final = ("FILE", "DIR", "PATH")
Candidate = tuple[str, str]
"""A word and its description, which may be empty."""

BASH: Final = """\
_cotenant() {
    local answer line
    answer=$(PROGRAM __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :0) compopt -o default 2>/dev/null ;;
            :*) ;;
            ?*) COMPREPLY+=("${line%%$'\\t'*}") ;;
        esac
    done <<< "$answer"
}
complete -F _cotenant PROGRAM
"""
ZSH: Final = """\
#compdef PROGRAM
_cotenant() {
    local line word files=
    local -a found
    for line in "${(@f)$(PROGRAM __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            :0) files=1 ;;
            :*|'') ;;
            *) word=${line%%$'\\t'*}; found+=("${word//:/\\\\:}:${line#*$'\\t'}") ;;
        esac
    done
    (( $#found )) && _describe -t cotenant 'cotenant' found
    [[ -n $files ]] && _files
}
compdef _cotenant PROGRAM
"""
FISH: Final = """\
function __cotenant_answer
    PROGRAM __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c PROGRAM -f -a '(__cotenant_answer | string match -v -r "^:")'
complete -c PROGRAM -n '__cotenant_answer | string match -q -- ":0"' -F
"""
KUBECTL: Final = """\
#!/bin/sh
# kubectl runs this for `kubectl cotenant …`: put it into the PATH as kubectl_complete-cotenant, executable.
exec PROGRAM __complete "$@"
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH, "kubectl": KUBECTL}


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("completions", help="print a shell script that completes verbs, flags and names")
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="the shell; kubectl: for `kubectl cotenant`")
    parser.set_defaults(run=run)
    hidden = verbs.add_parser("__complete", add_help=False, prefix_chars="\0")
    hidden.add_argument("words", nargs="*")
    hidden.set_defaults(run=complete)


def run(args: argparse.Namespace) -> int:
    from cotenant.cli.main import PLUGIN, program

    print(SCRIPTS[args.shell].replace("PROGRAM", program().replace(PLUGIN, "kubectl-cotenant")), end="")
    return 0


def complete(args: argparse.Namespace) -> int:
    from cotenant.cli.main import build_parser, program

    words = args.words or [""]
    at = position(build_parser(program(), words[0] if len(words) > 1 else "-"), words[:-1])
    for word, about in at.candidates(words[-1]):
        print(f"{word}\t{about}" if about else word)
    print(FILES if at.takes_files(words[-1]) else NO_FILES)
    return 0


@dataclass(slots=True)
class Position:
    """The place of the next word on a command line."""

    parser: argparse.ArgumentParser
    left: list[argparse.Action]
    """The operands that have not been given yet."""
    value_of: argparse.Action | None = None
    """The flag before the word, if its value comes next."""
    given: dict[str, str] = field(default_factory=dict)
    """Values of the given flags, by their names in the parsed arguments."""

    def candidates(self, begun: str) -> Iterator[Candidate]:
        """The words that may stand here and start with this prefix."""
        flag, given, value = begun.partition("=")
        if self.value_of is not None:
            found = values_of(self.value_of, self.given)
        elif given and flag in self.parser._option_string_actions:
            action, begun = self.parser._option_string_actions[flag], value
            found = values_of(action, self.given)
        elif begun.startswith("-"):
            found = _flags(self.parser)
        else:
            found = values_of(self.left[0], self.given) if self.left else ()
        return ((word, about) for word, about in found if word.startswith(begun))

    def takes_files(self, begun: str) -> bool:
        action = self.value_of or (self.left[0] if self.left and not begun.startswith("-") else None)
        return action is not None and any(word in _metavar(action) for word in _IS_FILE)


def position(parser: argparse.ArgumentParser, words: Sequence[str]) -> Position:
    """The place of the word that follows these words."""
    at = Position(parser, _positionals(parser))
    for word in words:
        if at.value_of is not None:
            at.given[at.value_of.dest] = word
            at.value_of = None
        elif word.startswith("-") and word != "-":
            flag, given, value = word.partition("=")
            action = at.parser._option_string_actions.get(flag)
            if action is not None and given:
                at.given[action.dest] = value
            elif action is not None and action.nargs != 0:
                at.value_of = action
        elif at.left:
            action = at.left[0]
            if isinstance(action, argparse._SubParsersAction):
                if word not in action.choices:
                    return Position(parser, [])
                at.parser = action.choices[word]
                at.left = _positionals(at.parser)
            elif action.nargs not in ("*", "+"):
                at.left.pop(0)
    return at


def values_of(action: argparse.Action, given: Mapping[str, str]) -> Iterable[Candidate]:
    """Values that an argument accepts: its choices, or names from the cluster."""
    if isinstance(action, argparse._SubParsersAction):
        return [(one.dest, one.help or "") for one in action._get_subactions()]
    if action.choices is not None:
        return [(str(one), "") for one in action.choices]
    known = NAMES.get(_metavar(action)) or NAMES.get(action.dest.upper())
    return known(given) if known else ()


def _flags(parser: argparse.ArgumentParser) -> Iterator[Candidate]:
    for action in parser._actions:
        if action.option_strings and action.help is not argparse.SUPPRESS:
            yield action.option_strings[-1], (action.help or "").replace("%(default)s", str(action.default))


def _positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _metavar(action: argparse.Action) -> str:
    return action.metavar if isinstance(action.metavar, str) else ""


def _objects(resource: str, given: Mapping[str, str]) -> Iterator[Candidate]:
    """Names of objects, of those in namespaces those of the selected one. Empty if there is no answer."""
    from cotenant.cli.terminal.connection import connect

    flags = argparse.Namespace(**{name: given.get(name) for name in ("namespace", "context", "kubeconfig")})
    try:
        connection = connect(flags, timeout_s=ANSWER_S)
        path = resource.format(namespace=connection.namespace)
        for one in connection.read(f"{path}?limit={NAMED_MAX}").get("items", ()):
            status = one.get("status") or {}
            yield one["metadata"]["name"], str(status.get("phase") or status.get("summary") or "")
    except (UserError, KeyError):
        return


def _contexts(given: Mapping[str, str]) -> Iterator[Candidate]:
    from cotenant.sdk.errors import CredentialsError
    from cotenant.sdk.kubeconfig import contexts

    try:
        yield from contexts(given.get("kubeconfig"))
    except (CredentialsError, KeyError):
        return


_JOBS: Final = partial(_objects, API + "/namespaces/{namespace}/trainingjobs")
NAMES: Final[Mapping[str, Callable[[Mapping[str, str]], Iterable[Candidate]]]] = {
    "JOB": _JOBS,
    "SWEEP": partial(_objects, API + "/namespaces/{namespace}/sweeps"),
    "SESSION": partial(_objects, API + "/namespaces/{namespace}/sessions"),
    "QUEUE": partial(_objects, API + "/queues"),
    "NODE": partial(_objects, API + "/gpunodes"),
    "PROFILE": partial(_objects, API + "/clustertrainingprofiles"),
    "REQUEST": partial(_objects, API + "/namespaces/{namespace}/quotarequests"),
    "MORE": lambda given: [("gpus=", "how many GPUs more; then ,class=… ,zone=… ,user=… ,guaranteed=… ,memory=…")],
    "NAMESPACE": partial(_objects, "/api/v1/namespaces"),
    "CONTEXT": _contexts,
}
"""Placeholder in the help → the function that lists its values."""
