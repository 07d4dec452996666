"""`cotenant sweep`: sweeps with their best trials; `sweep NAME`: the trials of one, the best first."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.connection import connect
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.output import Colour, object_table, painted, table
from cotenant.cli.terminal.watch import show_found
from cotenant.sdk.job_paths import object_path

HEADER = ("NAME", "PHASE", "ALGORITHM", "TRIALS", "RUNNING", "FAILED", "BEST", "BEST JOB")
COLOURS = {"Succeeded": Colour.GREEN, "Failed": Colour.RED, "Stopped": Colour.YELLOW}
Sweep = Mapping[str, Any]


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "sweep",
        run,
        "list sweeps with their best trial, or the trials of one sweep, the best first",
        all_namespaces=True,
        watched=True,
    )
    parser.add_argument(
        "sweep", metavar="SWEEP", nargs="?", help="list the trials of this sweep: NAME, or NAMESPACE/NAME"
    )


def run(args: argparse.Namespace) -> int:
    if args.sweep:
        connection, name = named(args, args.sweep, "sweep")
        return show_found(args, partial(connection.read, name.path), lambda found, _: sentences(found))
    connection = connect(args)
    everywhere: bool = args.all_namespaces
    read = partial(connection.read, object_path("sweeps", "" if everywhere else connection.namespace))
    return show_found(args, read, lambda found, _: [as_table(found["items"], namespaces=everywhere)])


def as_table(sweeps: list[Sweep], *, namespaces: bool) -> str:
    if not sweeps:
        return "There is no sweep here."
    return object_table(HEADER, sweeps, cells, namespaces=namespaces)


def cells(sweep: Sweep) -> tuple[str, ...]:
    status = sweep.get("status") or {}
    counts, best = status.get("counts") or {}, status.get("best") or {}
    return (
        sweep["metadata"]["name"],
        _phase(status.get("phase", "")),
        sweep["spec"]["algorithm"],
        status.get("summary", ""),
        str(counts.get("running", 0)),
        str(counts.get("failed", 0)),
        status.get("bestValue", ""),
        best.get("job", ""),
    )


def sentences(sweep: Sweep) -> Iterator[str]:
    """One sweep in words, and a table of its trials."""
    status, spec, metadata = sweep.get("status") or {}, sweep["spec"], sweep["metadata"]
    name = painted(f"{metadata['namespace']}/{metadata['name']}", Colour.BOLD)
    yield f"{name} {_phase(status.get('phase', 'waits for the operator'))}: {status.get('message', '')}".rstrip(" :")
    best = status.get("best")
    if best:
        values = " ".join(f"{key}={value}" for key, value in best.get("parameters", {}).items())
        yield f"Best: {best['job']} {values}"
        if best.get("checkpoint"):
            saved = f", step {best['checkpointStep']}" if "checkpointStep" in best else ""
            yield f"Its checkpoints: {best['checkpoint']}{saved}"
    trials = sorted(status.get("trials", {}).items(), key=lambda one: _order(one, spec["objective"]["goal"]))
    if trials:
        parameters = [one["name"] for one in spec.get("parameters") or ()]
        header = ("TRIAL", "PHASE", spec["objective"]["metric"].upper(), "STEP", *parameters, "WHY")
        yield table(header, [_trial(number, trial, parameters) for number, trial in trials])


def _trial(number: str, trial: Mapping[str, Any], parameters: list[str]) -> tuple[str, ...]:
    value = trial.get("value")
    return (
        number,
        _phase(trial["phase"]),
        "" if value is None else f"{value:.6g}",
        str(trial.get("step", "")),
        *(_short(trial.get("parameters", {}).get(name, "")) for name in parameters),
        trial.get("message", ""),
    )


def _short(value: str) -> str:
    """A parameter with six digits. The line of the best trial has all of them."""
    return f"{float(value):.6g}" if re.fullmatch(r"-?[0-9]+\.[0-9]{7,}(e[-+]?[0-9]+)?", value) else value


def _order(one: tuple[str, Mapping[str, Any]], goal: str) -> tuple[int, float, int]:
    """Sort key: trials that ran to their end, the best first, then the others by number."""
    number, trial = one
    value = trial.get("value")
    if trial["phase"] != "Succeeded" or value is None:
        return 1, 0.0, int(number)
    return 0, -value if goal == "Maximize" else value, int(number)


def _phase(phase: str) -> str:
    return painted(phase, COLOURS[phase]) if phase in COLOURS else phase
