"""Networks, ports and names in texts, separated by commas: values of the operator's settings."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator

HIGHEST_PORT = 65_535


def listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _networks(text: str) -> str:
    for part in listed(text):
        try:
            ip_network(part)
        except ValueError as error:
            raise ValueError(f"has {part!r}, which is no network: {error}; write 10.20.0.0/16 or fd00::/8") from error
    return text


def _ports(text: str) -> str:
    for part in listed(text):
        if not (part.isdecimal() and 0 < int(part) <= HIGHEST_PORT):
            raise ValueError(f"has {part!r}, which is no port; write numbers such as 53,5353")
    return text


Networks = Annotated[str, AfterValidator(_networks)]
Ports = Annotated[str, AfterValidator(_ports)]
