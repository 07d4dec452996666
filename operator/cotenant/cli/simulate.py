"""`cotenant simulate -f FILE|-|DIR …`: what would happen to these jobs on these nodes? The operator's own decisions.

`kubectl get nodes,gpunodes,namespaces,queues,trainingjobs -A -o yaml | cotenant simulate -f -` asks it of a
live cluster.
"""

import argparse
import json
from dataclasses import asdict


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("simulate", help="play jobs on a virtual clock, with the operator's own decisions")
    parser.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE|-|DIR", help="file, folder, or - for stdin"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="folders below a folder too")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what happens when")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cotenant.cli.documents import documents_of
    from cotenant.cli.errors import UserError
    from cotenant.core import schedule
    from cotenant.simulator import engine, report, scenario

    try:
        read = scenario.read(documents_of(args.filename, recursive=args.recursive))
    except ValueError as error:
        raise UserError(str(error)) from error
    history = engine.play(read, schedule)
    if args.verbose:
        for at, line in history.log:
            print(f"{at - history.start:10.0f} s  {line}")
    result = report.summarise(read, history)
    print(json.dumps(asdict(result)) if args.output == "json" else "\n".join(report.lines(result)))
    return 0
