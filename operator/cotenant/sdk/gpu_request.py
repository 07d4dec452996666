"""GPUs of one worker as people type them: `2`, `"1/2"`, `"16Gi"`, `"H100:8"`, `["H100:1", "A100:1"]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

GpuText: TypeAlias = int | float | str
_RATIO: Final = re.compile(r"([0-9]+)/([0-9]+)")
_MEMORY: Final = re.compile(r"[0-9.]+(Ki|Mi|Gi|Ti|k|M|G|T)B?")
MILLI: Final = 1000
SMALLEST: Final = "the smallest share is 0.001"


def gpu_spec(asked: GpuText | Sequence[str]) -> dict[str, Any]:
    """`spec.gpu` of a TrainingJob: whole GPUs, or a share by memory.

    The entries of a list are alternatives, best first. They name classes and ask for the same amount. Raises
    ValueError.
    """
    if isinstance(asked, int | float | str):
        classes, amount = _split(asked)
        return amount | ({"classes": classes} if classes else {})
    parts = [_split(one) for one in asked]
    if not parts:
        raise ValueError("gpu: an empty list asks for nothing; give for example gpu=1")
    if any(amount != parts[0][1] for _, amount in parts):
        raise ValueError(f"gpu: {list(asked)!r}: alternatives ask for the same amount of another class")
    return parts[0][1] | {"classes": [one for classes, _ in parts for one in classes]}


def _split(asked: GpuText) -> tuple[list[str], dict[str, Any]]:
    if isinstance(asked, bool):
        raise ValueError(f"gpu: {asked!r}: give a number of GPUs, a share or a memory")
    text = str(asked).strip()
    named, colon, amount = text.rpartition(":")
    if colon and not named:
        raise ValueError(f'gpu: {text!r}: give CLASS:AMOUNT, such as "H100:8"')
    if not colon and re.fullmatch(r"[A-Za-z][-A-Za-z0-9_.]*", text):
        named, amount = text, "1"
    return ([named] if named else []), gpu_amount(amount, text)


def gpu_amount(amount: str, text: str) -> dict[str, Any]:
    """The amount without a class, from `text`. Raises ValueError.

    A ratio is rounded down to thousandths, because most ratios have no end. Decimals are written by hand, so those that
    would be lost are refused.
    """
    if amount.isascii() and amount.isdigit() and int(amount):
        return {"count": int(amount)}
    if _MEMORY.fullmatch(amount):
        return {"memory": amount.removesuffix("B")}
    if ratio := _RATIO.fullmatch(amount):
        above, below = int(ratio[1]), int(ratio[2])
        if not 0 < above <= below:
            raise ValueError(f"gpu: {text!r}: a share is more than nothing and at most one GPU")
        if above == below:
            return {"count": 1}
        return {"memoryFraction": _share(MILLI * above // below)}
    try:
        share = Decimal(amount)
    except InvalidOperation:
        raise ValueError(
            f'gpu: {text!r}: give a number of GPUs (2), a share ("1/2", 0.5), a memory ("16Gi") or "CLASS:AMOUNT"'
        ) from None
    if not 0 < share < 1:
        raise ValueError(f"gpu: {text!r}: a share lies between 0 and 1; more than one GPU is a whole number of them")
    exact = share * MILLI
    if exact != int(exact):
        instead = (
            f"write {_share(int(exact))}, or a ratio such as 1/3, which is rounded down" if exact > 1 else SMALLEST
        )
        raise ValueError(f"gpu: {text!r}: a share has at most three decimals: {instead}")
    return {"memoryFraction": _share(int(exact))}


def _share(milli: int) -> str:
    if not milli:
        raise ValueError(f"gpu: {SMALLEST}")
    return f"0.{milli:03d}".rstrip("0")
