"""What examples can be built from: each corpus by its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rejoinder.corpora import chitchat, convai2, csv_pairs, dstc7, jsonl, semeval, ubuntu
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        chitchat.CORPUS,
        jsonl.CORPUS,
        csv_pairs.CORPUS,
        ubuntu.CORPUS,
        dstc7.CORPUS,
        convai2.CORPUS,
        semeval.CORPUS,
    )
}
"""Every corpus. A new one is imported above (its file imports no extra's library) and listed here."""


def check_source(source: str, inputs: Sequence[str | Path]) -> Corpus:
    """The corpus of this name, once the inputs are seen to fit it and to be there, before any work.

    Raises:
        InputError: says what does not fit.
    """
    if source not in CORPORA:
        raise InputError(f"no source {source!r}; there are {', '.join(CORPORA)}")
    corpus = CORPORA[source]
    if corpus.packaged is not None and inputs:
        raise InputError(f"{source} brings its own data; leave {inputs[0]} out")
    if corpus.packaged is None and not inputs:
        raise InputError(f"{source} reads files; name at least one")
    for path in map(Path, inputs):
        if not path.exists():
            raise InputError(f"{path} does not exist; check the name")
    return corpus


def read_source(source: str, inputs: Sequence[str | Path], reading: Reading, settings: Any = None) -> Iterator[Example]:
    """Read the examples of a source, file after file.

    Raises:
        InputError: a fault of the source, a file or a line.
    """
    corpus = check_source(source, inputs)
    assert corpus.read is not None
    for path in [corpus.packaged()] if corpus.packaged is not None else map(Path, inputs):
        yield from corpus.read(path, reading, settings or corpus.settings())
