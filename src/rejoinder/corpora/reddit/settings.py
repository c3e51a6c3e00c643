"""Selection and truncation of Reddit's comments."""

from __future__ import annotations

from typing import Literal

from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern
from rejoinder.settings import documented

_NAME = match_pattern(r"\w++")


@documented
class RedditSettings:
    """Selection and truncation of comments. The defaults are those of DATA19, section 3.1."""

    unit: Literal["characters", "words"] = "characters"
    """Unit of lengths: `characters` (DATA19) or `words`, runs without white space (ACL19)."""
    min_length: int = 9
    """Least length of a response and of the message that it answers, in units."""
    max_length: int = 127
    """Greatest length of both, in units."""
    depth: int = 10
    """Most messages of a context: parent and earlier ancestors. `--history` can only lower it."""
    cut: int = 127
    """Characters to which earlier ancestors are truncated, at the end of a word."""
    subreddits: tuple[str, ...] = ()
    """Names of the subreddits to read; empty: all. Capital letters do not matter."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_length <= self.max_length:
            raise InputError(
                f"min_length is {self.min_length} and max_length {self.max_length}; "
                "lengths go from 1 up, and the first is not above the second"
            )
        if not all(_NAME.fullmatch(name) for name in self.subreddits):
            raise InputError(
                f"subreddits are {list(self.subreddits)}; "
                'give names without r/, such as ["AskReddit"]'
            )
        for name, value in (("depth", self.depth), ("cut", self.cut)):
            if value < 1:
                raise InputError(f"{name} is {value}; it is at least 1")
