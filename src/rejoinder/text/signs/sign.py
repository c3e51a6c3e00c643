"""Signs: what a text may say of a word."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Sign(Enum):
    """A statement of a text on a word."""

    OPEN = "asked, or denied in a way that says little of what is wanted"
    OFFERED = "asked for as an offer: whether there is one"
    WISHED = "to be done, or named"
    ABLE = "can be done again"
    UNABLE = "cannot be done"
    HAD = "is had, or was got"
    SO = "is so, or was done"
    UNWISHED = "not to be done"
    UNINTENDED = "was done, and is not wished"
    NOT_SO = "is not so, or was not done"

    @property
    def is_denial(self) -> bool:
        """Return whether the word is denied."""
        return self in (Sign.UNWISHED, Sign.NOT_SO)


class Said(NamedTuple):
    """The sign of a word, and whether the word is the other pole of a pair: "off", not "on"."""

    sign: Sign
    is_other: bool = False
