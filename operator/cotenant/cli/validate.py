"""`cotenant validate FILE|-|DIR …`: checks if the API server would accept these documents, without asking a cluster."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cotenant.cli.documents import texts
from cotenant.cli.errors import EXIT_USAGE, UserError

if TYPE_CHECKING:
    from cotenant.api.conversion.yaml_text import YamlDocument

CHARS_MAX = 2000
"""At most this many characters of a field and of a message are printed."""
REFUSED = 1
"""Exit code if a document is refused or if there is none."""


@dataclass(frozen=True)
class _Verdict:
    """The verdict on one document, or on a text that is not one. `problems`: (line, field, message) of each."""

    file: str
    line: int
    document: str
    verdict: str
    problems: tuple[tuple[int, str, str], ...] = ()

    def lines(self) -> str:
        problems = (
            f"\n  line {line}: {f'{field}: ' if field else ''}{message}" for line, field, message in self.problems
        )
        return f"{self.file}:{self.line}: {self.document} {self.verdict}{''.join(problems)}"

    def entry(self) -> dict[str, Any]:
        problems = [{"line": line, "field": field, "message": message} for line, field, message in self.problems]
        return {
            "file": self.file,
            "line": self.line,
            "document": self.document,
            "verdict": self.verdict,
            "problems": problems,
        }


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser(
        "validate",
        help="check TrainingJobs and Queues without a cluster",
        epilog="Exit code: 0 when all are valid, 1 when one is refused or there is none.",
    )
    what = "file, folder, or - for stdin"
    parser.add_argument("files", nargs="*", metavar="FILE|-|DIR", help=what)
    parser.add_argument(
        "-f", "--filename", action="append", default=[], metavar="FILE|-|DIR", help=f"{what}, as kubectl takes it"
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="include folders below a folder")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only problems")
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="form of the output; json: a list with an entry for each document",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    named = [*args.files, *args.filename]
    if not named:
        raise UserError("name what to check: `cotenant validate FILE`, a folder, or - for stdin", EXIT_USAGE)
    found = [one for where, text in texts(named, recursive=args.recursive) for one in _verdicts(text, where)]
    if not found:
        raise UserError("there is no document in what was named")
    shown = [one for one in found if one.problems or not args.quiet]
    if args.output == "json":
        print(json.dumps([one.entry() for one in shown], indent=2))
    else:
        for one in shown:
            print(one.lines(), file=sys.stderr if one.problems else sys.stdout)
    return REFUSED if any(one.problems for one in found) else 0


def _verdicts(text: str, where: str) -> Iterator[_Verdict]:
    from cotenant.api.conversion.yaml_text import read_documents
    from cotenant.api.validation.problems import DocumentError

    try:
        for document in read_documents(text):
            yield _verdict(where, document)
    except DocumentError as error:
        (problem,) = error.problems
        yield _Verdict(
            where, problem.line, "the text", "is not YAML", ((problem.line, problem.field, problem.message),)
        )


def _verdict(where: str, document: "YamlDocument") -> _Verdict:
    from cotenant.api.conversion.decode import check
    from cotenant.contract.decoding.plain_text import plain_text

    found = check(document.body)
    if found.problems:
        places = ((document.line_of(problem.field), problem) for problem in found.problems)
        problems = tuple(
            sorted((at, plain_text(one.field, CHARS_MAX), plain_text(one.message, CHARS_MAX)) for at, one in places)
        )
        return _Verdict(where, document.line, found.name, "is refused", problems)
    instead = f"; here it is a {found.instead} (docs/switching.md)" if found.instead else ""
    return _Verdict(
        where, document.line, found.name, "is valid" if found.ours else f"is not of cotenant.dev: not checked{instead}"
    )
