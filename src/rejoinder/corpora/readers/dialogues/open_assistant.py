"""OpenAssistant: trees of questions to an assistant, and what people answered in its place.

Köpf et al. 2023. A line is a tree: each message has replies, and each of these again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.forms.formats import text_of
from rejoinder.corpora.json_values import dicts
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_lines, parse_object
from rejoinder.corpora.schema import Example
from rejoinder.settings import documented


@documented
class OpenAssistantSettings:
    """Settings of `rejoinder data open-assistant`."""

    language: str = "en"
    """Of the trees that are read, as `lang` has it; "" reads all."""


def read_open_assistant(
    path: Path, reading: Reading, settings: OpenAssistantSettings
) -> Iterator[Example]:
    """Yield the assistant's messages of a file, each after the messages above it in its tree."""

    def parse(_: int, line: str) -> Iterator[Example]:
        record = parse_object(line)
        root = record.get("prompt")
        if not isinstance(root, dict):
            raise BadRecordError(
                "no prompt; a tree of messages is read (*.trees.jsonl), not a list of them"
            )
        if settings.language and root.get("lang", settings.language) != settings.language:
            reading.drop("trees in other languages")
            return
        thread = text_of(record.get("message_tree_id"), "message_tree_id")
        yield from _examples(root, thread, reading)

    return parse_lines(path, reading, parse)


def _examples(root: Mapping[str, Any], thread: str, reading: Reading) -> Iterator[Example]:
    """Yield the examples of a tree, branch by branch."""
    open_branches: list[tuple[Mapping[str, Any], tuple[str, ...]]] = [(root, ())]
    while open_branches:
        message, above = open_branches.pop()
        text = text_of(message.get("text"), "text")
        if message.get("deleted") or not text.strip():
            reading.drop("deleted and blank messages, with their replies")
            continue
        if message.get("role") == "assistant" and above:
            name = text_of(message.get("message_id"), "message_id")
            yield Example(reading.newest(above), text, name, thread, "open-assistant")
        replies = dicts(message.get("replies", []))
        open_branches += [(reply, (*above, text)) for reply in reversed(replies)]


OPEN_ASSISTANT = Corpus(
    name="open-assistant",
    title="OpenAssistant: questions to an assistant, and what people answered in its place.",
    reads="*_oasst_ready.trees.jsonl.gz, of OASST1 and OASST2",
    licence="Apache-2.0",
    origin="huggingface.co/datasets/OpenAssistant/oasst1, oasst2",
    read=read_open_assistant,
    settings=OpenAssistantSettings,
)
