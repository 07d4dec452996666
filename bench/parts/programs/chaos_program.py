"""Program that adds known numbers up over all ranks, and saves. Arguments: torch, own or servers; steps.

The sum does not depend on how often it was interrupted or how many ranks there were, unless something was lost or
done twice.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from chaos_sums import sum_up, summand

from cotenant_worker import Saver, context, report, results, should_stop

EVERY = 10


def main(kind: str, steps: int) -> None:
    saver = Saver()
    found = saver.latest()
    state: dict[str, Any] = json.loads((found.path / "state.json").read_text()) if found else {"step": 0, "value": 0.0}
    rank, size = context().rank, context().world_size
    print(f"rank {rank} of {size} starts at {state['step']}", flush=True)

    def save(directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps(state))

    add = sum_up(kind, state["value"])
    for step in range(state["step"] + 1, steps + 1):
        # Only the mean over all ranks is right: each rank is off by its distance from the middle.
        state = {"step": step, "value": add(summand(step) + rank - (size - 1) / 2)}
        report(step=step, of=steps)
        if step % EVERY == 0:
            saver.save(step, save)
        if should_stop():
            saver.save(step, save)
            sys.exit(0)
        time.sleep(0.05)
    results({"value": state["value"]})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
