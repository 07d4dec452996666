"""An `nvidia-smi` that sets compute modes in the state of the fake NVML library: `--id=UUID --compute-mode=MODE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

MODES = {"DEFAULT": 0, "EXCLUSIVE_PROCESS": 3}


def main(arguments: list[str]) -> None:
    asked = dict(word.removeprefix("--").split("=", 1) for word in arguments)
    state = Path(os.environ["FAKE_NVML_STATE"])
    lines = state.read_text().splitlines()
    (index,) = [line.split()[1] for line in lines if line.startswith("gpu ") and f" {asked['id']}|" in line]
    kept = [line for line in lines if not line.startswith(f"mode {index} ")]
    unfinished = state.with_suffix(".smi")
    unfinished.write_text("\n".join([*kept, f"mode {index} {MODES[asked['compute-mode']]}"]) + "\n")
    unfinished.rename(state)


if __name__ == "__main__":
    main(sys.argv[1:])
