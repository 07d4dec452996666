"""`cotenant local …`: a real Kubernetes on this machine."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant_local.cli import extra

if TYPE_CHECKING:
    from cotenant_local.cluster.spec import ClusterSpec

DESCRIPTION = """\
A whole, real Kubernetes on this machine, without Docker and without root: etcd, API server, scheduler, controller
manager, one kubelet per node, kube-proxy, CoreDNS. Built once, up in seconds, gone without a trace."""


FAULTS: tuple[tuple[str, type, str], ...] = (
    ("latency-ms", int, "added to every request"),
    ("jitter-ms", int, "up to this much more"),
    ("error-rate", float, "0 to 1: refused before the API server sees them"),
    ("lost-rate", float, "0 to 1: carried out, but the answer is lost"),
    ("cuts-per-min", float, "how often a watch breaks"),
    ("seed", int, "the same seed, the same fates in the same order"),
    ("only-user-like", str, "only clients with this in their User-Agent"),
)


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("local", help="run a real Kubernetes on this machine", description=DESCRIPTION)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(
        name: str, run: Callable[[argparse.Namespace], int], text: str, *, named: bool = True
    ) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if named:
            added.add_argument("--name", default="default", help="the cluster's name (default: %(default)s)")
        added.set_defaults(run=_with_extra(run))
        return added

    _up_arguments(action("up", _up, "start a cluster and print the path of its kubeconfig"))
    action("down", _down, "end a cluster and remove what it kept").add_argument(
        "--all", action="store_true", help="end all clusters of this user"
    )
    action("status", _status, "show the nodes and components of a cluster").add_argument(
        "-o", "--output", choices=("text", "json"), default="text"
    )
    logs = action("logs", _logs, "print the log of a component, for example kube-scheduler or node-1/kubelet")
    logs.add_argument("component", nargs="?", help="name of the component (default: list them)")
    logs.add_argument("-f", "--follow", action="store_true", help="keep printing new lines")
    action("kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    action("shell", _shell, "open a shell with KUBECONFIG set and kubectl and helm on PATH")
    for program in ("kubectl", "helm"):
        tool = action(program, _tool, f"run {program} on the cluster: cotenant local {program} -- ARGUMENTS")
        tool.add_argument("arguments", nargs=argparse.REMAINDER)
        tool.set_defaults(program=program)
    node = action("node", _node, "make a node fail, and bring it back")
    node.add_argument(
        "fault",
        choices=("stop", "freeze", "isolate", "restore"),
        help="stop: power off; freeze: stop all processes; isolate: cut off from the API server; restore: undo all",
    )
    node.add_argument("node", metavar="NODE")
    faults = action("faults", _faults, "make the API server fail; without options: end all faults")
    faults.epilog = "Pods and clients outside meet the faults; the cluster's own components do not."
    for option, kind, text in FAULTS:
        faults.add_argument(f"--{option}", type=kind, metavar=kind.__name__.upper(), help=text)
    faults.add_argument(
        "--error-codes",
        metavar="CODES",
        help="codes of refused requests, among 409,429,500,503,504 (default: 409,429,500)",
    )
    _build_arguments(action("build", _build, "build the programs now, without starting a cluster", named=False))


def _up_arguments(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_argument_group("nodes")
    shape.add_argument("--nodes", type=int, default=1, metavar="N", help="number of nodes (default: %(default)s)")
    shape.add_argument("--gpus", type=int, default=0, metavar="N", help="simulated GPUs on each node")
    shape.add_argument("--gpu-class", default="H100", metavar="CLASS", help="(default: %(default)s)")
    shape.add_argument("--gpu-memory", default="80Gi", metavar="SIZE", help="(default: %(default)s)")
    shape.add_argument("--config", type=Path, metavar="FILE", help="YAML file that describes nodes of different kinds")
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="folder that keeps the cluster's state between `down` and `up`"
    )


def _build_arguments(parser: argparse.ArgumentParser) -> None:
    packages = parser.add_mutually_exclusive_group()
    packages.add_argument(
        "--package",
        type=Path,
        metavar="DIR",
        help="write the programs as a package into DIR, for machines like this one",
    )
    packages.add_argument("--from", dest="source", metavar="PATH|URL", help="take the programs from such a package")
    parser.add_argument(
        "--sha256", metavar="HEX", help="SHA-256 of the package (default: the content of PATH|URL.sha256)"
    )


def _with_extra(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def checked(args: argparse.Namespace) -> int:
        extra.require()
        return run(args)

    return checked


def _up(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    cluster = lifecycle.up(args.name, _spec(args), keep_in=args.state)
    print(cluster.kubeconfig)
    return 0


def _spec(args: argparse.Namespace) -> "ClusterSpec":
    from cotenant_local.cluster import spec

    if args.config:
        return spec.load(args.config)
    return spec.uniform(args.nodes, args.gpus, args.gpu_class, args.gpu_memory)


def _down(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    if args.all:
        for name in lifecycle.known():
            lifecycle.down(name)
            print(f"cluster {name} is down", file=sys.stderr)
        return 0
    there = lifecycle.down(args.name)
    print(f"cluster {args.name} {'is down' if there else 'was not up'}", file=sys.stderr)
    return 0


def _status(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle, reports

    status = lifecycle.status(args.name)
    print(reports.as_json(status) if args.output == "json" else reports.as_text(status))
    return 0


def _logs(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import reports

    return reports.logs(args.name, args.component, follow=args.follow)


def _kubeconfig(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    print(lifecycle.find(args.name).kubeconfig)
    return 0


def _shell(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    cluster = lifecycle.find(args.name)
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    environment["PATH"] = f"{environment.get('PATH', os.defpath)}:{lifecycle.tools_folder(cluster)}"
    shell = os.environ.get("SHELL", "/bin/sh")
    print(f"KUBECONFIG={cluster.kubeconfig}; leave with exit", file=sys.stderr)
    os.execvpe(shell, [shell], environment)


def _tool(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    arguments = args.arguments[1:] if args.arguments[:1] == ["--"] else args.arguments
    command = lifecycle.find(args.name).command(args.program, *arguments)
    os.execv(command[0], command)


def _node(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    lifecycle.find(args.name).node(args.fault, args.node)
    return 0


def _faults(args: argparse.Namespace) -> int:
    from cotenant_local.cluster import lifecycle

    names = [option.replace("-", "_") for option, _, _ in FAULTS]
    wanted = {name: value for name in names if (value := getattr(args, name)) is not None}
    if args.error_codes:
        wanted["error_codes"] = args.error_codes.split(",")
    lifecycle.find(args.name).api_faults(**wanted)
    return 0


def _build(args: argparse.Namespace) -> int:
    from cotenant_local.programs import build, package

    if args.package:
        print(package.write(args.package))
    else:
        print(package.read(args.source, args.sha256) if args.source else build.programs())
    build.stubs_path()
    return 0
