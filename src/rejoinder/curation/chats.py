"""Old chats as examples: exports of chat programs and desks, or folders of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.redaction import redact_example
from rejoinder.corpora.registry.sources import find_corpus
from rejoinder.corpora.schema import Example
from rejoinder.curation.matching import NEWEST
from rejoinder.errors import InputError
from rejoinder.settings import validate


def read_chats(
    paths: Iterable[Path], settings: Mapping[str, object], note: Callable[[str], None]
) -> Iterator[Example]:
    """Yield the examples of chats, redacted by default.

    Args:
        paths: exports in any form that `rejoinder data chats` reads, or data folders.
        settings: of the corpus "chats".
        note: called with what is to be known about a file.

    Raises:
        InputError: a path does not exist or cannot be read, or a setting is unknown.
    """
    corpus = find_corpus("chats")
    values: Any = validate(corpus.settings, {"redact": True, **settings}, "settings of chats")
    assert corpus.read is not None
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist; name an export of chats or a data folder")
        if path.is_dir() and any(path.glob("*.parquet")):
            examples = read_examples(path)
            yield from map(redact_example, examples) if values.redact else examples
            continue
        reading = Reading(history=NEWEST)
        yield from corpus.read(path, reading, values)
        for text in reading.notes:
            note(text)
