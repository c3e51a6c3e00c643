"""What examples can be built from: each corpus by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rejoinder.corpora import (
    amazon_qa,
    chitchat,
    convai2,
    csv_pairs,
    dstc7,
    faq,
    jsonl,
    neighbours,
    opensubtitles,
    reddit,
    semeval,
    ubuntu,
    wikipedia,
)
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import SPLITS
from rejoinder.corpora.job import Input
from rejoinder.errors import InputError

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (
        chitchat.CORPUS,
        jsonl.CORPUS,
        csv_pairs.CORPUS,
        faq.CORPUS,
        jsonl.DIALOGUES,
        opensubtitles.CORPUS,
        amazon_qa.CORPUS,
        wikipedia.CORPUS,
        neighbours.CORPUS,
        ubuntu.CORPUS,
        dstc7.CORPUS,
        convai2.CORPUS,
        semeval.CORPUS,
        reddit.CORPUS,
    )
}
"""Every corpus. A new one is imported above (its file imports no extra's library) and listed here."""


def find_corpus(source: str | Corpus) -> Corpus:
    """The corpus of this name; one that is given itself is given back.

    Raises:
        InputError: there is none of that name.
    """
    if isinstance(source, Corpus):
        return source
    if source not in CORPORA:
        raise InputError(f"no source {source!r}; there are {', '.join(CORPORA)}")
    return CORPORA[source]


def find_inputs(corpus: Corpus, inputs: Sequence[str | Path]) -> list[Input]:
    """The files to read, once they are seen to fit the corpus and to be there, before any work.

    Args:
        corpus: the corpus.
        inputs: as the user gives them: paths, or "train=PATH", "valid=PATH", "test=PATH" where there is no file of
            that whole name.

    Raises:
        InputError: says what does not fit.
        MissingExtraError: the corpus' package is not installed.
    """
    if corpus.packaged is not None:
        if inputs:
            raise InputError(f"{corpus.name} brings its own data; leave {inputs[0]} out")
        return [Input(corpus.packaged())]
    if not inputs:
        raise InputError(f"{corpus.name} reads files; name at least one")
    return [_find_input(each) for each in inputs]


def _find_input(given: str | Path) -> Input:
    prefix, equals, rest = str(given).partition("=")
    part = next((split for split in SPLITS if split == prefix), None)
    found = Input(Path(given)) if part is None or Path(given).exists() else Input(Path(rest), part)
    if found.path.is_dir():
        raise InputError(f"{found.path} is a folder; name the files in it")
    if not found.path.exists():
        hint = "; what may stand before = is train, valid or test" if equals and part is None else ""
        raise InputError(f"{found.path} does not exist; check the name{hint}")
    return found
