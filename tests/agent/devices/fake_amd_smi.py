"""An `amd-smi` whose GPUs are in the folder `FAKE_AMD_SMI`: `static.json` and `metric.json`, printed as they are.

Like the real one it takes no words that it does not know, and fails where it finds no driver (no such file).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

KNOWN = {
    "static": {"--asic", "--bus", "--vram", "--driver", "--json"},
    "metric": {"--usage", "--power", "--temperature", "--mem-usage", "--ecc", "--json"},
}


def main(arguments: list[str]) -> None:
    about, *flags = arguments
    if about not in KNOWN or set(flags) - KNOWN[about] or "--json" not in flags:
        sys.exit(f"AMDSMI-CLI: unknown arguments {arguments}")
    try:
        sys.stdout.write((Path(os.environ["FAKE_AMD_SMI"]) / f"{about}.json").read_text())
    except FileNotFoundError:
        sys.exit("ERROR: amdgpu driver not initialized")


if __name__ == "__main__":
    main(sys.argv[1:])
