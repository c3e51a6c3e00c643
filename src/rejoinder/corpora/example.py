"""One example, and the part of the data that its conversation belongs to: the same on every machine."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Split: TypeAlias = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")  # nothing is ever chosen on the test part
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation so far and the response that followed."""

    context: tuple[str, ...]  # messages, oldest first; the newest one is the *input*, the others the *history*
    response: str
    id: str = ""  # unique within its source
    thread: str = ""  # name of the conversation (reply tree, product, file) that it comes from; the split goes by it
    source: str = ""  # name of the corpus
    candidates: tuple[str, ...] = ()  # responses to choose from, where the data gives them
    label: int | None = None  # place of the response among the candidates


def split_of(thread: str) -> Split:
    """Return the part that all examples of a thread belong to.

    With u = (1 + md5(thread) mod 4096) / 4096: train below 0.88, validation below 0.9, test otherwise. DATA19's
    published rule trains on everything below 0.9: validation is cut out of its training part, the test part is its own.
    """
    share = thread_share(thread)
    return "train" if share < 0.88 else "valid" if share < 0.9 else "test"


def thread_share(thread: str) -> float:
    """Return the u of `split_of`: above 0 and up to 1, in steps of 1/4096."""
    return (1 + int(_md5(thread), 16) % 4096) / 4096


def content_thread(messages: Iterable[str]) -> str:
    """Name a conversation by the MD5 of its text, in hexadecimal; white space is collapsed, blank messages left out."""
    lines = (" ".join(message.split()) for message in messages)
    return _md5("\n".join(line for line in lines if line))


def conversation_thread(messages: Iterable[str]) -> str:
    """Name a conversation by the MD5 of its words: packages that cut or write it a little differently agree."""
    return _md5(" ".join(word for message in messages for word in words_of(message)))


def words_of(text: str) -> list[str]:
    """Return the words to compare texts by: runs of letters and digits (of any script), casefolded."""
    return _WORD.findall(text.casefold())


def text_key(text: str) -> str:
    """Return what replies are compared by: letter case, spaces, punctuation and Unicode's forms (NFKC) do not count."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(" " if unicodedata.category(c)[0] == "P" else c for c in folded).split()) or folded


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()
