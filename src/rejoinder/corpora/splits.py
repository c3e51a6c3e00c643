"""Train, valid or test: the part of a conversation, by a hash of its thread."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal, TypeAlias

from rejoinder.corpora.keys import words_of

Split: TypeAlias = Literal["train", "valid", "test"]

SPLITS: tuple[Split, ...] = ("train", "valid", "test")  # nothing is ever chosen on the test part


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


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()
