"""`cotenant simulate -f FILE
- |DIR …`: what the operator would decide for these jobs on these nodes.

`kubectl get nodes,gpunodes,namespaces,queues,trainingjobs,ctp,tp,priorityclasses,deployments -A -o yaml |
cotenant simulate -f -` simulates a live cluster with the settings of its operator. `--settings FILE` uses other
settings. `--trace FILE` replays a recorded workload: see `trace_replay`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from cotenant.cli.simulation import trace_replay

if TYPE_CHECKING:
    from cotenant.controller.settings import Settings
    from cotenant.simulator.scenario import Scenario


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("simulate", help="run jobs on a virtual clock, with the operator's own decisions")
    parser.add_argument(
        "-f", "--filename", action="append", metavar="FILE|-|DIR", help="documents: file, folder, or - for stdin"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include folders below a folder")
    parser.add_argument(
        "--settings",
        metavar="FILE",
        help="file with settings of the operator: the chart's values, or settings by name"
        " (default: those of the operator's Deployment among the documents, if it is there)",
    )
    parser.add_argument(
        "--replay",
        action="store_true",
        help="jobs arrive when they were created; finished jobs too, which run as long as they ran"
        " (default: all that still have to run are there at the moment of the documents)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print every event with its time")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    trace_replay.add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cotenant.cli.documents import documents_of
    from cotenant.cli.errors import UserError
    from cotenant.simulator import scenario

    if not args.trace and not args.filename:
        raise UserError("nothing to simulate: give documents (-f FILE) or a trace (--trace FILE)", exit_code=2)
    try:
        documents = list(scenario.flatten(documents_of(args.filename or (), recursive=args.recursive)))
        settings, where = settings_of(args, documents)
        if args.trace:
            return trace_replay.run(args, settings, documents)
        read = scenario.read(documents, replay=args.replay)
    except ValueError as error:
        raise UserError(str(error)) from error
    for note in read.notes:
        print(f"note: {note}", file=sys.stderr)
    return play(args, read, settings, where)


def settings_of(args: argparse.Namespace, documents: list[Mapping[str, Any]]) -> tuple[Settings, str]:
    """The settings that the simulation uses, and their source."""
    from cotenant.cli.documents import documents_of
    from cotenant.cli.simulation import installation
    from cotenant.controller.settings import Settings

    if args.settings:
        body = next(iter(documents_of([args.settings], recursive=False)), {})
        return installation.from_values(body, args.settings), args.settings
    return installation.from_documents(documents) or (Settings(), "the defaults")


def play(args: argparse.Namespace, read: Scenario, settings: Settings, where: str) -> int:
    from cotenant.cli.simulation import installation
    from cotenant.core.scheduling.scheduler import schedule
    from cotenant.simulator import engine, report

    changed = installation.changed(settings)
    history = engine.simulate(
        read,
        partial(schedule, policy=settings.policy),
        half_life_s=settings.history_half_life_s,
        pace=engine.Pace(tick_s=60.0),  # a protected time comes to its end while nothing else happens
    )
    if args.verbose:
        for at, line in history.log:
            print(f"{at - history.start:10.0f} s  {line}")
    result = report.summarise(read, history)
    if args.output == "json":
        print(json.dumps(asdict(result) | {"settings": changed}))
    else:
        told = (
            ", ".join(f"{name}={value}" for name, value in changed.items()) or "nothing that differs from the defaults"
        )
        print("\n".join([*report.as_text(result), f"settings        {told} ({where})"]))
    return 0
