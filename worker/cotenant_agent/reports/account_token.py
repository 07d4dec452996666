"""The token of the agent's account, read from its file for every call: the kubelet replaces it every few minutes.

The kubernetes client reads the file again after a minute by the node's clock. If that clock is set back after the start
of the agent, as by NTP after a boot with a wrong hardware clock, it would show an expired token until the clock has
caught up.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final

from kubernetes.client import Configuration

TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def read_for_every_call(token: Path = TOKEN) -> None:
    """Make all clients from now on read the token so. Their configuration was loaded from the account before."""

    def read(configuration: Any) -> None:
        with contextlib.suppress(OSError):  # the token that is known may still do
            for name in configuration.api_key:
                configuration.api_key[name] = f"Bearer {token.read_text().strip()}"

    configuration = Configuration.get_default_copy()
    configuration.refresh_api_key_hook = read
    Configuration.set_default(configuration)
