"""PID 1 of a test's sandbox: what the cluster's supervisor does for one node's runtime, and nothing else.

Usage: python init.py CONFIG NODE_ADDRESS. Brings `lo` up, adds the address, starts the runtime, again when it ends,
reaps everything.
"""

import os
import subprocess
import sys
from pathlib import Path


def main() -> None:
    config, address = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    while True:
        runtime = subprocess.Popen([sys.executable, "-m", "cotenant_local.runtime", "--config", config])
        while os.wait()[0] != runtime.pid:
            pass


if __name__ == "__main__":
    main()
