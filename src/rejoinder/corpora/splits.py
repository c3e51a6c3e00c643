"""Which part of the data a conversation belongs to: stable, and the same on every machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from rejoinder.corpora.example import Split

TRAIN_SHARE = 0.88
TRAIN_AND_VALID_SHARE = 0.9
_WORD = re.compile(r"[^\W_]+")


def split_of(thread: str) -> Split:
    """The part that all examples of a thread belong to.

    With u = (1 + md5(thread) mod 4096) / 4096: train below 0.88, validation below 0.9, test otherwise. DATA19's
    published rule trains on everything below 0.9, so the validation part is cut out of its training part, and the
    test part is the same as there.

    Args:
        thread: name of the conversation, product or file; hashed as UTF-8, the digest read as a big-endian number.

    >>> split_of("alice")
    'train'
    """
    share = thread_share(thread)
    if share < TRAIN_SHARE:
        return "train"
    return "valid" if share < TRAIN_AND_VALID_SHARE else "test"


def thread_share(thread: str) -> float:
    """The u of `split_of`: a number above 0 and up to 1, in steps of 1/4096, that follows from the thread's name."""
    digest = hashlib.md5(thread.encode("utf-8"), usedforsecurity=False).digest()
    return (1 + int.from_bytes(digest, "big") % 4096) / 4096


def content_thread(messages: Iterable[str]) -> str:
    """Name for a conversation that has none: the MD5 of its text, in hexadecimal.

    White space is collapsed (every run of it is one space, none at the ends of a message), blank messages are left
    out, and the messages are joined with newlines. So the same conversation gets the same thread, and falls into
    the same part, in every corpus that carries it, whatever its id there.
    """
    lines = (" ".join(message.split()) for message in messages)
    text = "\n".join(line for line in lines if line)
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()


def words_of(text: str) -> list[str]:
    """The words of a text, to compare texts by: runs of letters and digits (of any script), casefolded.

    >>> words_of("It's  GREAT!")
    ['it', 's', 'great']
    """
    return _WORD.findall(text.casefold())


def conversation_thread(messages: Iterable[str]) -> str:
    """Name for a conversation by its words alone: the MD5 of all its words, joined with spaces, in hexadecimal.

    Case, punctuation, white space and where one message ends and the next begins make no difference, so packages of
    the same conversations that cut or write them a little differently hold out the same ones:
    `split_of(conversation_thread(messages))`. The messages are the whole conversation, in order.
    """
    text = " ".join(word for message in messages for word in words_of(message))
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).hexdigest()
