"""`ray start` without Ray's client server: where an image has grpcio, Ray would open port 10001, a process behind it.

Run as `python -m cotenant_worker.raystart start …` by the launcher; there is no option of Ray's own that says so.
"""

import sys

if __name__ == "__main__":
    # Ray looks for grpc to decide; nothing else that `ray start` itself does needs it.
    sys.modules["grpc"] = None  # type: ignore[assignment]
    from ray.scripts.scripts import main

    sys.exit(main())
