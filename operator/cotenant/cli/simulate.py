"""`cotenant simulate -f FILE|-|DIR …`: what would happen to these jobs on these nodes? The operator's own decisions.

`kubectl get nodes,gpunodes,namespaces,queues,trainingjobs,deployments -A -o yaml | cotenant simulate -f -` asks it of a
live cluster, with the settings of the operator's Deployment there; `--settings FILE` asks what others would do.
"""

import argparse
import json
from dataclasses import asdict
from functools import partial


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("simulate", help="play jobs on a virtual clock, with the operator's own decisions")
    parser.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE|-|DIR", help="file, folder, or - for stdin"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="folders below a folder too")
    parser.add_argument(
        "--settings",
        metavar="FILE",
        help="settings of the operator: the chart's values, or the settings by name"
        " (default: those of the operator's Deployment among the documents, if it is there)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print what happens when")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cotenant.cli import installation
    from cotenant.cli.documents import documents_of
    from cotenant.cli.errors import UserError
    from cotenant.controller.settings import Settings
    from cotenant.core import schedule
    from cotenant.simulator import engine, report, scenario

    settings, where = Settings(), "the defaults"
    try:
        documents = list(scenario.flatten(documents_of(args.filename, recursive=args.recursive)))
        read = scenario.read(documents)
        if args.settings:
            where = args.settings
            settings = installation.from_values(next(iter(documents_of([where], recursive=False)), {}), where)
        elif (installed := installation.from_documents(documents)) is not None:
            settings, where = installed
    except ValueError as error:
        raise UserError(str(error)) from error
    changed = installation.changed(settings)
    history = engine.simulate(read, partial(schedule, policy=settings.policy), half_life_s=settings.history_half_life_s)
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
        print("\n".join([*report.as_text(result), f"decided with    {told} ({where})"]))
    return 0
