"""`cotenant demo`: three jobs of two tenants share two simulated GPUs on a real Kubernetes on this machine."""

import argparse
from pathlib import Path

from cotenant_local.cli import extra


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("demo", help="let two tenants share two simulated GPUs on a Kubernetes of this machine")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up and print its kubeconfig")
    parser.add_argument("--name", default="demo", help="name of the local cluster (default: demo)")
    parser.add_argument(
        "--still", type=Path, metavar="FILE.svg", help="write a picture of the demo at its most interesting moment"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    extra.require()
    from cotenant_local.demo import story

    return story.run(story.DemoOptions(keep=args.keep, name=args.name, still=args.still))
