"""Raw dumps to examples: an example, the split of its conversation, and a reply.

A split is the same on every machine.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rejoinder.patterns import search_pattern

Split: TypeAlias = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")  # nothing is ever chosen on the test part
_WORD = search_pattern(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation so far and the response that followed."""

    context: tuple[str, ...]  # messages, oldest first: the history and, at the end, the input
    response: str
    id: str = ""  # unique within its source
    thread: str = ""  # its conversation (reply tree, product, file), which decides the split
    source: str = ""  # name of the corpus
    candidates: tuple[str, ...] = ()  # responses to choose from, where the data has them
    label: int | None = None  # index of the response among the candidates


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reply to choose from."""

    text: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else came with the reply and comes back with it, of JSON types."""
    title: str = ""
    """Subject of the reply: the heading of an FAQ, the name or shortcut of a canned reply."""
    examples: tuple[tuple[str, ...], ...] = ()
    """Conversations that the reply answers, oldest message first; a question is one message."""
    learned: tuple[tuple[str, ...], ...] = ()
    """More of these, out of chats in which the reply was sent; `Index.forget` takes them away."""


def split_of(thread: str) -> Split:
    """Return the split of all examples of a thread.

    With u = (1 + md5(thread) mod 4096) / 4096: train below 0.88, validation below 0.9, else test.
    DATA19's published rule trains below 0.9: validation is cut from its training part, and the test
    part is its own.
    """
    share = thread_share(thread)
    if share < 0.88:
        return "train"
    return "valid" if share < 0.9 else "test"


def thread_share(thread: str) -> float:
    """Return the u of `split_of`: above 0 and up to 1, in steps of 1/4096."""
    return (1 + int(_md5(thread), 16) % 4096) / 4096


def content_thread(messages: Iterable[str]) -> str:
    """Return the MD5 of a conversation's text, in hexadecimal.

    White space is collapsed; blank messages are left out.
    """
    lines = (" ".join(message.split()) for message in messages)
    return _md5("\n".join(line for line in lines if line))


def conversation_thread(messages: Iterable[str]) -> str:
    """Return the MD5 of a conversation's words, on which slightly different copies agree."""
    return _md5(" ".join(word for message in messages for word in words_of(message)))


def words_of(text: str) -> list[str]:
    """Return the words by which texts are compared: runs of letters and digits, casefolded."""
    return _WORD.findall(text.casefold())


def text_key(text: str) -> str:
    """Return the key by which replies are compared.

    Letter case, spaces, punctuation and Unicode's forms (NFKC) do not count.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = (" " if unicodedata.category(char)[0] == "P" else char for char in folded)
    return " ".join("".join(letters).split()) or folded


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()
