"""`cotenant validate -f FILE|-|DIR …`: are these documents what the API server would take? No cluster is asked."""

import argparse
import sys
from typing import TYPE_CHECKING

from cotenant.cli.documents import texts
from cotenant.cli.errors import UserError

if TYPE_CHECKING:
    from cotenant.api.conversion.yaml_text import YamlDocument


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("validate", help="check TrainingJobs and Queues without a cluster")
    parser.add_argument(
        "-f", "--filename", action="append", required=True, metavar="FILE|-|DIR", help="file, folder, or - for stdin"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="folders below a folder too")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only what is wrong")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cotenant.api.validation.errors import DocumentError

    seen = refused = 0
    for where, text in texts(args.filename, recursive=args.recursive):
        try:
            lines = [_verdict(where, document) for document in _documents(text, where)]
        except DocumentError as error:
            lines = [(False, str(error))]
        for good, line in lines:
            seen += 1
            refused += not good
            if not (good and args.quiet):
                print(line, file=sys.stdout if good else sys.stderr)
    if not seen:
        raise UserError("there is no document in what was named")
    return 1 if refused else 0


def _verdict(where: str, document: "YamlDocument") -> tuple[bool, str]:
    from cotenant.api.conversion.decode import check

    place = f"{where}:{document.line}"
    found = check(document.body)
    if found.problems:
        problems = "".join(f"\n  {problem}" for problem in found.problems)
        return False, f"{place}: {found.name} is refused{problems}"
    return True, f"{place}: {found.name} {'is valid' if found.ours else 'is not of cotenant.dev: not checked'}"


def _documents(text: str, where: str) -> "list[YamlDocument]":
    from cotenant.api.conversion.yaml_text import read_documents

    return list(read_documents(text, where))
