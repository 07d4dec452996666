"""Which Secrets the operator keeps filled with certificates: a setting, as JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class ServedSecret(BaseModel):
    """A Secret that servers of these DNS names mount."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str
    name: str
    servers: tuple[str, ...] = Field(min_length=1)


_READER = TypeAdapter(tuple[ServedSecret, ...])


def read(text: str) -> tuple[ServedSecret, ...]:
    """Raises ValueError with what is wrong."""
    try:
        return _READER.validate_json(text or "[]")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"has no list of Secrets ({where}: {first['msg']}); write"
            ' [{"namespace": "cotenant-system", "name": "cotenant-metrics-serving", "servers": ["cotenant.example"]}]'
        ) from error


def _checked(text: str) -> str:
    read(text)
    return text


ServedSecrets = Annotated[str, AfterValidator(_checked)]
