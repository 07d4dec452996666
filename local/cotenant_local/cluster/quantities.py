"""Kubernetes quantities of memory, as far as cluster files use them: "512Mi", "80Gi", "1000000"."""

import re

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def to_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kMGT]?|[KMGT]i)", text)
    if not match:
        raise ValueError(f"{text!r} is not an amount of memory such as 512Mi or 80Gi")
    return int(match[1]) * UNITS[match[2]]
