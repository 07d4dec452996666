"""`cotenant submit train.py --workers 4 --gpu 1/2`: makes a job of a script with its folder, or of a manifest.

The verb shows the plan, then asks before it creates the job.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant import names
from cotenant.cli.documents import SUFFIXES, documents_of
from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_USAGE, UserError
from cotenant.cli.queries import whatif
from cotenant.cli.tenants.jobs import FINISHED, Document, exists, phase_of, wait_for
from cotenant.cli.terminal.cluster_verb import cluster_verb
from cotenant.cli.terminal.confirmation import agreed
from cotenant.cli.terminal.connection import Connection, connect
from cotenant.cli.terminal.object_names import ObjectName
from cotenant.cli.terminal.output import as_document
from cotenant.sdk.gpu_request import gpu_amount, gpu_spec
from cotenant.sdk.job_paths import below, core_path, jobs_path, object_path
from cotenant.sdk.working_folder import Folder, FolderError, owned, read_folder

NAME_MAX: Final = 50
LAUNCHERS: Final = ("python", "python3", "bash", "sh", "torchrun", "accelerate", "deepspeed")
"""Programs that may start a command line instead of a script."""
EXIT_FAILED: Final = 1


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(
        verbs,
        "submit",
        run,
        "submit a script with its folder, or a manifest; shows the plan and asks",
        printed=True,
        epilog="Flags go before the script: what follows it is the script's own.",
    )
    parser.add_argument(
        "script",
        metavar="FILE",
        nargs="?",
        help="a script of this folder (.py or .sh), or a command such as python -m mine",
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.add_argument(
        "-f", "--filename", action="append", default=[], metavar="FILE", help="a manifest instead of a script"
    )
    parser.add_argument(
        "--name", metavar="NEW", help="name of the job (default: the script's name and a digest of its folder)"
    )
    parser.add_argument("--queue", metavar="QUEUE", help="queue (default: the one that serves the namespace)")
    parser.add_argument("--profile", metavar="PROFILE", help="profile that fills in what is not given here")
    parser.add_argument("--workers", type=int, metavar="N", help="number of ranks (default: 1, or the profile's)")
    parser.add_argument(
        "--gpu",
        metavar="SIZE",
        help="GPUs of each rank, or a share: 2, 1/2, 0.4, 16Gi, H100:2 (default: 1, or the profile's)",
    )
    parser.add_argument(
        "--gpu-class",
        action="append",
        default=[],
        metavar="CLASS",
        help="acceptable GPU class; may be repeated, best first",
    )
    parser.add_argument("--image", metavar="IMAGE", help="image (default: the cluster's worker image)")
    parser.add_argument("--cpu", metavar="N", help="CPUs of each rank")
    parser.add_argument("--memory", metavar="SIZE", help="host memory of each rank: 16Gi")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="environment variable of the program; may be repeated",
    )
    parser.add_argument("--expected", metavar="TIME", help="expected run time: 2h")
    parser.add_argument(
        "--folder", default=".", metavar="DIR", help="folder that is sent with the script (default: the current one)"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the plan, or with -o the documents, and create nothing"
    )
    parser.add_argument(
        "--wait", action="store_true", help="wait until the job ends; the exit code is 0 if it succeeded"
    )
    parser.add_argument("--follow", action="store_true", help="like --wait, and print the output of its ranks")


@dataclass(frozen=True, slots=True)
class Submission:
    job: dict[str, Any]
    code: dict[str, Any] | None = None
    """The ConfigMap with the folder."""

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [*([self.code] if self.code else []), self.job]


def run(args: argparse.Namespace) -> int:
    if bool(args.script) == bool(args.filename):
        raise UserError("give either a script, or a manifest with -f", EXIT_USAGE)
    connection = connect(args)
    wanted = _of_manifest(args, connection) if args.filename else _of_script(args, connection)
    if args.dry_run and args.output in {"json", "yaml"}:
        print(as_document({"apiVersion": "v1", "kind": "List", "items": wanted.documents}, args.output))
        return 0
    if not args.dry_run:
        refuse_taken(connection, wanted)
    if args.output in {"text", "wide"}:
        for line in plan_of(connection, wanted.job, wide=args.output == "wide"):
            print(line)
    if args.dry_run:
        return 0
    if not args.yes and not agreed("Submit it?"):
        raise UserError("nothing was submitted", EXIT_REFUSED)
    name = made(connection, wanted)
    shown = {"name": f"trainingjob.cotenant.dev/{name.name}"}.get(args.output, f"{name} is submitted.")
    print(shown, flush=True)
    return _attended(args, connection, name) if args.wait or args.follow else 0


def refuse_taken(connection: Connection, wanted: Submission) -> None:
    """Raises UserError if a job with this name exists."""
    metadata = wanted.job["metadata"]
    if metadata.get("name") and exists(connection, there := ObjectName(metadata["namespace"], metadata["name"])):
        again = f"give another --name, or `kubectl cotenant retry {there}` once it is over"
        raise UserError(f"{there} is there already: {again}", EXIT_REFUSED)


def made(connection: Connection, wanted: Submission) -> ObjectName:
    """Create the job, and the objects that it owns: they are deleted with it. Raises UserError."""
    metadata = wanted.job["metadata"]
    job = connection.call("POST", jobs_path(metadata["namespace"]), wanted.job)
    name = ObjectName(metadata["namespace"], job["metadata"]["name"])
    if wanted.code is not None:
        try:
            code = owned(wanted.code, name.name, job["metadata"]["uid"])
            connection.call("POST", core_path(name.namespace, "configmaps"), code)
        except UserError:
            connection.call("DELETE", name.path)  # without its code it would start in vain
            raise
    return name


def plan_of(connection: Connection, job: Document, *, wide: bool = False) -> Iterator[str]:
    """What the operator says would happen to the job, in words. If no operator answers, the job is created anyway."""
    namespace = job["metadata"]["namespace"]
    try:
        answer = whatif.ask(connection, namespace, {"manifest": job})
    except UserError as error:
        if error.exit_code != EXIT_UNAVAILABLE:
            raise
        yield f"The operator gave no plan: {error}"
        return
    yield from whatif.sentences(answer, wide=wide)


def _attended(args: argparse.Namespace, connection: Connection, name: ObjectName) -> int:
    """Follow the job until it has finished."""
    if args.follow:
        from cotenant.cli import main

        begun = wait_for(connection, name, ("Running", *FINISHED), float("inf"), on_change=_say_unless_over)
        place = ["-n", name.namespace, *(["--context", args.context] if args.context else [])]
        place += ["--kubeconfig", args.kubeconfig] if args.kubeconfig else []
        # A short job may be over at the first look: what it printed is there.
        main.main(["logs", name.name, *(["-f"] if phase_of(begun) == "Running" else []), *place])
    job = wait_for(connection, name, FINISHED, float("inf"), on_change=_say)
    return 0 if phase_of(job) == "Succeeded" else EXIT_FAILED


def _say_unless_over(job: Document) -> None:
    """Print how the job ended, below its log."""
    if phase_of(job) not in FINISHED:
        _say(job)


def _say(job: Document) -> None:
    status = job.get("status") or {}
    print(f"{phase_of(job)}: {status.get('message', '')}".rstrip(": "), flush=True)


# -- documents ---------------------------------------------------------------------------------------------------------


def _of_manifest(args: argparse.Namespace, connection: Connection) -> Submission:
    documents = list(documents_of(args.filename, recursive=False))
    jobs = [one for one in documents if one.get("kind") == "TrainingJob"]
    if not jobs:
        found = ", ".join(sorted({str(one.get("kind")) for one in documents})) or "nothing"
        raise UserError(f"{' '.join(args.filename)} has no TrainingJob; it has {found}", EXIT_USAGE)
    if len(jobs) > 1:
        raise UserError(f"there are {len(jobs)} TrainingJobs; submit makes one: kubectl apply makes all", EXIT_USAGE)
    for other in (one for one in documents if one is not jobs[0]):
        what = f"{other.get('kind')} {(other.get('metadata') or {}).get('name')}"
        print(f"{what} is left out: submit makes the TrainingJob alone; kubectl apply makes both", file=sys.stderr)
    job = {**jobs[0], "metadata": {"namespace": connection.namespace, **(jobs[0].get("metadata") or {})}}
    if job.get("apiVersion") in names.API_VERSIONS:
        job["apiVersion"] = names.API_VERSION  # the version of the path that it is sent to
    return Submission(job)


def _of_script(args: argparse.Namespace, connection: Connection) -> Submission:
    root = Path(args.folder)
    try:
        folder = read_folder(root)
        script, command = _command(root, folder, args.script, args.words)
        name = args.name or name_of(script, folder)
        code = folder.config_map(f"{name}-code", connection.namespace)
    except FolderError as error:
        raise UserError(str(error), EXIT_REFUSED) from error
    return Submission(job_of(args, connection, name, command), code)


def _command(root: Path, folder: Folder, first: str, words: Sequence[str]) -> tuple[Path, list[str]]:
    """The job's base name, and what its ranks run: a script of the folder, or a command line that starts with a
    launcher.

    Raises UserError.
    """
    script, files = Path(first), dict(folder.files)
    if script.suffix in SUFFIXES:
        raise UserError(f"{first} is no program; if it is a manifest: kubectl cotenant submit -f {first}", EXIT_USAGE)
    try:
        below = script.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        raise UserError(
            f"{script} is not in the folder that travels, {root.resolve()}: give --folder", EXIT_USAGE
        ) from None
    if below in files:
        return script, folder.command(below, words)
    if first in LAUNCHERS and words:
        return Path(next((one for one in words if one in files), first)), folder.begun([first, *words])
    near = difflib.get_close_matches(below, files, n=1)
    meant = f"; did you mean {near[0]}?" if near else f" (a command begins with one of {', '.join(LAUNCHERS)})"
    raise UserError(f"{script}: there is no such file in what travels{meant}", EXIT_NOT_FOUND)


def job_of(args: argparse.Namespace, connection: Connection, name: str, command: list[str]) -> dict[str, Any]:
    """The document that the flags describe."""
    if args.profile and args.gpu_class and not args.gpu:
        raise UserError("with --gpu-class say --gpu too: the classes go with an amount", EXIT_USAGE)
    shape: dict[str, Any] = {"profile": args.profile} if args.profile else {"workers": 1}
    if args.workers is not None:
        shape["workers"] = args.workers
    if args.gpu or not args.profile:
        shape["gpu"] = gpu_of(args.gpu or "1", args.gpu_class)
    runtime: dict[str, Any] = {"command": command, "code": {"configMap": {"name": f"{name}-code"}}}
    if args.image:
        runtime["image"] = args.image
    if args.env:
        runtime["env"] = [_variable(text) for text in args.env]
    spec: dict[str, Any] = {
        "queue": args.queue or queue_of(connection),
        **shape,
        "runtime": runtime,
    }
    resources = {key: value for key, value in (("cpu", args.cpu), ("memory", args.memory)) if value}
    if resources:
        spec["resources"] = resources
    if args.expected:
        spec["expectedRuntime"] = args.expected
    metadata = {"name": name, "namespace": connection.namespace}
    return {"apiVersion": names.API_VERSION, "kind": "TrainingJob", "metadata": metadata, "spec": spec}


def gpu_of(text: str, classes: Sequence[str] = ()) -> dict[str, Any]:
    """The GPU request of a text as the SDK reads it, with the classes of --gpu-class. Raises UserError."""
    try:
        gpu = gpu_spec(text) if ":" in text else gpu_amount(text, text)
    except ValueError as error:
        raise UserError(f"--gpu {str(error).removeprefix('gpu: ')}", EXIT_USAGE) from None
    if classes and "classes" in gpu:
        raise UserError(f"--gpu {text} names a class: leave --gpu-class out, or name all classes there", EXIT_USAGE)
    return gpu | ({"classes": [*classes]} if classes else {})


def queue_of(connection: Connection) -> str:
    """The queue that serves the namespace. Raises UserError if there is none or more than one."""
    try:
        found = connection.get(below("", connection.namespace, "offers"))["items"]
    except UserError as error:
        if error.exit_code != EXIT_UNAVAILABLE:
            raise
        # The operator does not answer now; what it wrote into the namespace says it too.
        found = connection.read(object_path("localqueues", connection.namespace))["items"]
    queues = [one["metadata"]["name"] for one in found]
    if len(queues) != 1:
        missing = f"no queue serves namespace {connection.namespace}: ask an administrator for one"
        several = f"give --queue: several queues serve namespace {connection.namespace}: {', '.join(queues)}"
        raise UserError(several if queues else missing, EXIT_USAGE)
    return str(queues[0])


def name_of(script: Path, folder: Folder) -> str:
    """The job's name: script name and digest of the folder. Another content of the folder gives another job."""
    stem = re.sub(r"[^a-z0-9]+", "-", script.stem.lower()).strip("-")
    if not stem[:1].isalpha():
        stem = f"job-{stem}".rstrip("-")
    return f"{stem[: NAME_MAX - 5 - len(folder.digest) - 1].rstrip('-')}-{folder.digest}"


def _variable(text: str) -> Mapping[str, str]:
    name, given, value = text.partition("=")
    if not name or not given:
        raise UserError(f"--env {text}: give NAME=VALUE", EXIT_USAGE)
    return {"name": name, "value": value}
