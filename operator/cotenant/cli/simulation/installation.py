"""The settings of an installation, from the operator's Deployment among the documents or from a file of values.

Used by `cotenant simulate`. The chart writes settings into the environment of the operator's container. Flags override
them, as in the operator itself. A value that the Deployment takes from another object (`valueFrom`) is unknown here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from cotenant.cli.errors import UserError
from cotenant.controller.settings import PREFIX, Settings, SettingsError

Document = Mapping[str, Any]
_NAMES = frozenset(Settings.model_fields)
_LABELS = {"app.kubernetes.io/name": "cotenant", "app.kubernetes.io/component": "operator"}


def from_values(body: object, where: str) -> Settings:
    """Settings by name, from the chart's values (`operator.settings`) or from the settings alone."""
    values = body if isinstance(body, Mapping) else {}
    operator = values.get("operator")
    settings = operator.get("settings") or {} if isinstance(operator, Mapping) else values
    if not isinstance(settings, Mapping) or not isinstance(body, Mapping):
        raise UserError(f"{where}: must be the chart's values, or settings of the operator by name")
    if unknown := sorted(str(name) for name in settings.keys() - _NAMES):
        raise UserError(
            f"{where}: unknown setting: {', '.join(unknown)}; `cotenant operator --help` lists them, with - for _"
        )
    return _read({PREFIX + name.upper(): str(value) for name, value in settings.items()}, {}, where)


def from_documents(documents: Iterable[Document]) -> tuple[Settings, str] | None:
    """Settings of the operator's Deployment, and its name. None if the documents contain none."""
    found = [document for document in documents if document.get("kind") == "Deployment" and _is_operator(document)]
    if not found:
        return None
    where = [f"Deployment {one['metadata'].get('namespace')}/{one['metadata'].get('name')}" for one in found]
    if len(found) > 1:
        raise UserError(
            f"more than one operator is among the documents: {' and '.join(where)}; give --settings or only one of them"
        )
    containers = found[0].get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
    container: Document = next((one for one in containers if one.get("name") == "operator"), {})
    environment = {one["name"]: str(one["value"]) for one in container.get("env") or () if "value" in one}
    flags = _flags([*(container.get("command") or ()), *(container.get("args") or ())])
    return _read(environment, flags, where[0]), where[0]


def changed(settings: Settings) -> dict[str, Any]:
    """The settings that influence decisions and differ from the defaults."""
    default, names = Settings(), ("history_half_life_s", *(field.name for field in fields(settings.policy)))
    return {
        name: getattr(settings, name)
        for name in sorted(_NAMES.intersection(names))
        if getattr(settings, name) != getattr(default, name)
    }


def _is_operator(document: Document) -> bool:
    labels = (document.get("metadata") or {}).get("labels") or {}
    return all(labels.get(key) == value for key, value in _LABELS.items())


def _flags(words: Sequence[str]) -> dict[str, str]:
    """Flags of the operator's command: `--moves 2` and `--moves=2`."""
    found: dict[str, str] = {}
    for word, follower in zip(words, [*words[1:], ""], strict=True):
        flag, given, value = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if flag.startswith("--") and name in _NAMES:
            found[name] = value if given else follower
    return found


def _read(environment: Mapping[str, str], flags: Mapping[str, str], where: str) -> Settings:
    try:
        return Settings.read(environment, flags)
    except SettingsError as error:
        raise UserError(f"{where}: {error}") from error
