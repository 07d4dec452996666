"""`cotenant crds`: writes the CRDs and docs/api.md from the models and docs/commands.md from the parser, or checks
them.
"""

import argparse
from pathlib import Path

from cotenant.cli.errors import UserError

FOLDERS = ("crds", "charts/cotenant/crds")
FIELDS, COMMANDS = "docs/api.md", "docs/commands.md"


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("crds", help="generate the CRDs, docs/api.md and docs/commands.md from the code")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    what.add_argument("--print", action="store_true", help="print all CRDs, for `kubectl apply -f -`")
    parser.add_argument("--root", type=Path, help="the checkout (default: the one that this program runs from)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cotenant.api.schema import crds, reference
    from cotenant.cli.reference import page

    files = crds.files()
    if args.print:
        print("---\n".join(files.values()), end="")
        return 0
    root = args.root or _checkout()
    wanted = {root / folder / name: text for folder in FOLDERS for name, text in files.items()}
    wanted |= {root / FIELDS: reference.markdown(), root / COMMANDS: page.markdown()}
    if args.check:
        return _check(root, wanted)
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(root)}")
    return 0


def _check(root: Path, wanted: dict[Path, str]) -> int:
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    stray = [path for folder in FOLDERS for path in (root / folder).glob("*.yaml") if path not in wanted]
    if stale or stray:
        paths = ", ".join(str(path.relative_to(root)) for path in [*stale, *stray])
        raise UserError(f"not what the code says: {paths}. Run `make crds`.")
    return 0


def _checkout() -> Path:
    for folder in Path(__file__).resolve().parents:
        if (folder / "pyproject.toml").exists() and (folder / "charts").exists():
            return folder
    raise UserError("this program does not run from a checkout; name one with --root, or use --print")
