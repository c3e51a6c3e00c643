"""The corpora by name, and their inputs and settings as a user gives them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.forms import csv_pairs, formats
from rejoinder.corpora.lines import strip_compression
from rejoinder.corpora.readers import dialogues, pairs, wikipedia
from rejoinder.corpora.reddit import corpus as reddit
from rejoinder.corpora.registry.chats import CHATS
from rejoinder.corpora.registry.faq import FAQ
from rejoinder.corpora.splits import SPLITS
from rejoinder.errors import InputError
from rejoinder.settings import field_texts, parse_setting, text_fields, validate

# A new corpus is imported above (its file imports no library of an extra) and listed here.
_ALL = [
    dialogues.CHITCHAT,
    CHATS,
    formats.JSONL,
    csv_pairs.CSV,
    FAQ,
    formats.DIALOGUES,
    pairs.OPENSUBTITLES,
    pairs.AMAZON_QA,
    wikipedia.CORPUS,
    wikipedia.SENTENCES,
    pairs.UBUNTU,
    dialogues.DSTC7,
    dialogues.CONVAI2,
    dialogues.DAILY_DIALOG,
    dialogues.EMPATHETIC,
    dialogues.MULTIWOZ,
    dialogues.OPEN_ASSISTANT,
    pairs.SEMEVAL,
    reddit.CORPUS,
]
CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in _ALL}


def find_corpus(source: str | Corpus) -> Corpus:
    """Return the corpus of this name, or raise InputError; return a corpus itself as it is."""
    if isinstance(source, Corpus):
        return source
    if source not in CORPORA:
        raise InputError(f"no source {source!r}; there are {', '.join(CORPORA)}")
    return CORPORA[source]


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a corpus."""

    name: str
    kind: str  # its type as the code writes it
    default: Any
    meaning: str


def settings_of(corpus: Corpus) -> list[Setting]:
    """Return the settings of a corpus, in the order of its dataclass."""
    texts = field_texts(corpus.settings)
    return [
        Setting(
            name=item.name,
            kind=str(item.type),
            default=item.default,
            meaning=texts.get(item.name, ""),
        )
        for item in dataclasses.fields(corpus.settings)
    ]


def read_settings(corpus: Corpus, assignments: Sequence[str]) -> Any:
    """Return `corpus.settings` with values written as "name=value".

    InputError: a name is unknown, or a value is not allowed.
    """
    values = parse_settings(corpus, assignments)
    if values and not dataclasses.fields(corpus.settings):
        raise InputError(f"--set {assignments[0]}: {corpus.name} has no settings")
    return validate(corpus.settings, values, f"settings of {corpus.name}")


def parse_settings(corpus: Corpus, assignments: Sequence[str]) -> dict[str, Any]:
    """Return the values that are written as "name=value", unchecked."""
    texts = text_fields(corpus.settings)
    return dict(parse_setting(text, "name=value", texts) for text in assignments)


def find_inputs(corpus: Corpus, inputs: Sequence[str | Path]) -> list[Input]:
    """Return the files to read; InputError: they do not exist or do not fit the corpus.

    Inputs are paths, or "train=PATH", "valid=PATH", "test=PATH" if no file has that whole name.
    """
    if corpus.packaged is not None:
        if inputs:
            raise InputError(f"{corpus.name} brings its own data; leave {inputs[0]} out")
        return [Input(corpus.packaged())]
    if not inputs:
        raise InputError(f"{corpus.name} reads files; name at least one")
    files = [_find_input(text) for text in inputs]
    paths = [strip_compression(file.path).absolute() for file in files]
    names = _names(paths)
    stems = _stems({path: names.get(path, path.name) for path in paths})
    return [
        dataclasses.replace(file, name=names.get(path, ""), stem=stems[path])
        for file, path in zip(files, paths, strict=True)
    ]


def _names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the shortest distinct ends of those paths that share a file name."""
    names: dict[Path, str] = {}
    alike = _alike({path: path.name for path in paths})
    length = 1
    while alike:
        length += 1
        longer = {path: "/".join(path.parts[-length:]) for path in alike}
        names.update(longer)
        alike = _alike(longer)
    return names


def _stems(names: Mapping[Path, str]) -> dict[Path, str]:
    """Return the names of files without suffixes, but for those that only the suffix tells."""
    stems = {path: Path(name).with_suffix("").as_posix() for path, name in names.items()}
    return stems | {path: names[path] for path in _alike(stems)}


def _alike(names: Mapping[Path, str]) -> list[Path]:
    """Return the paths whose names are not distinct."""
    counts = Counter(names.values())
    return [path for path, name in names.items() if counts[name] > 1]


def _find_input(text: str | Path) -> Input:
    prefix, _, path = str(text).partition("=")
    part = next((split for split in SPLITS if split == prefix), None)
    file = Input(Path(path), part)
    if part is None or Path(text).exists():
        file = Input(Path(text))
    if file.path.is_dir():
        raise InputError(f"{file.path} is a folder; name the files in it")
    if not file.path.exists():
        raise InputError(
            f"{file.path} does not exist; "
            "check the name, before which may stand train=, valid= or test="
        )
    return file
