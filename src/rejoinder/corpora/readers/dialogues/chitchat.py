"""The BYU chit-chat conversations of students, from the PyPI package `chitchat-dataset` (MIT).

The thread is the hash of a conversation's words, so that another corpus which carries the same
conversations holds out the same ones (`byu_chitchat` of the pretraining corpus does).
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import Threads
from rejoinder.corpora.forms.formats import record_examples
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import conversation_thread
from rejoinder.errors import MissingExtraError


def packaged_file() -> Path:
    """Return the file of the installed package, or raise MissingExtraError."""
    try:
        file = importlib.resources.files("chitchat_dataset") / "dataset.json"
    except ModuleNotFoundError:
        raise MissingExtraError("the corpus chitchat", "demo") from None
    return Path(str(file))


def read_chitchat(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read the examples of all conversations of the package's file."""
    # Not by the package's own reader, which assumes the encoding of the user's locale.
    conversations = json.loads(path.read_text(encoding="utf-8"))
    threads = Threads()
    for name, conversation in conversations.items():
        turns = [
            " ".join(utterance["text"] for utterance in message)
            for message in conversation["messages"]
        ]
        reading.lines += 1
        record = {"turns": turns, "thread": conversation_thread(turns)}
        yield from record_examples(record, name, "chitchat", reading, threads)


CHITCHAT = Corpus(
    name="chitchat",
    title="BYU chit-chat: 4,017 conversations of students, from the PyPI package chitchat-dataset.",
    reads="the file that the package brings; no INPUT",
    licence="MIT",
    origin="pip install chitchat-dataset (in the extra demo); https://github.com/BYU-PCCL/chitchat-dataset",
    expected="7,168 conversations, 3,151 of them of one message",
    read=read_chitchat,
    packaged=packaged_file,
)
