"""One example: a context and the response that followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
"""Parts of a data folder. Nothing is ever chosen on the test part."""


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation so far and the response that followed.

    Attributes:
        context: messages, oldest first; the newest one is the *input*, the others the *history*.
        response: the message that followed.
        id: name of the example, unique within its source.
        thread: name of the conversation (reply tree, product, file) that it comes from; the split goes by it.
        source: name of the corpus.
        candidates: responses to choose from, where the data gives them.
        label: place of the response among the candidates.
    """

    context: tuple[str, ...]
    response: str
    id: str = ""
    thread: str = ""
    source: str = ""
    candidates: tuple[str, ...] = ()
    label: int | None = None
