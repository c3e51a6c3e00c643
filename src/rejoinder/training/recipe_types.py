"""What the sections of a recipe have in common: strictness, kinds of numbers."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Count: TypeAlias = Annotated[int, Field(ge=1)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Decay: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


def exactly_one(section: object, *names: str) -> None:
    """Raise ValueError unless exactly one of the fields is given."""
    given = [name for name in names if getattr(section, name) is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(names)}; given: {', '.join(given) or 'none'}")
