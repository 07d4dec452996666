"""A command line out of a dataclass, with annotations that are texts by the program's own wish."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time

import numpy as np
import tyro


@dataclasses.dataclass
class Settings:
    out: pathlib.Path
    steps: int = 10
    lr: float = 0.1
    bad_batch: int | None = None


def main(settings: Settings) -> None:
    file = settings.out / "state.json"
    state = json.loads(file.read_text()) if file.exists() else {"step": 0, "weights": [0.0, 0.0]}
    print("starts at", state["step"])
    weights = np.asarray(state["weights"])
    for step in range(state["step"] + 1, settings.steps + 1):
        if step == settings.bad_batch:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        weights -= settings.lr * 2 * (weights - 1)
        aside = file.with_suffix(".new")
        aside.write_text(json.dumps({"step": step, "weights": weights.tolist()}))
        aside.replace(file)
        print("step", step)


if __name__ == "__main__":
    main(tyro.cli(Settings))
