"""Values as other systems write them → values as this API takes them; None where it is not clear what was meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from cotenant.api.scalars import respellings

_LABEL = re.compile(r"[A-Za-z][-A-Za-z0-9_.]{0,62}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)[.:]([A-Za-z_]\w*)(?:\(\))?", re.ASCII)


def same(value: Any) -> Any:
    return value


def whole(value: Any) -> int | None:
    """2, "2", 2.0 → 2; never less than none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or _is_endless(value):
        return None
    found = re.fullmatch(r"\s*([0-9]{1,9})(\.0+)?\s*", str(value))
    return int(found[1]) if found else None


def counted(value: Any) -> int | None:
    """A whole number of at least one."""
    return whole(value) or None


def text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_endless(value):
        return None
    return str(value) if isinstance(value, int | float) or (isinstance(value, str) and value) else None


def _is_endless(value: Any) -> bool:
    """True for an integer that Python would not write."""
    return isinstance(value, int) and value.bit_length() > 256


def listed(value: Any) -> list[Any] | None:
    """One value → a list of it."""
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "" else None


def one_of(words: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """Reader of single words by a table."""
    return lambda value: words.get(value) if isinstance(value, str | bool) else None


def name(value: Any) -> str | None:
    """Name of an object, given as a text or as `{name: …}`."""
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("name", "claimName", "secretName") if key in value), None)
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def names(value: Any) -> list[str] | None:
    """One label value or several."""
    words = value if isinstance(value, list) else [value]
    return words if words and all(isinstance(word, str) and _LABEL.fullmatch(word) for word in words) else None


def command(value: Any) -> list[str] | None:
    """ "python train.py" → ["python", "train.py"]; shell syntax goes to a shell; a bare file to Python."""
    if isinstance(value, list):
        given = [text(one) for one in value]
        words = [word for word in given if word is not None]
        return words if words and len(words) == len(given) else None
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        words = [] if re.search(r"[|&;<>$`\n*]", value) else shlex.split(value)
    except ValueError:
        words = []
    if not words:
        return ["sh", "-c", value]
    return ["python", *words] if words[0].endswith(".py") else words


def arguments(value: Any) -> list[str] | None:
    """Words of a text or of a map `{lr: 0.1}`, as a list."""
    if isinstance(value, Mapping):
        return [f"--{key}={text(inner)}" for key, inner in value.items() if text(inner) is not None] or None
    if isinstance(value, str):
        try:
            return shlex.split(value) or None
        except ValueError:
            return [value]
    return command(value) if isinstance(value, list) else None


def environment(value: Any) -> list[dict[str, Any]] | None:
    """{LR: 0.1}, ["LR=0.1"], [{LR: 0.1}] → [{name: LR, value: "0.1"}]; what is in that form already stays."""
    if isinstance(value, Mapping):
        made = [_variable(key, inner) for key, inner in value.items()]
    elif isinstance(value, list):
        made = [variable(one) for one in value]
    else:
        return None
    return [one for one in made if one is not None] if made and None not in made else None


def variable(one: Any) -> dict[str, Any] | None:
    """ "LR=0.1", {LR: 0.1} → {name: LR, value: "0.1"}."""
    if isinstance(one, str):
        key, found, value = one.partition("=")
        return _variable(key, value) if found else None
    if not isinstance(one, Mapping):
        return None
    if "name" in one:
        rest = {key: text(inner) if key == "value" else inner for key, inner in one.items()}
        return rest if rest.keys() <= {"name", "value", "valueFrom"} else None
    return _variable(*next(iter(one.items()))) if len(one) == 1 else None


def _variable(key: Any, value: Any) -> dict[str, Any] | None:
    shown = "" if value is None else text(value) or ("" if value == "" else None)
    fits = isinstance(key, str) and _VARIABLE.fullmatch(key)
    return {"name": key, "value": shown} if fits and shown is not None else None


def gpu(value: Any) -> dict[str, Any] | None:
    """2 → {count: 2}; 0.5 and "50%" → {memoryFraction: "0.5"}; 16Gi → {memory: 16Gi}; A100 → one of that class."""
    count = counted(value)
    if count is not None:
        return {"count": count}
    if isinstance(value, list):
        classes = names(value)
        return {"count": 1, "classes": classes} if classes else None
    part = respellings.fraction(value)
    if part is not None:
        return {"memoryFraction": part}
    if not isinstance(value, str):
        return None
    if found := re.fullmatch(r"([A-Za-z][-A-Za-z0-9_.]{0,62}):([1-9][0-9]?)", value):
        return {"count": int(found[2]), "classes": [found[1]]}
    size = respellings.memory(value)
    if size is not None:
        return {"memory": size}
    return {"count": 1, "classes": [value]} if _LABEL.fullmatch(value) else None


def entrypoint(value: Any) -> str | None:
    """ "train.main", "train:main()" → "train:main"."""
    found = _FUNCTION.fullmatch(value) if isinstance(value, str) else None
    return f"{found[1]}:{found[2]}" if found and found[2] != "py" else None


def claim(value: Any) -> dict[str, str] | None:
    found = name(value)
    return {"claimName": found} if found else None


def volume(value: Any) -> dict[str, Any] | None:
    """docker's "data:/data:ro" → a claim of that name, mounted there."""
    found = (
        re.fullmatch(r"([a-z0-9][-a-z0-9]{0,50}):(/[-A-Za-z0-9_./]+)(:ro|:rw)?", value)
        if isinstance(value, str)
        else None
    )
    if found is None:
        return None
    made = {"name": found[1], "mountPath": found[2].rstrip("/"), "persistentVolumeClaim": {"claimName": found[1]}}
    return {**made, "readOnly": True} if found[3] == ":ro" else made


def _mount(key: Any, path: Any) -> str | None:
    return f"{key}:{path}" if isinstance(key, str) and isinstance(path, str) else None


def volumes(value: Any) -> list[dict[str, Any]] | None:
    """["data:/data"], {data: /data}, {data: {mountPath: …}} → a list of volumes."""
    if isinstance(value, Mapping):
        made = [
            {"name": key, **inner} if isinstance(inner, Mapping) else volume(_mount(key, inner))
            for key, inner in value.items()
        ]
    else:
        made = [volume(one) for one in value] if isinstance(value, list) else [volume(value)]
    return [one for one in made if one is not None] if made and None not in made else None
