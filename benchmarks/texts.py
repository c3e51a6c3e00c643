"""Replies and contexts of benchmarks: from files, or from a chit-chat data set."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.splits import split_of
from rejoinder.progress import track


def read_texts(
    replies: str | None, contexts: str | None, count: int, queries: int
) -> tuple[list[str], list[list[str]]]:
    """Return distinct replies, and contexts from other conversations.

    They come from the two files, or are messages of chit-chat.
    """
    if replies is None or contexts is None:
        messages = list(dict.fromkeys(_chitchat_messages()))
        random.Random(0).shuffle(messages)
        return messages[queries:][:count], [[text] for text in messages[:queries]]
    found: list[list[Any]] = []
    for name, most in ((replies, count), (contexts, queries)):
        with Path(name).open(encoding="utf-8") as lines:
            found.append([json.loads(line) for line in itertools.islice(lines, most)])
    return [each["text"] for each in found[0]], found[1]


def _chitchat_messages() -> list[str]:
    """Return the messages of chit-chat in their order, repeated ones included."""
    import chitchat_dataset

    return [text for text in chitchat_dataset.MessageDataset() if text.strip()]


def read_conversations(
    data: Sequence[str], replies: int, contexts: int
) -> tuple[list[str], list[list[str]]]:
    """Return distinct responses of conversations, and contexts of others, in a random order."""
    if not data:
        # repeated messages stay until the cut: published figures were measured with this draw
        messages = _chitchat_messages()
        random.Random(0).shuffle(messages)
        return list(dict.fromkeys(messages[contexts:]))[:replies], [
            [text] for text in messages[:contexts]
        ]
    responses: dict[str, None] = {}
    others: dict[str, list[str]] = {}
    for name in data:
        with track(f"Reading {name}") as advance:
            for example in read_examples(name):
                if (part := split_of(example.thread)) == "train":
                    responses[example.response] = None
                elif part == "test":
                    others.setdefault(example.thread, list(example.context))
                advance(1)
    rng = random.Random(0)
    drawn = rng.sample(list(responses), min(replies, len(responses)))
    return drawn, rng.sample(list(others.values()), min(contexts, len(others)))
