"""One rank that does what it is told: the words after the file name."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cotenant_worker

deed, *rest = sys.argv[1:] or [""]


def kill_from_outside() -> None:
    """Another program kills it: a program that kills itself is to blame."""
    subprocess.run(["kill", "-KILL", str(os.getpid())], check=True)


def twice(number: int) -> int:
    return 2 * number


def where(_: int) -> str:
    return os.getcwd()


def wait_for_data() -> None:
    time.sleep(600)


def write_step(directory: Path) -> None:
    (directory / "step").write_text("x")


def main() -> dict[str, float | str]:
    for step in range(1, 41):  # faster than reports are sent: the last one must not be lost
        cotenant_worker.report(step=step, of=40, metrics={"loss": 0.25})
    return {"accuracy": 0.97, "note": "fine"}


if __name__ == "__main__":
    match deed:
        case "exit":
            print("about to leave")
            sys.exit(int(rest[0]))
        case "raise":
            raise ValueError("the learning rate is negative")
        case "die":
            os.kill(os.getpid(), int(rest[0]))
        case "environment":
            print("\n".join(f"{name}={os.environ.get(name)}" for name in rest), flush=True)
        case "unended":
            print("no end", end="")
            if rest[0] == "at once":
                os._exit(3)
        case "once":
            if cotenant_worker.context().restart == 0:
                kill_from_outside()
            print(f"start {cotenant_worker.context().restart}")
        case "stop":
            saver = cotenant_worker.Saver()
            print("ready", flush=True)
            for step in range(1, 100_000):
                cotenant_worker.report(step=step)
                if cotenant_worker.should_stop():
                    saver.save(step, write_step)
                    sys.exit(0)
                time.sleep(0.01)
        case "ignore":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            cotenant_worker.report(step=1)
            time.sleep(600)
        case "stand":
            cotenant_worker.report(step=12)
            wait_for_data()
        case "spawn":
            with multiprocessing.get_context(rest[0]).Pool(2) as pool:
                print(
                    sorted(pool.map(twice, [1, 2])), "children in", {*pool.map(where, [1])} == {os.getcwd()}, flush=True
                )
        case "bar":
            for step in range(200):
                sys.stdout.write(f"\r{step} of 200" + " " * 10_000)
            sys.stdout.write("\rdone")
            sys.exit(3)
        case "background":
            subprocess.Popen(["sleep", "600"])
        case "orphan":
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(600)
                os._exit(0)
            os.wait()
            print("left an orphan")
