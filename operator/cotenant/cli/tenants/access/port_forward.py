"""`cotenant port-forward JOB PORT`: forwards a port of one rank to this machine: TensorBoard, a notebook, a
debugger.
"""

from __future__ import annotations

import argparse
import re
import sys

from cotenant.cli.errors import EXIT_USAGE, UserError
from cotenant.cli.tenants.pods import kubectl, pod_of_rank
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.object_names import named


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "port-forward", run, "forward a port of a rank of a job to this machine")
    parser.add_argument("job", metavar="JOB", help="NAME, or NAMESPACE/NAME")
    parser.add_argument(
        "words", metavar="PORT", nargs="+", help="the port, or the port here and the port in the pod: 6006, 8080:6006"
    )
    parser.add_argument("--rank", type=int, default=0, metavar="N", help="the rank (default: 0)")


def run(args: argparse.Namespace) -> int:
    for text in args.words:
        if not re.fullmatch(r"\d{1,5}(:\d{1,5})?", text):
            raise UserError(f"{text} is no port: give 6006, or 8080:6006", EXIT_USAGE)
    connection, name = named(args, args.job)
    pod = pod_of_rank(connection, name, args.rank)
    print(f"{name}: rank {args.rank} is in pod {pod.name}", file=sys.stderr, flush=True)
    return kubectl(args, name.namespace, ["port-forward", f"pod/{pod.name}", *args.words])
