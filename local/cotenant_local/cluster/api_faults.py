"""Faults of the API server that are made on purpose: the document that `local/controlplane/apifaults` (Go) reads."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

CODES = (409, 429, 500, 503, 504)


def _code(value: int) -> int:
    if value not in CODES:
        raise ValueError(f"{value} is none of {', '.join(map(str, CODES))}")
    return value


Code = Annotated[int, AfterValidator(_code)]
Rate = Annotated[float, Field(ge=0, le=1)]


class ApiFaults(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    latency_ms: int = Field(default=0, ge=0)
    """Added to every request; `jitter_ms` is up to that much more."""
    jitter_ms: int = Field(default=0, ge=0)
    error_rate: Rate = 0.0
    """Of requests that are refused before the API server sees them, with one of `error_codes`."""
    error_codes: tuple[Code, ...] = (409, 429, 500)
    lost_rate: Rate = 0.0
    """Of requests that are carried out, and whose answer is lost."""
    cuts_per_min: float = Field(default=0.0, ge=0)
    """How often a watch breaks, on average."""
    seed: int = Field(default=0, ge=0)
    only_user_like: str = ""
    """A part of the User-Agent; other clients are left alone."""
