"""Imports modules as if only the packages of one requirement file were installed. Arguments: the file, module names.

Distributions that the file does not name are hidden: their modules are not found, as in an environment of that extra
alone. Prints a JSON object: module → the error of its import, for those that failed.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import re
import sys
from pathlib import Path

OURS = {"cotenant", "cotenant_worker", "cotenant_agent", "cotenant_local"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Hidden(importlib.abc.MetaPathFinder):
    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._environment = set(sys.path)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._names:
            return None
        # A distribution may carry a copy of another in a folder that it puts on the path: Ray does so with psutil.
        carried = [entry for entry in sys.path if entry not in self._environment]
        spec = importlib.machinery.PathFinder.find_spec(fullname, carried)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return spec


def main() -> None:
    requirements, *modules = sys.argv[1:]
    allowed = {canonical(line.split("==")[0]) for line in Path(requirements).read_text().splitlines() if "==" in line}
    hidden = {
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if module not in OURS and not {canonical(name) for name in distributions} & allowed
    }
    sys.meta_path.insert(0, Hidden(hidden))
    failed = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            failed[module] = f"{type(error).__name__}: {error}"
    print(json.dumps(failed))


main()
