"""The plan of a pretraining corpus, as a strict TOML file.

It has sources, filters, caps and evaluation sets.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rejoinder.errors import InputError
from rejoinder.settings import Count, Natural, Share, read_toml, section, validate

PositiveShare: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
_WANTED = "no such recipe; name a TOML file, as recipes/corpus/open.toml"


@section
class Filters:
    """[filters]: which messages are fit to be read or given as responses.

    Words are those of `words_of`.
    """

    most_words: Count = 128  # a message with more words is too long
    fewest_letters: PositiveShare = 0.5
    """Least share of words of letters alone in the characters that are not spaces."""
    most_repeated: PositiveShare = 0.5
    """Of a message of 6 words or more, one word is at most this share."""
    most_equal_responses: Count = 100
    """Of a source's training pairs whose responses have equal words, draw this many."""


@section
class Leaks:
    """[leaks]: definition of a copy of evaluated data in the training and validation parts."""

    fewest_words: Count = 8
    """A pair (or text) with fewer words is common talk and no leak, even if it is the same."""
    gram: Count = 5  # words of a shingle
    overlap: PositiveShare = 0.5
    """Jaccard index of two sets of shingles from which on they are near-duplicates."""
    formula: Count = 200
    """A shingle that occurs in more evaluated pairs is a formula, and counts for no overlap."""


@section
class Source:
    """[[source]]: one file of dialogues in the input folder.

    If `file` is not given, it is `NAME.jsonl.zst`.
    """

    name: Name  # what its examples have as their source
    licence: str  # as its publisher says; goes into the counts and the model card
    file: str = ""  # name of the file
    cap: Count | None = None  # of more training pairs, draw dialogues that have this many
    clean: tuple[Literal["brackets", "parentheses", "spacing"], ...] = ()
    """`CLEANERS` that its messages go through."""
    only: str = ""  # dialogues whose id does not contain this text are not read
    alternating: bool = False
    """Two speakers take turns, so that every second message is by the same one."""
    transfer: bool = False
    """Nothing of it, or of what shares dialogues with it, is trained on: models are chosen by it,
    as a kind of conversation that they do not know."""
    about: str = ""  # what it is, and why it is capped, for those who read the counts

    def __post_init__(self) -> None:
        if self.transfer and self.cap is not None:
            raise ValueError(
                "cap limits training pairs, and with transfer = true there are none; leave one out"
            )


@section
class Evaluation:
    """[[evaluation]]: a set that models are evaluated on; nothing of it may be trained on."""

    name: Name  # what the counts call it
    reader: str
    """A corpus of `rejoinder data`, or `texts`: one text a line, the first column of a CSV file
    with a header, or the texts of a JSON object of lists of [text, label]."""
    files: Annotated[tuple[str, ...], Field(min_length=1)]
    """Paths below the folder of evaluation sets."""
    settings: tuple[str, ...] = ()  # of the corpus, each as NAME=VALUE


@section
class CorpusPlan:
    """What a corpus is made of."""

    kind: Literal["corpus"]  # tells the file from the recipes of training
    source: Annotated[tuple[Source, ...], Field(min_length=1)]
    """Of equal pairs the first stays, in this order."""
    seed: Natural = 0  # of all draws
    history: Natural = 10  # messages kept before the newest one of a context
    same_words: Count = 20
    """Two dialogues belong to one split if they share a pair of this many words or more."""
    spaced: Share = 0.0
    """Of the training and validation dialogues: `spaced_out`, so that a model reads both forms."""
    personas: Share = 0.0
    """Of alternating sources' training and validation examples: given a `persona_of` their own."""
    filters: Filters = Filters()
    leaks: Leaks = Leaks()
    evaluation: tuple[Evaluation, ...] = ()

    def __post_init__(self) -> None:
        for what, group in (("source", self.source), ("evaluation", self.evaluation)):
            names = [each.name for each in group]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"two {what}s are called {twice!r}; give each its own name")


@section
class _OtherCaps:
    kind: Literal["corpus"]
    base: Annotated[str, Field(pattern=r"^[^/\\\\]+\.toml$")]
    caps: dict[str, Count]


def load_corpus_plan(path: str | Path) -> CorpusPlan:
    """Read a plan, or one that changes another of its folder, `base`.

    It may change the caps of some sources, `[caps]`.
    """
    document = read_toml(path, _WANTED)
    if "base" not in document:
        return validate(CorpusPlan, document, str(path))
    smaller = validate(_OtherCaps, document, str(path))
    base = Path(path).parent / smaller.base
    plan = validate(CorpusPlan, read_toml(base, _WANTED), str(base))
    if unknown := sorted(smaller.caps.keys() - {source.name for source in plan.source}):
        raise InputError(
            f"{path}: [caps] names {unknown[0]!r}, which is not a source of {smaller.base}"
        )
    sources = (replace(each, cap=smaller.caps.get(each.name, each.cap)) for each in plan.source)
    return replace(plan, source=tuple(sources))
